"""`run_until_idle`: everything due, children included, and nothing that is for later."""

import asyncio
from datetime import timedelta
from typing import Literal

import pytest

from asyncjobs import AsyncJobs, Backoff, JobContext, Queue, Snooze, UsageError
from asyncjobs.store.database import Connection
from asyncjobs.testing import MovableClock, assert_enqueued, refute_enqueued, run_until_idle


def make(dsn: str, schema: str = "asyncjobs", notify: Literal["auto", "listen", "poll"] = "auto") -> AsyncJobs:
    return AsyncJobs(dsn, schema=schema, notify=notify, queues=[Queue("default"), Queue("mail")])


@pytest.mark.matrix("loop", "notify", "schema")
async def test_runs_what_is_due_and_what_that_enqueues(dsn: str, schema: str, notify: Literal["auto", "listen", "poll"]) -> None:
    jobs = make(dsn, schema, notify)

    @jobs.job("leaf", queue="mail", serialize_by="leaf")
    async def leaf(number: int) -> int:
        return number

    @jobs.job("tree")
    async def tree(depth: int) -> None:
        for number in range(2):
            await (tree.enqueue(depth - 1) if depth else leaf.enqueue(number))

    async with jobs:
        handle = await tree.enqueue(2)
        ran = await run_until_idle(jobs)
        assert ran[0].id == handle.id
        assert sorted(job.type for job in ran) == ["leaf"] * 8 + ["tree"] * 7
        assert {job.status for job in ran} == {"completed"}
        assert await run_until_idle(jobs) == []
        await assert_enqueued(jobs, leaf, count=8)


async def test_opens_an_app_that_is_not_open(dsn: str) -> None:
    jobs = make(dsn)
    assert await run_until_idle(jobs) == []
    assert not jobs.health().is_open


async def test_leaves_what_is_for_later_until_the_clock_is_moved(dsn: str) -> None:
    jobs = make(dsn)

    @jobs.job("later")
    async def later(ctx: JobContext) -> str | Snooze:
        return "done" if ctx.job.snoozes else Snooze(3600)

    async with jobs, MovableClock(jobs) as clock:
        await later.using(delay=timedelta(days=1)).enqueue()
        assert await run_until_idle(jobs) == []
        await clock.advance(timedelta(days=1))
        [snoozed] = await run_until_idle(jobs)
        assert snoozed.status == "scheduled"
        await clock.advance(timedelta(hours=1, seconds=1))
        [done] = await run_until_idle(jobs)
        assert done.result == "done"


async def test_goes_ahead_through_retries_and_their_children(dsn: str) -> None:
    jobs = make(dsn)

    @jobs.job("note")
    async def note(attempt: int) -> None: ...

    @jobs.job("flaky", max_attempts=5)
    async def flaky(ctx: JobContext) -> None:
        await note.using(delay=600).enqueue(ctx.attempt)
        raise ConnectionError("not yet")

    async with jobs, MovableClock(jobs) as clock:
        await flaky.enqueue()
        began = await clock.now()
        ran = await run_until_idle(jobs, clock=clock, ahead=timedelta(minutes=30))
        assert [(job.type, job.status) for job in ran] == [("flaky", "dead"), *[("note", "completed")] * 5]
        assert ran[0].attempts == 5
        assert timedelta(minutes=30) <= await clock.now() - began < timedelta(minutes=31)


async def test_goes_no_further_than_asked(dsn: str) -> None:
    jobs = make(dsn)

    @jobs.job("far")
    async def far() -> None: ...

    async with jobs, MovableClock(jobs) as clock:
        await far.using(delay=7200).enqueue()
        assert await run_until_idle(jobs, clock=clock, ahead=3600) == []
        assert len(await run_until_idle(jobs, clock=clock, ahead=3700)) == 1


async def test_ahead_needs_a_clock(dsn: str) -> None:
    with pytest.raises(UsageError, match="give it one"):
        await run_until_idle(make(dsn), ahead=1)


async def test_runs_only_the_queues_and_types_that_were_asked_for(dsn: str) -> None:
    jobs = make(dsn)

    @jobs.job("a")
    async def a() -> None: ...

    @jobs.job("b", queue="mail")
    async def b() -> None: ...

    async with jobs:
        await a.enqueue()
        await b.enqueue()
        assert [job.type for job in await run_until_idle(jobs, queues=["mail"])] == ["b"]
        assert [job.type for job in await run_until_idle(jobs, types=["a"])] == ["a"]


async def test_what_is_paused_and_what_waits_behind_it_stays(dsn: str, connection: Connection) -> None:
    jobs = make(dsn)

    @jobs.job("keyed", backoff=Backoff(3600, maximum=3600))
    async def keyed(number: int) -> None:
        if number == 0:
            raise ConnectionError("again later")

    async with jobs:
        for number in (0, 1):
            await keyed.using(serialization_key="stuck").enqueue(number)
        await jobs.admin.pause_key("halted")
        await keyed.using(serialization_key="halted").enqueue(2)
        [failed] = await run_until_idle(jobs)
        assert (failed.payload, failed.status) == ({"number": 0}, "failed")
        await jobs.admin.resume_key("halted")
        assert [job.payload for job in await run_until_idle(jobs)] == [{"number": 2}]


async def test_schedules_and_duties_rest(dsn: str) -> None:
    jobs, passes = make(dsn), list[int]()

    @jobs.cron("minutely", "* * * * *")
    async def minutely() -> None: ...

    @jobs.duty("own", every=0.01)
    async def own() -> int:
        passes.append(1)
        return 0

    async with jobs, MovableClock(jobs) as clock:
        await clock.advance(3600)
        assert await run_until_idle(jobs, clock=clock, ahead=3600) == []
        await refute_enqueued(jobs, minutely)
    assert passes == []


async def test_says_what_is_not_done_in_time(dsn: str) -> None:
    jobs = make(dsn)

    @jobs.job("endless")
    async def endless() -> None:
        await asyncio.Event().wait()

    async with jobs:
        handle = await endless.enqueue()
        with pytest.raises(TimeoutError, match=rf'not idle after 0\.2 s: job {handle.id} "endless" is (pending|processing)'):
            await run_until_idle(jobs, timeout=0.2)
        await jobs.admin.cancel(handle.id)


async def test_sees_a_child_of_a_job_that_was_completed_in_its_transaction(dsn: str, connection: Connection) -> None:
    jobs = make(dsn)

    @jobs.job("next")
    async def next_() -> None: ...

    @jobs.job("books")
    async def books(ctx: JobContext) -> None:
        await ctx.complete(connection)
        await asyncio.sleep(0.2)
        await next_.enqueue()

    async with jobs:
        await books.enqueue()
        assert [job.type for job in await run_until_idle(jobs)] == ["books", "next"]


async def test_what_an_operator_opened_a_breaker_for_stays(dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    jobs.circuit_breaker("mail")

    @jobs.job("mails", breaker="mail", serialize_by="line")
    async def mails() -> None: ...

    @jobs.job("other")
    async def other() -> None: ...

    async with jobs:
        await jobs.enqueue_many([mails.new(), mails.new(), other.new()])
        await jobs.admin.open_breaker("mail")
        assert [job.type for job in await run_until_idle(jobs, timeout=5)] == ["other"]
        await jobs.admin.reset_breaker("mail")
        assert [job.type for job in await run_until_idle(jobs)] == ["mails", "mails"]


async def test_waits_until_what_has_expired_has_ended(dsn: str) -> None:
    jobs = AsyncJobs(dsn, promote_interval=60)

    @jobs.job("note", serialize_by="line")
    async def note(number: int) -> Snooze | None:
        return Snooze(3600) if number == 0 else None

    async with jobs, MovableClock(jobs) as clock:
        await note.enqueue(0)
        behind = await note.using(expires=60).enqueue(1)
        await run_until_idle(jobs)
        await clock.advance(61)
        assert await run_until_idle(jobs) == []
        assert (await behind.wait(timeout=0)).has_expired
