"""The same tests on jobs that are kept in memory and on a real server: what the one does, the other does."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import pytest

from asyncjobs import (
    AsyncJobs,
    Backoff,
    Cancel,
    Dead,
    DuplicateJob,
    Hook,
    InvalidOption,
    JobCancelled,
    JobContext,
    JobDied,
    JobNotFound,
    Queue,
    Retry,
    Snooze,
    WaitTimeout,
)
from asyncjobs.testing import MovableClock, assert_enqueued, in_memory, refute_enqueued, run_until_idle

Opening: TypeAlias = Callable[[AsyncJobs], AbstractAsyncContextManager[Any]]


@pytest.fixture(params=["memory", "server"])
def where(request: pytest.FixtureRequest) -> Opening:
    if request.param == "memory":
        return in_memory
    dsn = request.getfixturevalue("dsn")

    @asynccontextmanager
    async def opened(jobs: AsyncJobs) -> AsyncGenerator[None]:
        jobs.dsn = dsn
        async with jobs:
            yield

    return opened


def make(**options: Any) -> AsyncJobs:
    """With one slot: what runs, runs in order on a server, too."""
    return AsyncJobs("postgresql://nowhere.invalid/x", queues=[Queue("default", concurrency=1)], **options)


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


async def test_delays_follow_the_clock(where: Opening) -> None:
    jobs = make()

    @jobs.job("later", serialize_by="{key}")
    async def later(key: str | None = None) -> None: ...

    async with where(jobs), MovableClock(jobs) as clock:
        handle = await later.using(delay=3600).enqueue("a")
        assert await run_until_idle(jobs) == []
        await clock.advance(3601)
        [job] = await run_until_idle(jobs)
        assert (job.id, job.status) == (handle.id, "completed")


async def test_dedup_keys_return_replace_and_raise(where: Opening) -> None:
    jobs, ran = make(), list[int]()

    @jobs.job("one")
    async def one(number: int) -> None:
        ran.append(number)

    @jobs.job("plain")
    async def plain() -> None: ...

    async with where(jobs), MovableClock(jobs) as clock:
        keyed = one.using(dedup_key="k")
        first = await keyed.enqueue(1)
        again = await keyed.enqueue(2)
        assert (again.id, again.created) == (first.id, False)
        with pytest.raises(DuplicateJob):
            await jobs.enqueue_many([plain.new(), keyed.using(on_duplicate="raise").new(3)])
        await refute_enqueued(jobs, plain)
        await keyed.using(on_duplicate="replace").enqueue(4)
        with pytest.raises(InvalidOption, match="another serialization key"):
            await keyed.using(on_duplicate="replace", serialization_key="other").enqueue(5)
        await run_until_idle(jobs)
        kept = await keyed.using(dedup_for=600).enqueue(6)
        assert kept.created
        await run_until_idle(jobs)
        assert not (await keyed.enqueue(7)).created
        await clock.advance(601)
        assert (await keyed.enqueue(8)).created
        await run_until_idle(jobs)
    assert ran == [4, 6, 8]


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
