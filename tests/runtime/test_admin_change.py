"""Changing jobs that wait: priority, time, queue, lane, attempts, timeout; by id and by filter; alone and in a key's line."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Backoff, InvalidOption, JobNotFound, Queue, UsageError
from asyncjobs.model.job import Job
from asyncjobs.telemetry.events import VerbUsed
from asyncjobs.testing import run_until_idle
from tests.support.cli import cli


def make(dsn: str) -> tuple[AsyncJobs, Any, list[str]]:
    jobs = AsyncJobs(dsn, queues=[Queue("default", lanes={"fast": 1}), Queue("mail", lanes={"slow": 1})])
    ran: list[str] = []

    @jobs.job("note", timeout=5, backoff=Backoff(3600, maximum=3600))
    async def note(name: str) -> None:
        ran.append(name)
        if name.startswith("fails") and ran.count(name) == 1:
            raise ConnectionError

    return jobs, note, ran


async def row(jobs: AsyncJobs, handle: Any) -> Job:
    job = await jobs.get(handle.id)
    assert job is not None
    return job


async def test_each_thing_is_changed_and_what_is_not_given_stays(dsn: str) -> None:
    jobs, note, _ = make(dsn)
    async with jobs:
        handle = await note.using(lane="fast").enqueue("a")
        before = await row(jobs, handle)
        used: list[VerbUsed] = []
        forget = jobs.events.subscribe(used.append, VerbUsed)
        done = await jobs.admin.change(handle.id, priority=3, max_attempts=9, timeout=60, by="ada")
        forget()
        assert (done.outcome, done.was, done.is_change) == ("changed", "pending", True)
        assert [(one.verb, one.by, one.target, one.outcome) for one in used] == [
            ("jobs.change", "ada", f"job {handle.id}", "changed: priority=3, max_attempts=9, timeout=60")
        ]
        after = await row(jobs, handle)
        assert (after.priority, after.max_attempts, after.timeout, after.lane) == (3, 9, timedelta(minutes=1), "fast")
        assert (after.status, after.run_at, after.queue) == (before.status, before.run_at, "default")
        await jobs.admin.change(handle.id, timeout=math.inf, queue="mail")
        moved = await row(jobs, handle)
        assert (moved.timeout, moved.queue, moved.lane) == (None, "mail", None)
        await jobs.admin.change(handle.id, lane="slow")
        assert (await row(jobs, handle)).lane == "slow"


async def test_times_move_both_ways(dsn: str) -> None:
    jobs, note, ran = make(dsn)
    async with jobs:
        soon, late = await note.enqueue("soon"), await note.using(delay=3600).enqueue("late")
        at = datetime.now(UTC) + timedelta(hours=2)
        await jobs.admin.change(soon.id, run_at=at)
        await jobs.admin.change(late.id, delay=0)
        await run_until_idle(jobs)
        assert ran == ["late"]
        job = await row(jobs, soon)
        assert (job.status, job.run_at, job.scheduled_at) == ("scheduled", at, at)
        failed = await note.enqueue("fails")
        await run_until_idle(jobs)
        await jobs.admin.change(failed.id, delay=7200)
        assert (await row(jobs, failed)).status == "failed"
        await jobs.admin.change(failed.id, delay=0)
        await run_until_idle(jobs)
        assert ran == ["late", "fails", "fails"]


async def test_a_line_keeps_its_order_and_goes_on_without_one_that_is_put_off(dsn: str) -> None:
    jobs, note, ran = make(dsn)
    keyed = note.using(serialization_key="k")
    async with jobs:
        head, second, third = [await keyed.enqueue(name) for name in ("head", "second", "third")]
        assert (await jobs.admin.change(third.id, priority=0, delay=0)).was == "waiting"
        await jobs.admin.change(second.id, queue="mail")
        await jobs.admin.change(head.id, delay=3600)
        await run_until_idle(jobs)
        assert ran == ["second", "third"]
        assert (await row(jobs, head)).status == "scheduled"
        await jobs.admin.change(head.id, delay=0)
        await run_until_idle(jobs)
        first, waits = await keyed.enqueue("fails"), await keyed.enqueue("behind")
        await run_until_idle(jobs)
        await jobs.admin.change(first.id, delay=7200)  # a retry keeps its key
        await jobs.admin.change(waits.id, delay=60)
        await run_until_idle(jobs)
        assert ran == ["second", "third", "head", "fails"]
        await jobs.admin.change(waits.id, delay=0)
        await jobs.admin.change(first.id, delay=0)
        await run_until_idle(jobs)
        assert ran == ["second", "third", "head", "fails", "fails", "behind"]


async def test_what_is_paused_stays_paused_until_its_resume(dsn: str) -> None:
    jobs, note, ran = make(dsn)
    async with jobs:
        await jobs.admin.pause(type="note")
        handle, late = await note.enqueue("a"), await note.using(delay=3600).enqueue("late")
        assert (await jobs.admin.change(handle.id, priority=1)).was == "paused"
        await jobs.admin.change(late.id, delay=0)
        await run_until_idle(jobs)
        assert ran == []
        await jobs.admin.resume(type="note")
        await run_until_idle(jobs)
        assert sorted(ran) == ["a", "late"]


async def test_ended_and_running_jobs_are_left_as_they_are(dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    outcomes: list[str] = []

    @jobs.job("asks")
    async def asks(of: int) -> None:
        [job] = (await jobs.admin.find(status="processing")).jobs
        outcomes.append((await jobs.admin.change(job.id, priority=1)).outcome)

    async with jobs:
        handle = await asks.enqueue(1)
        await run_until_idle(jobs)
        assert outcomes == ["processing"]
        assert (await jobs.admin.change(handle.id, priority=1)).outcome == "final"
        assert (await row(jobs, handle)).priority == 100
        with pytest.raises(JobNotFound):
            await jobs.admin.change(10**9, priority=1)


async def test_all_that_fit_are_changed(dsn: str) -> None:
    jobs, note, _ = make(dsn)
    async with jobs:
        handles = [await note.using(tags=["nightly"]).enqueue(str(number)) for number in range(5)]
        other = await note.enqueue("other")
        would = await jobs.admin.change_all({"priority": 7}, tag="nightly", dry_run=True)
        assert (would.changed, (await row(jobs, handles[0])).priority) == (5, 100)
        assert (await jobs.admin.change_all({"priority": 7}, tag="nightly", by="ada")).outcomes == {"changed": 5}
        assert ([(await row(jobs, one)).priority for one in handles], (await row(jobs, other)).priority) == ([7] * 5, 100)
        said = await cli("jobs", "change", "--tag", "nightly", "--to-priority", "8", "--delay", "2h", "--yes", dsn=dsn)
        assert said.code == 0, said.err
        job = await row(jobs, handles[0])
        assert (job.priority, job.status) == (8, "scheduled")
        said = await cli("jobs", "change", str(other.id), "--to-queue", "mail", dsn=dsn)
        assert (said.code, (await row(jobs, other)).queue) == (0, "mail"), said.err
        with pytest.raises(UsageError, match="change_all would take every job"):
            await jobs.admin.change_all({"priority": 7})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "nothing is to be changed: give priority, queue"),
        ({"priority": -1}, "priority=-1 is out of range"),
        ({"run_at": datetime(2027, 1, 1)}, "has no time zone"),  # noqa: DTZ001 - that is what is refused
        ({"delay": 5, "run_at": datetime.now(UTC)}, "give run_at or delay, not both"),
        ({"payload": {}}, "payload= of a job cannot be changed"),
        ({"timeout": 0}, "timeout=0 must be more than 0"),
        ({"queue": ""}, "queue name .* is empty"),
    ],
)
async def test_changes_that_cannot_be_meant_are_refused(dsn: str, changes: Any, said: str) -> None:
    jobs, note, _ = make(dsn)
    async with jobs:
        handle = await note.enqueue("a")
        with pytest.raises(InvalidOption, match=said):
            await jobs.admin.change(handle.id, **changes)
        with pytest.raises(InvalidOption, match=said):
            await jobs.admin.change_all(changes, type="note")
