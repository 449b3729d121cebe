"""The rules about attempts, each seen to speak up on made-up histories and to be silent on good ones."""

from typing import Any

import msgspec
import pytest

from asyncjobs.telemetry.events import (
    AttemptEnded,
    AttemptStarted,
    ClaimWasLost,
    Event,
    JobsGivenBack,
    JobsRescued,
    OutcomeWritten,
    RunnerDied,
)
from asyncjobs.testing.attempts import Attempt, LinePlace, Recorded, attempts_in, late, out_of_order, overlapping, uncounted
from asyncjobs.testing.auditor import unended


def started(job_id: int, token: int, attempt: int = 1, runner_id: int = 1, key: str | None = None) -> AttemptStarted:
    return AttemptStarted(
        job_id=job_id, type="t", queue="q", attempt=attempt, token=token, runner_id=runner_id, serialization_key=key
    )


def ended(job_id: int, token: int, outcome: str = "completed") -> AttemptEnded:
    return AttemptEnded(job_id=job_id, type="t", queue="q", attempt=1, token=token, runner_id=1, outcome=outcome)


def history(*events: Event) -> list[Attempt]:
    return attempts_in([Recorded(float(at), event) for at, event in enumerate(events)])


def promises(found: list[Any]) -> list[tuple[str, int | None]]:
    return [(violation.promise, violation.job_id) for violation in found]


RESCUED = JobsRescued(job_ids=[1], reason="dead")
FIRST, BOTH = [started(1, 10), ended(1, 10, "retry")], [started(1, 10), started(1, 11, 2, runner_id=2)]
STOPPED = JobsGivenBack(runner_id=2, job_ids=[1], reason="its runner stopped")
SECOND, AGAIN = [started(1, 11, 2), ended(1, 11)], [started(1, 11), ended(1, 11)]


def lost_as(*numbers: int) -> list[Event]:
    """Attempts with these numbers, of which each was lost with its runner."""
    return [event for at, number in enumerate(numbers) for event in (started(1, 20 + at, number), RESCUED)]


LAST = [started(1, 12, 2), ended(1, 12)]
OF_K = [started(1, 10, key="k"), started(2, 11, key="k"), started(3, 12, key="other")]

#: What happened, and what is wrong with attempts that ran at the same time.
AT_ONCE: dict[str, tuple[list[Event], list[tuple[str, int]]]] = {
    "one after the other": ([*FIRST, *SECOND], []),
    "two of one job": ([started(1, 10), started(1, 11, 2), ended(1, 10, "retry"), ended(1, 11)], [("P2", 1)]),
    "two with one token": ([started(1, 10), ended(1, 10), started(2, 10), ended(2, 10)], [("P2", 2)]),
    "beside one whose claim was lost": ([BOTH[0], ClaimWasLost(job_id=1, token=10, runner_id=1, during="ack"), BOTH[1]], []),
    "beside one that was rescued": ([BOTH[0], RESCUED, BOTH[1]], []),
    "beside one of a dead runner": ([BOTH[0], RunnerDied(runner_id=1, unchanged_seconds=30), BOTH[1]], []),
    "two of one key": ([*OF_K, ended(1, 10), ended(2, 11), ended(3, 12)], [("P3", 2)]),
}


@pytest.mark.parametrize(("happened", "violations"), AT_ONCE.values(), ids=AT_ONCE)
def test_attempts_that_run_at_the_same_time(happened: list[Event], violations: list[tuple[str, int]]) -> None:
    assert promises(overlapping(history(*happened))) == violations


#: What happened to job 1, how many attempts the table counts, and whether that is wrong.
COUNTS: dict[str, tuple[list[Event], int, bool]] = {
    "one after the other": ([*FIRST, *SECOND], 2, False),
    "none after a failure": ([*FIRST, *AGAIN], 1, True),
    "none after a crash": ([started(1, 10), RESCUED, *AGAIN], 1, True),
    "none after a second crash": ([started(1, 10), RESCUED, started(1, 11, 2), RESCUED, *LAST], 2, False),  # it may pay nothing
    "none after a second crash, the first seen by its runner": (
        [*FIRST, ClaimWasLost(job_id=1, token=10, runner_id=1, during="ack"), started(1, 11, 2), RESCUED, *LAST],
        2,
        False,
    ),
    "less than before after a second crash": ([*lost_as(1, 2), *AGAIN], 1, True),
    "none after any crash but the first": ([*lost_as(1, 2, 2, 2), *LAST], 2, False),
    "less in the table after a second crash": (lost_as(1, 2), 1, False),
    "less in the table after a crash": (lost_as(1), 0, True),
    "none after a failure and a crash": ([*FIRST, started(1, 11, 2), RESCUED, *LAST], 2, True),
    "after a snooze": ([started(1, 10), ended(1, 10, "snooze"), *AGAIN], 1, False),
    "after a stop": ([started(1, 10), ended(1, 10, "interrupted"), *AGAIN], 1, False),
    "after a giving back": ([started(1, 10), JobsGivenBack(runner_id=1, job_ids=[1], reason="lost answer"), *AGAIN], 1, False),
    "after an end that its runner, cut off at its stop, could not write": ([*FIRST, STOPPED, *AGAIN], 1, False),
    "none after an end that was written": (
        [*FIRST, OutcomeWritten(job_id=1, token=10, runner_id=1, status="failed"), STOPPED, *AGAIN],
        1,
        True,
    ),
    "the first is none": ([started(1, 10, 0), ended(1, 10)], 1, True),
    "less in the table": ([*FIRST, started(1, 11, 2), ended(1, 11, "retry")], 1, True),
}


@pytest.mark.parametrize(("happened", "count", "is_wrong"), COUNTS.values(), ids=COUNTS)
def test_attempts_are_counted(happened: list[Event], count: int, *, is_wrong: bool) -> None:
    assert promises(uncounted(history(*happened), {1: count})) == [("P7", 1)] * is_wrong


@pytest.mark.parametrize(("count", "is_started_over"), [(1, True), (1, False), (0, True)])
def test_what_an_operator_started_over_counts_anew(count: int, *, is_started_over: bool) -> None:
    found = uncounted(history(*lost_as(1, 2, 3), *AGAIN), {1: count}, {1} if is_started_over else ())
    assert promises(found) == [("P7", 1)] * (not is_started_over)


LINE = [LinePlace("k", 1, 100), LinePlace("k", 2, 101)]
OVERTOOK = [started(2, 10), ended(2, 10), started(1, 11), ended(1, 11)]
BETWEEN = [*FIRST, started(2, 11), ended(2, 11), started(1, 12, 2), ended(1, 12)]


@pytest.mark.parametrize(
    ("happened", "line", "is_wrong"),
    [
        (OVERTOOK, LINE, True),
        (OVERTOOK, [LINE[0], LinePlace("other", 2, 101)], False),
        (BETWEEN, LINE, True),
        (OVERTOOK, [LinePlace("k", 1, 100, times=2), LINE[1]], False),
    ],
    ids=["before the one in front", "in another line", "between two attempts of the one in front", "one that joined again"],
)
def test_starts_are_in_the_order_of_the_line(happened: list[Event], line: list[LinePlace], *, is_wrong: bool) -> None:
    assert promises(out_of_order(history(*happened), line)) == [("P3", 2)] * is_wrong


def test_an_attempt_whose_outcome_was_accepted_had_its_claim() -> None:
    rescued = JobsRescued(job_ids=[1], reason="runner lost")
    written = OutcomeWritten(job_id=1, token=11, runner_id=2, status="completed")
    first, second = history(started(1, 10), started(1, 11, 2, runner_id=2), rescued, ended(1, 11), written)
    assert (first.claim_lost, second.claim_lost) == (True, False)


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_key_goes_on_when_a_process_was_frozen_between_the_commit_that_completed_the_job_and_its_end(
    *, in_transaction: bool
) -> None:
    died = RunnerDied(runner_id=1, unchanged_seconds=30)
    written = OutcomeWritten(job_id=1, token=10, runner_id=1, status="completed", in_transaction=in_transaction)
    first = started(1, 10, key="k")
    beside = [started(2, 11, key="k", runner_id=2), ended(2, 11), ended(1, 10), written]
    assert promises(overlapping(history(first, died, *beside))) == [("P3", 2)] * (not in_transaction)
    is_alive = history(first, *beside)
    assert promises(overlapping(is_alive)) == [("P3", 2)]


def test_an_attempt_that_started_when_its_runner_was_dead_is_found_and_one_that_went_on_is_not() -> None:
    died = RunnerDied(runner_id=1, unchanged_seconds=30)
    attempts = history(started(1, 10), died, started(2, 11), started(3, 12, runner_id=2), ended(1, 10), ended(2, 11))
    assert promises(late(attempts)) == [("P2", 2)]
    assert [attempt.claim_lost for attempt in attempts] == [True, True, False]


def test_an_attempt_starts_when_it_was_seen_that_it_may_not_when_that_was_told() -> None:
    start = msgspec.structs.replace(started(1, 10), began_at=0.5)
    attempts = attempts_in([Recorded(1.0, RunnerDied(runner_id=1, unchanged_seconds=30)), Recorded(2.0, start)])
    assert late(attempts) == []
    assert (attempts[0].started_at, attempts[0].claim_lost) == (0.5, True)


def test_an_attempt_without_an_end_is_found_unless_its_claim_was_lost() -> None:
    assert promises(unended(history(started(1, 10), started(2, 11), ended(2, 11)))) == [("P13", 1)]
    assert unended(history(started(1, 10), RESCUED)) == []
