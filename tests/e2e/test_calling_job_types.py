"""A job type is called like the function that it was made of."""

import asyncio
from typing import Any

import pytest

from asyncjobs import AsyncJobs, JobContext, JobDied, JobRouter, Retry, Snooze, UsageError
from asyncjobs.testing import perform

ROUTER = JobRouter()


@ROUTER.job("greet")
async def greet(name: str, greeting: str = "Hello") -> str:
    return f"{greeting} {name}"


@ROUTER.job("add")
def add(a: int, b: int) -> int:
    return a + b


@ROUTER.job("told")
async def told(ctx: JobContext, what: str) -> str:
    return f"{what} in {ctx.job.type}, attempt {ctx.attempt}"


@ROUTER.job("told plain")
def told_plain(ctx: JobContext, what: str) -> str:
    return f"{what} in {ctx.job.type}"


@ROUTER.job("outer", max_attempts=1)
async def outer(what: str) -> list[str]:
    return [await told(what), told_plain(what), await greet("Ada"), await asyncio.to_thread(told_plain, "thread")]


@ROUTER.job("busy")
async def busy(times: int) -> int | Snooze:
    return Snooze(0.05) if times else 1


@ROUTER.job("of busy")
async def of_busy(ctx: JobContext) -> int:
    return 1 + await busy(0 if ctx.job.snoozes else 1)


@ROUTER.job("plain retry")
def plain_retry() -> str | Retry:
    return Retry()


@ROUTER.stub("elsewhere")
async def elsewhere(to: str) -> None: ...


async def test_a_call_is_a_call_of_the_handler_and_enqueues_nothing() -> None:
    assert await greet("Ada", greeting="Hi") == "Hi Ada"
    assert await greet.using(priority=1)("Ada") == "Hello Ada"
    assert add(1, b=2) == 3
    assert greet.handler is not greet
    assert await greet.handler("Ada") == "Hello Ada"


async def test_wrong_arguments_are_pythons_own_error() -> None:
    wrong: Any = greet
    with pytest.raises(TypeError, match="greet"):
        await wrong(nmae="Ada")


async def test_in_an_attempt_its_context_is_passed(dsn: str) -> None:
    jobs = AsyncJobs(dsn, routers=[ROUTER])
    async with jobs.runner():
        said = await (await outer.enqueue("it")).result(timeout=10)
    assert said == ["it in outer, attempt 1", "it in outer", "Hello Ada", "thread in outer"]


async def test_a_verdict_that_is_returned_is_raised_and_becomes_the_callers_own(dsn: str) -> None:
    with pytest.raises(Snooze):
        await busy(1)
    with pytest.raises(Retry):
        plain_retry()
    jobs = AsyncJobs(dsn, routers=[ROUTER])
    async with jobs.runner():
        handle = await of_busy.enqueue()
        assert await handle.result(timeout=10) == 2
        assert (await handle.wait()).snoozes == 1


async def test_outside_of_an_attempt_a_handler_with_a_context_says_what_to_use() -> None:
    with pytest.raises(UsageError, match=r"perform\(told.new\(...\)\)"):
        await told("it")
    with pytest.raises(UsageError, match=r"perform\(told_plain.new"):
        told_plain("it")
    assert await perform(told.new("it"), jobs=AsyncJobs(routers=[ROUTER])) == "it in told, attempt 1"


@ROUTER.job("passes it", max_attempts=1)
async def passes_it(ctx: JobContext) -> str:
    wrong: Any = told
    return str(await wrong(ctx, "it"))


async def test_a_context_that_is_given_is_refused(dsn: str) -> None:
    async with AsyncJobs(dsn, routers=[ROUTER]).runner():
        with pytest.raises(JobDied, match="leave it out"):
            await (await passes_it.enqueue()).result(timeout=10)


async def test_a_stub_cannot_be_called() -> None:
    with pytest.raises(UsageError, match=r'"elsewhere" .* is a stub, .*: await elsewhere.enqueue\(...\)'):
        await elsewhere("a")
