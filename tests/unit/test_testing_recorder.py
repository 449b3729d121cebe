import asyncio
import threading
from pathlib import Path

import pytest

from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted, Events, JobsPromoted, RunnerDied
from asyncjobs.testing import Recorder

STARTED = AttemptStarted(job_id=1, type="t", queue="q", attempt=1, token=10, runner_id=3)
ENDED = AttemptEnded(job_id=1, type="t", queue="q", attempt=1, token=10, runner_id=3, outcome="retry", error=ValueError("no"))


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def watching(events: Events) -> Recorder:
    made = Recorder()
    made.watch(events)
    return made


def test_events_are_kept_in_order_and_found_by_kind(events: Events, watching: Recorder) -> None:
    for event in (STARTED, JobsPromoted(count=2), ENDED):
        events.emit(event)
    assert watching.of(JobsPromoted) == [JobsPromoted(count=2)]
    (attempt,) = watching.attempts(1)
    assert (attempt.outcome, attempt.number, watching.attempts(2)) == ("retry", 1, [])
    assert attempt.ended_at is not None
    assert attempt.ended_at >= attempt.started_at


def test_what_ended_watching_records_nothing_more(events: Events) -> None:
    recorder = Recorder()
    recorder.watch(events)()
    events.emit(STARTED)
    assert recorder.recorded == []


async def test_an_event_is_awaited_also_when_it_was_before_or_comes_from_a_thread(events: Events, watching: Recorder) -> None:
    events.emit(JobsPromoted(count=1))
    assert await watching.wait_for(JobsPromoted) == JobsPromoted(count=1)
    waiting = asyncio.create_task(watching.wait_for(JobsPromoted, lambda event: event.count == 2))
    await asyncio.sleep(0)
    threading.Thread(target=events.emit, args=[JobsPromoted(count=2)]).start()
    assert await waiting == JobsPromoted(count=2)


async def test_waiting_ends_with_the_time(watching: Recorder) -> None:
    with pytest.raises(TimeoutError, match="RunnerDied"):
        await watching.wait_for(RunnerDied, timeout=0.01)


def test_a_spool_tells_of_a_process_that_is_gone(tmp_path: Path) -> None:
    spool = tmp_path / "events"
    dead = Recorder(spool=spool)
    for event in (STARTED, ENDED, JobsPromoted(count=1)):
        dead.record(event)
    dead.record(AttemptStarted(job_id=2, type="t", queue="q", attempt=1, token=11, runner_id=3, serialization_key="k"))
    with spool.open("ab") as file:
        file.write(b'{"at":3.0,"kind":"AttemptSta')  # the kill came in the middle of a line

    recorder = Recorder()
    recorder.read(spool)
    first, second = recorder.attempts()
    assert (first.outcome, first.claim_lost) == ("retry", False)
    assert (second.ended_at, second.claim_lost, second.serialization_key) == (None, True, "k")
