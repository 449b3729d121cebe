"""`perform`: one attempt in memory, as a runner would make it."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from asyncjobs import (
    AmbiguousApp,
    AsyncJobs,
    AttemptTimeout,
    Cancel,
    Dead,
    InvalidOption,
    JobContext,
    JobRouter,
    NotOpen,
    Retry,
    Snooze,
    UnknownQueue,
    UnstorableResult,
    UsageError,
    resource,
)
from asyncjobs.testing import captured, perform

jobs = AsyncJobs("postgresql://nowhere.example.com/none")


@jobs.job("add")
async def add(a: int, b: int = 2) -> int:
    return a + b


@jobs.job("child")
async def child(of: int) -> None: ...


@jobs.job("parent", max_attempts=3)
async def parent(ctx: JobContext, number: int) -> int:
    ctx.progress(0.5, "half")
    handle = await child.enqueue(number)
    await ctx.jobs.enqueue("child", {"of": handle.id})
    return ctx.attempt


async def test_answers_what_the_handler_returns() -> None:
    assert await perform(add.new(1)) == 3
    assert await perform(add.new(1, b=5)) == 6


async def test_the_payload_goes_through_json() -> None:
    @jobs.job("shape")
    async def shape(pairs: dict[int, tuple[int, int]]) -> str:
        return repr(pairs)

    assert await perform(shape.new({1: (2, 3)})) == "{1: (2, 3)}"


async def test_tells_the_handler_which_attempt_it_is() -> None:
    assert await perform(parent.new(1)) == 1
    assert await perform(parent.new(1), attempt=3) == 3


@pytest.mark.parametrize("attempt", [0, 4])
async def test_refuses_an_attempt_that_the_job_has_not(attempt: int) -> None:
    with pytest.raises(InvalidOption, match=rf"attempt={attempt}: parent has attempts 1 to 3"):
        await perform(parent.new(1), attempt=attempt)


@pytest.mark.parametrize("verdict", [Snooze(5), Retry(), Retry(3), Cancel("enough"), Dead("no")], ids=repr)
async def test_answers_verdicts(verdict: Any) -> None:
    app = AsyncJobs()

    @app.job("verdict")
    async def decide() -> Snooze | Retry | Cancel | Dead:
        return cast("Snooze", verdict)

    assert await perform(decide.new()) == verdict

    @app.job("raised")
    async def raises() -> None:
        raise verdict

    assert await perform(raises.new()) == verdict


def test_a_thread_that_uses_something_is_told_when_the_loop_has_ended() -> None:
    """A handler's thread may go on past its loop."""
    app, contexts = AsyncJobs(), list[JobContext]()

    @asynccontextmanager
    async def provider(ctx: JobContext) -> AsyncGenerator[str]:
        yield "opened"

    @app.job("plain")
    def plain(ctx: JobContext) -> str:
        contexts.append(ctx)
        return ctx.use_sync(provider)

    assert asyncio.run(perform(plain.new())) == "opened"
    with pytest.raises(NotOpen, match="the event loop that AsyncJobs was opened in has ended"):
        contexts[0].use_sync(provider)


async def test_raises_what_would_fail_the_attempt() -> None:
    app = AsyncJobs()

    @app.job("fails", timeout=0.01)
    async def fails(how: str) -> Any:
        match how:
            case "raise":
                raise KeyError(how)
            case "sleep":
                await asyncio.sleep(60)
            case "object":
                return cast("int", object())
            case _:
                return Snooze(-1)
        return None

    with pytest.raises(KeyError):
        await perform(fails.new("raise"))
    with pytest.raises(AttemptTimeout, match=r"longer than its timeout of 0\.01 s"):
        await perform(fails.new("sleep"))
    with pytest.raises(UnstorableResult):
        await perform(fails.new("object"))
    with pytest.raises(ValueError, match="at least 0 seconds"):
        await perform(fails.new("snooze"))


async def test_opens_and_closes_what_the_handler_uses() -> None:
    app, seen = AsyncJobs(), list[str]()

    @asynccontextmanager
    async def session(ctx: JobContext) -> AsyncGenerator[str]:
        seen.append("open")
        yield ctx.job.type
        seen.append("closed")

    @app.job("uses")
    async def uses(ctx: JobContext) -> str:
        name = await ctx.use(session)
        seen.append("used")
        return name

    assert await perform(uses.new()) == "uses"
    assert seen == ["open", "used", "closed"]


async def test_what_a_runner_shares_is_closed_when_the_attempt_was_performed() -> None:
    app = AsyncJobs()
    seen: list[str] = []

    @resource
    @asynccontextmanager
    async def client() -> AsyncGenerator[str]:
        seen.append("open")
        yield "client"
        await asyncio.sleep(0)  # as one does that says goodbye
        seen.append("closed")

    @app.job("uses")
    async def uses(ctx: JobContext) -> str:
        return await ctx.use(client)

    assert await perform(uses.new()) == "client"
    assert seen == ["open", "closed"]


async def test_a_job_completed_in_a_transaction_answers_that_result() -> None:
    app = AsyncJobs()

    @app.job("books")
    async def books(ctx: JobContext) -> Mapping[str, int]:
        await ctx.complete(cast("Any", None), {"booked": 1})
        return {"ignored": 2}

    assert await perform(books.new()) == {"booked": 1}


async def test_plain_functions_run_in_a_thread_and_may_enqueue() -> None:
    app = AsyncJobs()

    @app.job("grandchild")
    def grandchild() -> None: ...

    @app.job("plain")
    def plain(ctx: JobContext) -> bool:
        grandchild.enqueue_sync()
        return threading.current_thread() is not threading.main_thread()

    with captured(app) as enqueued:
        assert await perform(plain.new()) is True
    assert [job.type for job in enqueued.jobs] == ["grandchild"]


async def test_keeps_what_the_handler_enqueues_in_memory() -> None:
    with captured(jobs) as enqueued:
        await perform(parent.using(correlation_id="c").new(7))
    first, second = enqueued.jobs
    assert (first.type, first.payload, first.correlation_id) == ("child", {"of": 7}, "c")
    assert second.payload == {"of": first.id}
    assert first.parent_job_id == second.parent_job_id


async def test_what_a_handler_enqueues_stays_out_of_an_app_that_is_not_captured() -> None:
    assert await perform(parent.new(1)) == 1  # the app was never opened


async def test_nobody_waits_for_a_job_in_memory() -> None:
    app = AsyncJobs()

    @app.job("leaf")
    async def leaf() -> None: ...

    @app.job("waits")
    async def waits() -> None:
        await (await leaf.enqueue()).wait()

    with pytest.raises(UsageError, match="keeps jobs in memory, where nothing runs them"):
        await perform(waits.new())


async def test_the_app_is_found_or_asked_for() -> None:
    router = JobRouter()

    @router.job("which")
    async def which(ctx: JobContext) -> str:
        return ctx.jobs.settings.schema

    assert await perform(which.new()) == "asyncjobs"  # no app at all
    one = AsyncJobs(schema="one", routers=[router])
    assert await perform(which.new()) == "one"
    two = AsyncJobs(schema="two", routers=[router])
    with pytest.raises(AmbiguousApp, match=r"write perform\(\.\.\., jobs=\.\.\.\)"):
        await perform(which.new())
    assert await perform(which.new(), jobs=two) == "two"
    with captured(one):
        assert await perform(which.new()) == "one"


async def test_options_are_held_against_the_app() -> None:
    with pytest.raises(UnknownQueue):
        await perform(add.using(queue="nope").new(1))


async def test_a_cancelled_test_cancels_the_handler() -> None:
    app, seen = AsyncJobs(), list[str]()
    started = asyncio.Event()

    @app.job("long")
    async def long() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            seen.append("ended")

    task = asyncio.create_task(perform(long.new()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["ended"]


async def test_outside_of_a_block_enqueues_go_their_way() -> None:
    with captured(jobs) as enqueued:
        await add.enqueue(1)
    with pytest.raises(NotOpen):
        await add.enqueue(1)
    assert [job.type for job in enqueued.jobs] == ["add"]
