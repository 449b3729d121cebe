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
from asyncjobs.testing.attempts import Attempt, Place, Recorded, attempts_in, late, out_of_order, overlapping, uncounted
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


def test_attempts_one_after_the_other_are_fine() -> None:
    attempts = history(started(1, 10), ended(1, 10, "retry"), started(1, 11, 2), started(2, 12), ended(1, 11), ended(2, 12))
    assert overlapping(attempts) == uncounted(attempts, {1: 2, 2: 1}) == unended(attempts) == []


def test_two_attempts_of_one_job_at_a_time_are_found() -> None:
    attempts = history(started(1, 10), started(1, 11, 2), ended(1, 10, "retry"), ended(1, 11))
    assert promises(overlapping(attempts)) == [("P2", 1)]


def test_an_attempt_whose_outcome_was_accepted_had_its_claim() -> None:
    rescued = JobsRescued(job_ids=[1], reason="runner lost")
    written = OutcomeWritten(job_id=1, token=11, runner_id=2, status="completed")
    first, second = history(started(1, 10), started(1, 11, 2, runner_id=2), rescued, ended(1, 11), written)
    assert (first.claim_lost, second.claim_lost) == (True, False)


def test_a_token_that_two_claims_got_is_found() -> None:
    attempts = history(started(1, 10), ended(1, 10), started(2, 10), ended(2, 10))
    assert promises(overlapping(attempts)) == [("P2", 2)]


@pytest.mark.parametrize(
    "loss",
    [
        ClaimWasLost(job_id=1, token=10, runner_id=1, during="ack"),
        JobsRescued(job_ids=[1], reason="dead"),
        RunnerDied(runner_id=1, unchanged_seconds=30),
    ],
)
def test_an_attempt_whose_claim_was_lost_may_overlap_with_the_next(loss: Event) -> None:
    attempts = history(started(1, 10), loss, started(1, 11, 2, runner_id=2), ended(1, 10), ended(1, 11))
    assert overlapping(attempts) == []


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


def test_two_jobs_of_one_key_at_a_time_are_found() -> None:
    attempts = history(
        started(1, 10, key="k"), started(2, 11, key="k"), started(3, 12, key="other"),
        ended(1, 10), ended(2, 11), ended(3, 12),
    )  # fmt: skip
    assert promises(overlapping(attempts)) == [("P3", 2)]


def test_a_start_before_the_one_in_front_is_found() -> None:
    attempts = history(started(2, 10), ended(2, 10), started(1, 11), ended(1, 11))
    assert promises(out_of_order(attempts, [Place("k", 1, 100), Place("k", 2, 101)])) == [("P3", 2)]
    assert out_of_order(attempts, [Place("k", 1, 100), Place("other", 2, 101)]) == []


def test_a_start_between_two_attempts_of_the_one_in_front_is_found() -> None:
    attempts = history(started(1, 10), ended(1, 10, "retry"), started(2, 11), ended(2, 11), started(1, 12, 2), ended(1, 12))
    line = [Place("k", 1, 100), Place("k", 2, 101)]
    assert promises(out_of_order(attempts, line)) == [("P3", 2)]


def test_who_joined_the_line_again_stands_at_its_end() -> None:
    attempts = history(started(2, 10), ended(2, 10), started(1, 11), ended(1, 11))
    assert out_of_order(attempts, [Place("k", 1, 100, times=2), Place("k", 2, 101)]) == []


def test_an_ordinal_that_did_not_grow_after_a_failure_is_found() -> None:
    attempts = history(started(1, 10), ended(1, 10, "retry"), started(1, 11), ended(1, 11))
    assert promises(uncounted(attempts, {1: 1})) == [("P7", 1)]


def test_an_ordinal_that_did_not_grow_after_a_crash_is_found() -> None:
    attempts = history(started(1, 10), JobsRescued(job_ids=[1], reason="dead"), started(1, 11), ended(1, 11))
    assert promises(uncounted(attempts, {1: 1})) == [("P7", 1)]


def test_an_attempt_that_was_lost_after_another_that_was_lost_may_pay_nothing() -> None:
    lost = JobsRescued(job_ids=[1], reason="dead")
    again = [started(1, 10), lost, started(1, 11, 2), lost, started(1, 12, 2), ended(1, 12)]
    assert uncounted(history(*again), {1: 2}) == []
    failed = [started(1, 10), ended(1, 10, "retry"), started(1, 11, 2), lost, started(1, 12, 2), ended(1, 12)]
    assert promises(uncounted(history(*failed), {1: 2})) == [("P7", 1)]


@pytest.mark.parametrize("outcome", ["snooze", "interrupted"])
def test_an_attempt_that_was_given_back_does_not_count(outcome: str) -> None:
    attempts = history(started(1, 10), ended(1, 10, outcome), started(1, 11), ended(1, 11))
    assert uncounted(attempts, {1: 1}) == []


def test_a_claim_that_was_given_back_does_not_count() -> None:
    given_back = JobsGivenBack(runner_id=1, job_ids=[1], reason="lost answer")
    assert uncounted(history(started(1, 10), given_back, started(1, 11), ended(1, 11)), {1: 1}) == []


def test_a_first_attempt_without_a_count_is_found() -> None:
    assert promises(uncounted(history(started(1, 10, 0), ended(1, 10)), {1: 1})) == [("P7", 1)]


def test_a_count_in_the_table_below_what_ran_is_found() -> None:
    attempts = history(started(1, 10), ended(1, 10, "retry"), started(1, 11, 2), ended(1, 11, "retry"))
    assert promises(uncounted(attempts, {1: 1})) == [("P7", 1)]


def test_an_attempt_without_an_end_is_found_unless_its_claim_was_lost() -> None:
    assert promises(unended(history(started(1, 10), started(2, 11), ended(2, 11)))) == [("P13", 1)]
    assert unended(history(started(1, 10), JobsRescued(job_ids=[1], reason="dead"))) == []
