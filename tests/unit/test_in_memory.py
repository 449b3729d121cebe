"""`in_memory`: what only it does. What it shares with a server: tests/e2e/test_memory_and_server.py."""

import asyncio
import threading
import time
import warnings
from typing import Any
from unittest.mock import AsyncMock

import pytest
from fastapi import FastAPI

from asyncjobs import AsyncJobs, Dead, JobContext, NotOpen, UsageError, WaitTimeout, WouldBlock, as_completed, gather
from asyncjobs.model.job import Job
from asyncjobs.model.new_row import NewRow
from asyncjobs.testing import (
    assert_enqueued,
    assert_enqueued_sync,
    captured,
    in_memory,
    memory_store,
    refute_enqueued_sync,
    run_until_idle,
    run_until_idle_sync,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another HTTP client
    from starlette.testclient import TestClient

NOWHERE = "postgresql://nowhere.invalid/x"


def make() -> tuple[AsyncJobs, Any]:
    jobs = AsyncJobs(NOWHERE)

    @jobs.job("add")
    async def add(left: int, right: int = 1) -> int:
        return left + right

    return jobs, add


def app_of(jobs: AsyncJobs, add: Any) -> FastAPI:
    app = FastAPI(lifespan=jobs.lifespan)

    @app.post("/sync")
    def enqueue_sync() -> int:
        return int(add.enqueue_sync(1).id)

    @app.post("/async")
    async def enqueue() -> int:
        return int(await (await add.enqueue(2)).result(timeout=5))

    return app


def test_an_app_with_a_lifespan_is_tested_in_the_sync_style() -> None:
    jobs, add = make()
    with in_memory(jobs), TestClient(app_of(jobs, add)) as client:
        first = client.post("/sync").json()
        assert jobs.health().is_ready
        assert_enqueued_sync(jobs, add, {"left": 1}, count=1)
        refute_enqueued_sync(jobs, add, {"left": 9})
        assert [(job.id, job.result) for job in run_until_idle_sync(jobs)] == [(first, 2)]
        assert client.post("/async").json() == 3
        with pytest.raises(AssertionError, match="no job"):
            assert_enqueued_sync(jobs, add, {"left": 5})


def test_captured_is_entered_in_the_sync_style() -> None:
    jobs, add = make()
    client = TestClient(app_of(jobs, add))
    with captured(jobs) as enqueued:
        assert client.post("/sync").status_code == 200
    assert_enqueued_sync(enqueued, add, {"left": 1})


async def test_a_mock_is_as_good_as_a_session() -> None:
    jobs, add = make()
    with captured(jobs):
        await add.using(connection=AsyncMock()).enqueue(1)
    async with in_memory(jobs):
        await jobs.enqueue_many([add.new(1)], connection=AsyncMock())
        assert len(await run_until_idle(jobs)) == 1


async def test_enqueue_sync_still_refuses_the_loops_own_thread() -> None:
    jobs, add = make()
    async with in_memory(jobs):
        with pytest.raises(WouldBlock):
            add.enqueue_sync(1)


async def test_what_it_does_not_do_is_named() -> None:
    jobs, add = make()
    async with in_memory(jobs):
        for call, name in (
            (jobs.admin.pause(queue="default"), "admin.pause"),
            (jobs.admin.cancel(1, connection=AsyncMock()), "a verb on a connection"),
            (jobs.run(), "jobs.run"),
            (jobs.migrate(), "database"),
        ):
            with pytest.raises(UsageError, match=f"{name}.* in memory"):
                await call
        async with jobs, jobs.runner():
            await add.enqueue(1)
        with pytest.raises(UsageError, match="is open"):
            in_memory(jobs).__enter__()
    with pytest.raises(NotOpen):
        await add.enqueue(1)


async def test_a_completion_counts_when_the_handler_returns() -> None:
    jobs = AsyncJobs(NOWHERE)

    @jobs.job("completes", max_attempts=1)
    async def completes(ctx: JobContext, *, fails: bool) -> str:
        connection: Any = AsyncMock()
        await ctx.complete(connection, "by hand")
        if fails:
            raise ConnectionError("the transaction is rolled back")
        return "not this"

    async with in_memory(jobs):
        for fails in (False, True):
            await completes.enqueue(fails=fails)
        good, bad = await run_until_idle(jobs)
        assert (good.result, bad.status) == ("by hand", "dead")


async def test_a_handler_that_hangs_is_named() -> None:
    jobs = AsyncJobs(NOWHERE)

    @jobs.job("hangs")
    async def hangs() -> None:
        await asyncio.sleep(60)

    async with in_memory(jobs):
        handle = await hangs.enqueue()
        with pytest.raises(TimeoutError, match=f'job {handle.id} "hangs" is processing'):
            await run_until_idle(jobs, timeout=0.05)
        job = await jobs.get(handle.id)
        assert job is not None
        assert (job.status, job.attempts) == ("pending", 0)


async def test_a_handler_may_wait_for_its_child() -> None:
    jobs, add = make()

    @jobs.job("parent")
    async def parent() -> int:
        return int(await (await add.enqueue(1)).result())

    async with in_memory(jobs):
        handle = await parent.enqueue()
        ran = await run_until_idle(jobs)
        assert [job.type for job in ran] == ["parent", "add"]
        assert await handle.result() == 2
        late = await add.using(delay=60).enqueue(1)
        with pytest.raises(WaitTimeout, match="scheduled"):
            await late.result(timeout=5)


async def test_a_thousand_jobs_take_less_than_a_second() -> None:
    jobs, add = make()
    async with in_memory(jobs):
        began = time.process_time()
        for number in range(1_000):
            await add.enqueue(number)
        assert len(await run_until_idle(jobs)) == 1_000
        assert time.process_time() - began < 1  # of the processor: whatever else the machine does


def test_every_option_of_an_enqueue_is_heeded_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, add = make()
    carried = {*NewRow.__struct_fields__} & {*Job.__struct_fields__}
    # A new one here: `MemoryStore` does what it asks for, or refuses it as it does those of `_UNHEEDED`.
    assert sorted(carried) == [
        "correlation_id", "created_by", "dedup_key", "dedup_until", "keep_payload", "lane", "limit_key", "max_attempts",
        "parent_job_id", "payload", "priority", "queue", "run_at", "serialization_key", "tags", "trace_context", "type",
        "version",
    ]  # fmt: skip
    assert memory_store._UNHEEDED == ()
    monkeypatch.setattr(memory_store, "_UNHEEDED", ("tags",))  # as if it were new, and nobody had thought of memory
    with in_memory(jobs):
        add.enqueue_sync(1)
        with pytest.raises(UsageError, match=r"tags was given, but this test keeps jobs in memory"):
            add.using(tags=["a"]).enqueue_sync(1)
        assert len(run_until_idle_sync(jobs)) == 1


async def test_waits_end_when_nothing_is_left_to_run() -> None:
    jobs, add = make()

    @jobs.job("parent")
    async def parent() -> str:
        with pytest.raises(WaitTimeout, match="nothing is left to run: it is scheduled") as caught:
            await gather([await add.enqueue(1), await add.using(delay=60).enqueue(1)])
        return str(caught.value.missing)

    async with in_memory(jobs):
        handle = await parent.enqueue()
        [ran, child] = await run_until_idle(jobs)
        assert (ran.id, ran.result, child.result) == (handle.id, str([child.id + 1]), 2)
        late = jobs.handle(child.id + 1)
        with pytest.raises(WaitTimeout, match="scheduled, and 1 others had not"):
            _ = [one async for one in as_completed([late, await add.using(delay=60).enqueue(1)])]


async def test_two_handlers_that_wait_run_each_others_children() -> None:
    jobs, add = make()

    @jobs.job("parent")
    async def parent(number: int) -> int:
        return sum(await gather([await add.enqueue(number), await add.enqueue(number + 1)]))

    async with in_memory(jobs):
        handles = [await parent.enqueue(number) for number in range(3)]
        results = await asyncio.gather(*(handle.result(timeout=5) for handle in handles))
        assert results == [3, 5, 7]


async def test_a_thousand_are_waited_for_at_once() -> None:
    jobs, add = make()
    async with in_memory(jobs):
        handles = await jobs.enqueue_many([add.new(number) for number in range(1_000)])
        assert sum(await gather(handles)) == sum(range(1_001))


def test_captured_refuses_to_wait_for_many() -> None:
    jobs, add = make()
    with captured(jobs):
        handle = add.enqueue_sync(1)
        for call in (lambda: jobs.get_sync(handle.id), handle.wait_sync, lambda: asyncio.run(gathered(handle))):
            with pytest.raises(UsageError, match="where nothing runs them"):
                call()


async def gathered(handle: Any) -> None:
    await gather([handle])


async def test_captured_keeps_the_members_of_a_workflow() -> None:
    jobs, add = make()
    with captured(jobs) as enqueued:
        async with jobs.workflow("sum") as flow:
            one = flow.add(add.new(1))
            flow.add(add.new(one.result, 2))
    assert [(job.status, job.workflow_id, job.payload["left"]) for job in enqueued.jobs] == [
        ("pending", flow.id, 1),
        ("blocked", flow.id, {"$result": 0}),
    ]
    assert flow.ids == [job.id for job in enqueued.jobs]
    await assert_enqueued(enqueued, add, {"right": 2})


async def test_a_workflow_that_does_not_go_on_is_not_waited_for() -> None:
    jobs, add = make()
    async with in_memory(jobs):
        async with jobs.workflow("sum") as flow:
            flow.add(add.using(delay=600).new(1))
        with pytest.raises(WaitTimeout, match=r"1 of its 1 jobs have not ended"):
            await jobs.workflow_of(flow.id).wait()
        assert await jobs.workflow_of(flow.id).cancel() == "requested"
        assert (await jobs.workflow_of(flow.id).wait()).state == "broken"


async def test_a_cancel_from_another_loop_reaches_the_handler_that_runs() -> None:
    jobs, _ = make()
    runs, seen = threading.Event(), list[str]()

    @jobs.job("long")
    async def long() -> None:
        runs.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("told")
            raise

    def cancel(flow_id: int) -> str:
        runs.wait()
        return asyncio.run(jobs.workflow_of(flow_id).cancel("elsewhere"))

    async with in_memory(jobs):
        async with jobs.workflow("one") as flow:
            flow.add(long.new())
        cancelling = asyncio.create_task(asyncio.to_thread(cancel, flow.id))
        [job] = await run_until_idle(jobs)
        assert (await cancelling, job.status, job.error_message, seen) == ("requested", "cancelled", "elsewhere", ["told"])


async def test_what_is_spawned_while_the_workflow_is_cancelled_ends_with_it() -> None:
    jobs, add = make()

    @jobs.job("spawns")
    async def spawns(ctx: JobContext) -> None:
        assert ctx.job.workflow_id is not None
        await jobs.workflow_of(ctx.job.workflow_id).cancel("enough")
        await ctx.spawn(add.new(1))
        await asyncio.sleep(0)

    async with in_memory(jobs):
        async with jobs.workflow("one") as flow:
            flow.add(spawns.new())
        await run_until_idle(jobs)
        row = await jobs.workflow_of(flow.id).get()
        assert (row.state, row.missing, await jobs.workflow_of(flow.id).counts()) == ("broken", 0, {"cancelled": 2})


async def test_a_fan_in_of_thousands_and_a_long_chain_of_deaths_are_no_matter() -> None:
    jobs, add = make()

    @jobs.job("dies")
    async def dies() -> Any:
        return Dead("no")

    async with in_memory(jobs):
        async with jobs.workflow("wide") as flow:
            many = flow.add_many(add.new(number) for number in range(2_000))
            add_up = flow.add(add.new(1), after=many)
        await run_until_idle(jobs, timeout=60)
        assert await add_up.handle.result(timeout=0) == 2
        async with jobs.workflow("long") as flow:
            node = flow.add(dies.new())
            for _ in range(2_000):
                node = flow.add(add.new(1), after=node)
        await run_until_idle(jobs)
        assert (await jobs.workflow_of(flow.id).get()).state == "broken"
