"""The judge of a soak finds what it is there for, in what processes spooled."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted, Event, Events, OutcomeWritten
from asyncjobs.testing import Joined
from asyncjobs.testing.attempts import Attempt
from tests.soak.judge import Table, Verdict, judged, lost_tokens
from tests.soak.spool import SIZE, entries, spool

KEY = "7"


def started(job_id: int, token: int, attempt: int = 1) -> Event:
    return AttemptStarted(job_id=job_id, type="soak", queue="default", attempt=attempt, token=token, runner_id=1)


def ended(job_id: int, token: int, attempt: int = 1) -> list[Event]:
    return [
        AttemptEnded(job_id=job_id, type="soak", queue="default", attempt=attempt, token=token, runner_id=1, outcome="completed"),
        OutcomeWritten(job_id=job_id, token=token, runner_id=1, status="completed"),
    ]


def verdict(folder: Path, *processes: Sequence[Event], accepted: Sequence[int] = (1, 2), cut_off: int = 0) -> Verdict:
    """Of what these processes spooled, one after the other; jobs 1 and 2 joined the line of one key, and are completed.

    `cut_off`: so much of one more event is in the first one's file.
    """
    paths = [folder / str(number) for number in range(len(processes))]
    for path, happened in zip(paths, processes, strict=True):
        events = Events()
        end = spool(events, path)
        for event in happened:
            events.emit(event)
        end()
    if cut_off:
        with paths[0].open("ab") as file:
            file.write(bytes(cut_off))
    table = Table(keys={1: KEY, 2: KEY}, ended={1: float("inf"), 2: float("inf")})
    for job_id in (1, 2):
        table.join(Joined(KEY, job_id, place=job_id))
    return judged(table, paths, accepted, limbo=[], left_behind=[])


def test_jobs_one_after_the_other_are_clean(tmp_path: Path) -> None:
    found = verdict(tmp_path, [started(1, 11), *ended(1, 11), started(2, 12), *ended(2, 12)])
    assert found.is_clean
    assert (found.jobs, found.attempts) == (2, 2)


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_spooled_outcome_tells_whether_the_handlers_transaction_wrote_it(tmp_path: Path, *, in_transaction: bool) -> None:
    written = OutcomeWritten(job_id=1, token=11, runner_id=1, status="completed", in_transaction=in_transaction)
    events = Events()
    end = spool(events, tmp_path / "0")
    events.emit(written)
    end()
    assert [entry.event(None).event for entry in entries(tmp_path / "0")] == [written]


TWICE = [started(1, 11), started(1, 13, attempt=2), *ended(1, 11), *ended(1, 13, attempt=2)]


@pytest.mark.parametrize(
    ("happened", "where", "words"),
    [
        ([started(1, 11), started(2, 12), *ended(1, 11), *ended(2, 12)], "overlapped", "ran beside job 1 on key 7"),
        ([started(2, 12), *ended(2, 12), started(1, 11), *ended(1, 11)], "out_of_order", "started before job 1"),
        (TWICE, "overlapped", "started attempt 2 while attempt 1 ran"),
    ],
    ids=["of a key", "before its turn", "of a job"],
)
def test_overlaps_and_disorder_are_told_apart(tmp_path: Path, happened: list[Event], where: str, words: str) -> None:
    found = verdict(tmp_path, happened)
    assert any(words in one for one in getattr(found, where))
    assert not found.is_clean


def test_job_that_completed_twice_is_doubled(tmp_path: Path) -> None:
    found = verdict(tmp_path, [started(1, 11), *ended(1, 11), started(1, 13, attempt=2), *ended(1, 13, attempt=2)])
    assert found.doubled == [1]


def test_accepted_job_that_is_not_there_is_lost(tmp_path: Path) -> None:
    assert verdict(tmp_path, [], accepted=(1, 2, 3)).lost == [3]


@pytest.mark.parametrize("cut_off", [0, 1, SIZE - 1])
def test_attempt_of_a_killed_process_ends_with_what_it_wrote_last(tmp_path: Path, cut_off: int) -> None:
    after = [started(1, 13, attempt=2), *ended(1, 13, attempt=2), started(2, 12), *ended(2, 12)]
    found = verdict(tmp_path, [started(1, 11)], after, cut_off=cut_off)
    assert found.is_clean, str(found)
    assert found.attempts == 3


def an_attempt(token: int, started_at: float) -> Attempt:
    return Attempt(
        job_id=1, type="soak", queue="default", number=2, token=token, runner_id=1, serialization_key=None, started_at=started_at
    )


@pytest.mark.parametrize(("lost_at", "tokens"), [(15.0, {11}), (25.0, {12}), (5.0, set())])
def test_lost_attempt_is_the_last_of_its_number_that_had_started(lost_at: float, tokens: set[int]) -> None:
    """A loss that costs nothing leaves its number to the next one."""
    at = datetime.fromtimestamp(1000.0 + lost_at, tz=UTC).isoformat()
    table = Table(errors={1: [{"type": "RunnerLost", "attempt": 2, "at": at}]}, to_monotonic=-1000.0)
    assert lost_tokens([an_attempt(12, 20.0), an_attempt(11, 10.0)], table) == tokens
