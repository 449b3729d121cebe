"""The same tests on jobs that are kept in memory and on a real server: what the one does, the other does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asyncjobs import (
    Backoff,
    Cancel,
    Dead,
    Hook,
    JobCancelled,
    JobContext,
    JobDied,
    JobNotFound,
    Retry,
    Snooze,
    WaitTimeout,
    as_completed,
    gather,
)
from asyncjobs.testing import MovableClock, assert_enqueued, clear, refute_enqueued, run_until_idle
from tests.support.memory_and_server import Opening, make


async def test_results_children_and_correlation_ids(where: Opening) -> None:
    jobs = make()

    @jobs.job("child")
    def child(number: int) -> int:
        return number + 1

    @jobs.job("parent")
    async def parent(number: int) -> int:
        return (await child.enqueue(number)).id

    async with where(jobs):
        handle = await parent.using(correlation_id="c-1").enqueue(3)
        with pytest.raises(WaitTimeout):
            await handle.wait(timeout=0)
        ran = await run_until_idle(jobs)
        assert [job.type for job in ran] == ["parent", "child"]
        made = await jobs.get(await handle.result(timeout=5))
        assert made is not None
        assert (made.result, made.parent_job_id, made.correlation_id) == (4, handle.id, "c-1")
        await assert_enqueued(jobs, child, {"number": 3}, count=1)
        await refute_enqueued(jobs, child, {"number": 4})
        with pytest.raises(JobNotFound):
            await jobs.handle(2**40).wait(timeout=1)


async def test_priorities_go_first_and_then_the_order_of_enqueues(where: Opening) -> None:
    jobs, ran = make(), list[str]()

    @jobs.job("say")
    async def say(word: str) -> None:
        ran.append(word)

    async with where(jobs):
        await jobs.enqueue_many([say.new("b"), say.new("c"), say.using(priority=1).new("a")])
        await run_until_idle(jobs)
    assert ran == ["a", "b", "c"]


async def test_a_key_runs_in_order_past_retries_and_snoozes(where: Opening) -> None:
    jobs, ran = make(), list[tuple[int, int]]()

    @jobs.job("step", serialize_by="line", backoff=Backoff(60))
    async def step(ctx: JobContext, number: int) -> Snooze | None:
        ran.append((number, ctx.attempt))
        if number == 0 and ctx.attempt == 1:
            raise ConnectionError("not yet")
        return Snooze(60) if number == 1 and not ctx.job.snoozes else None

    async with where(jobs), MovableClock(jobs) as clock:
        for number in range(3):
            await step.enqueue(number)
        [first] = await run_until_idle(jobs)
        assert (first.status, first.attempts, len(first.errors)) == ("failed", 1, 1)
        await run_until_idle(jobs, clock=clock, ahead=600)
    assert ran == [(0, 1), (0, 2), (1, 1), (1, 1), (2, 1)]


async def test_a_key_whose_job_died_is_halted_or_goes_on(where: Opening) -> None:
    jobs = make()

    @jobs.job("halts", serialize_by="h", on_dead="halt")
    async def halts() -> Dead:
        return Dead("no")

    @jobs.job("goes on", serialize_by="g")
    async def goes_on() -> Dead:
        return Dead("no")

    last: Any = None
    async with where(jobs):
        for _ in range(2):
            await halts.enqueue()
            last = await goes_on.enqueue()
        ran = await run_until_idle(jobs)
        assert sorted(job.type for job in ran) == ["goes on", "goes on", "halts"]
        await last.wait(timeout=0)
        assert [job.status for job in ran] == ["dead"] * 3


async def test_verdicts_and_the_last_attempt(where: Opening) -> None:
    jobs = make()

    @jobs.job("cancels")
    async def cancels() -> Cancel:
        return Cancel("not needed")

    @jobs.job("dies", max_attempts=2, backoff=Backoff(5))
    async def dies() -> Retry:
        return Retry()

    @jobs.job("slow", timeout=0.05, max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(30)

    async with where(jobs), MovableClock(jobs) as clock:
        handles: list[Any] = [await kind.enqueue() for kind in (cancels, dies, slow)]
        await run_until_idle(jobs, clock=clock, ahead=60)
        with pytest.raises(JobCancelled):
            await handles[0].result(timeout=5)
        for handle, attempts, why in ((handles[1], 2, "Retry"), (handles[2], 1, "AttemptTimeout")):
            with pytest.raises(JobDied, match=why) as died:
                await handle.result(timeout=5)
            assert died.value.job.attempts == attempts


async def test_what_a_breaker_holds_stays_for_later(where: Opening, patient_breakers: None) -> None:
    del patient_breakers
    jobs = make()
    service = jobs.circuit_breaker("mail", failure_threshold=1, open_for=600)
    well = list[bool]()

    @jobs.job("calls", breaker="mail", max_attempts=9, backoff=Backoff(1))
    async def calls() -> None:
        async with service:
            if not well:
                raise ConnectionError("down")

    async with where(jobs), MovableClock(jobs) as clock:
        await calls.enqueue()
        [failed] = await run_until_idle(jobs)
        assert failed.status == "failed"
        held = await calls.enqueue()
        assert await run_until_idle(jobs, timeout=5) == []
        well.append(True)
        await clock.advance(700)
        ran = await run_until_idle(jobs)
        assert held.id in {job.id for job in ran}
        assert {job.status for job in ran} == {"completed"}


async def test_progress_resources_and_hooks(where: Opening) -> None:
    said = list[str]()

    class Saying(Hook):
        async def before_attempt(self, ctx: JobContext) -> None:
            said.append(f"before {ctx.job.type}")

    @asynccontextmanager
    async def opened(_: JobContext) -> AsyncGenerator[str]:
        yield "it"
        said.append("closed")

    jobs = make(hooks=[Saying()])

    @jobs.job("uses")
    async def uses(ctx: JobContext) -> str:
        ctx.progress(0.5, "half")
        return await ctx.use(opened)

    async with where(jobs):
        await uses.enqueue()
        [job] = await run_until_idle(jobs)
        assert (job.result, job.progress) == ("it", {"done": 0.5, "note": "half"})
    assert said == ["before uses", "closed"]


async def test_gather_and_as_completed_wait_for_many(where: Opening) -> None:
    jobs = make()

    @jobs.job("double")
    async def double(number: int) -> int:
        return 2 * number

    @jobs.job("dies", max_attempts=1)
    async def dies() -> None:
        raise ConnectionError("down")

    @jobs.job("parent", queue="other")
    async def parent() -> int:
        return sum(await gather([await double.enqueue(number) for number in range(3)]))

    async with where(jobs), jobs.runner():
        handles = await jobs.enqueue_many([double.new(number) for number in range(5)])
        assert await gather(handles, timeout=5) == [0, 2, 4, 6, 8]
        assert await gather((await parent.enqueue(), handles[1]), timeout=5) == (6, 2)
        assert {one.id: one.result() async for one in as_completed(handles, timeout=5)}[handles[3].id] == 6
        with pytest.raises(JobDied):
            await gather([handles[0], await dies.enqueue()], timeout=5)
        late = await double.using(delay=600).enqueue(1)
        ended, waits, gone = await gather([handles[4], late, jobs.handle(2**40)], timeout=0.2, return_exceptions=True)
        assert (ended, type(waits), type(gone)) == (8, WaitTimeout, JobNotFound)
        with pytest.raises(WaitTimeout) as caught:
            await gather([handles[4], late], timeout=0)
        assert caught.value.missing == [late.id]


async def test_a_handler_that_would_wait_for_itself_is_refused(where: Opening) -> None:
    jobs = make()

    @jobs.job("step", serialize_by="line", max_attempts=1)
    async def step(*, waits: bool = False) -> None:
        if waits:
            await (await step.enqueue()).result()

    async with where(jobs):
        await step.enqueue(waits=True)
        ran = await run_until_idle(jobs)
        assert [job.status for job in ran] == ["dead", "completed"]
        assert "starts only when it has ended" in str(ran[0].last_error)


async def test_tags_of_types_and_enqueues(where: Opening) -> None:
    jobs = make()

    @jobs.job("tagged", tags=["mail"])
    async def tagged(ctx: JobContext) -> list[str]:
        return ctx.job.tags

    async with where(jobs):
        handle = await tagged.using(tags=["acme"], expires=60).enqueue()
        [job] = await run_until_idle(jobs)
        assert (sorted(job.tags), sorted(await handle.result(timeout=5))) == (["acme", "mail"], ["acme", "mail"])
        await assert_enqueued(jobs, tagged.using(tags=["acme"], expires=60, dedup_until="end"))
        for other in (tagged.using(tags=["other"]), tagged.using(expires=61), tagged.using(dedup_until="start")):
            await refute_enqueued(jobs, other)


async def test_what_is_retried_and_what_not(where: Opening) -> None:
    jobs = make(retry_on=(OSError,), max_attempts=2, backoff=Backoff(5))

    @jobs.job("raises")
    async def raises(kind: str) -> None:
        raise {"os": OSError, "value": ValueError, "key": KeyError}[kind](kind)

    @jobs.job("raises too", retry_on=(ValueError,), give_up_on=(KeyError,))
    async def raises_too(kind: str) -> None:
        raise {"value": ValueError, "key": KeyError}[kind](kind)

    async with where(jobs), MovableClock(jobs) as clock:
        news = [raises.new("os"), raises.new("value"), raises_too.new("value"), raises_too.new("key")]
        await jobs.enqueue_many(news)
        ran = await run_until_idle(jobs, clock=clock, ahead=60)
        assert [(job.payload["kind"], job.attempts, job.max_attempts) for job in ran] == [
            ("os", 2, 2),
            ("value", 1, 2),
            ("value", 2, 2),
            ("key", 1, 2),
        ]
        assert {job.status for job in ran} == {"dead"}


async def test_clear_forgets_all_jobs_and_closes_breakers(where: Opening) -> None:
    jobs = make()
    service = jobs.circuit_breaker("mail", failure_threshold=1, open_for=600)
    fails = [True]

    @jobs.job("calls", breaker="mail", serialize_by="k", on_dead="halt", max_attempts=1)
    async def calls() -> None:
        async with service:
            if fails:
                raise ConnectionError("down")

    async with where(jobs):
        first = await calls.using(dedup_key="d", dedup_for=600).enqueue()
        await calls.using(delay=600).enqueue()
        [dead] = await run_until_idle(jobs)
        assert dead.status == "dead"
        fails.clear()
        await clear(jobs)
        await refute_enqueued(jobs, calls)
        assert await jobs.get(first.id) is None
        again = await calls.using(dedup_key="d").enqueue()
        assert (again.created, again.id > first.id) == (True, True)
        assert [job.status for job in await run_until_idle(jobs)] == ["completed"]
