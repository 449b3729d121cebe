"""Handlers that ignore the stop of their runner, in a process that lives on: `runtime/remains.py`, sentence by sentence.

What a process leaves that ends is in `test_ends.py`.
"""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from asyncjobs import AsyncJobs, JobContext, Queue
from asyncjobs.store import runners
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import AttemptStarted, RunnerStopped
from asyncjobs.testing import Recorder
from tests.support.eventually import Stopwatch, eventually

pytestmark = [pytest.mark.matrix("loop"), pytest.mark.hurried]


@pytest.fixture
def jobs(database: Database) -> AsyncJobs:
    return AsyncJobs(database.dsn, schema=database.schema, queues=[Queue(concurrency=5)], heartbeat=1)


async def rows(connection: Connection) -> list[tuple[Any, ...]]:
    found = await connection.fetch("SELECT status, attempts, runner_id IS NULL FROM asyncjobs.jobs ORDER BY id")
    return [tuple(row) for row in found]


async def test_handler_that_ignores_its_cancellation_keeps_its_job_and_the_runners_row(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder
) -> None:
    end = asyncio.Event()

    @jobs.job("stubborn")
    async def stubborn() -> str:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue
        return "after all"

    async with jobs.runner(grace=0.1):
        handle = await stubborn.enqueue()
        await recorder.wait_for(AttemptStarted)
        watch = Stopwatch()
    assert watch.stop() <= 1.1
    assert await rows(connection) == [("processing", 1, False)]
    beat = await connection.fetchval("SELECT beat FROM asyncjobs.runners WHERE stopped_at IS NOT NULL")
    await eventually(lambda: has_beaten(connection, beat), description="it beats on", timeout=10)
    [stopped] = recorder.of(RunnerStopped)
    assert stopped.abandoned_job_ids == [handle.id]
    end.set()
    await eventually(lambda: no_runner(connection), description="the row goes with the last handler")
    assert await rows(connection) == [("completed", 1, True)]
    assert await connection.fetchval("SELECT result FROM asyncjobs.jobs") == '"after all"'


async def has_beaten(connection: Connection, before: int) -> bool:
    return bool(await connection.fetchval("SELECT max(beat) FROM asyncjobs.runners") > before)


async def no_runner(connection: Connection) -> bool:
    return not await connection.fetchval("SELECT count(*) FROM asyncjobs.runners")


@pytest.mark.parametrize("sees", [False, True], ids=["returns", "sees its end"])
async def test_plain_function_that_goes_on_keeps_its_job_and_the_runners_row(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder, *, sees: bool
) -> None:
    end = threading.Event()

    @jobs.job("thread", max_attempts=1)
    def thread(ctx: JobContext) -> bool:
        end.wait()
        return sees and ctx.cancelled

    async with jobs.runner(grace=0.1):
        await thread.enqueue()
        await recorder.wait_for(AttemptStarted)
        watch = Stopwatch()
    assert watch.stop() <= 1.1
    assert await rows(connection) == [("processing", 1, False)]
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.runners WHERE stopped_at IS NOT NULL") == 1
    end.set()
    await eventually(lambda: no_runner(connection), description="the row goes with the last handler")
    assert await rows(connection) == [("pending", 0, True) if sees else ("completed", 1, True)]


async def test_keys_next_job_is_let_go_by_a_head_that_ends_after_the_stop(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder
) -> None:
    end = threading.Event()
    heard: list[str] = []
    await connection.add_listener(
        Database(str(jobs.dsn), schema=jobs.settings.schema).channel, lambda *args: heard.append(str(args[-1]))
    )

    @jobs.job("keyed", serialize_by="k")
    def keyed() -> None:
        end.wait()

    async with jobs.runner(grace=0.1):
        await jobs.enqueue_many([keyed.new(), keyed.new()])
        await recorder.wait_for(AttemptStarted)
    assert [row[0] for row in await rows(connection)] == ["processing", "waiting"]
    heard.clear()
    end.set()
    await eventually(lambda: no_runner(connection), description="the row goes with the last handler")
    assert [row[0] for row in await rows(connection)] == ["completed", "pending"]
    await eventually(lambda: "f:default" in heard, description="other runners are told of it")


async def test_handler_that_completed_its_job_itself_and_ends_after_the_stop_is_left_to_the_rescue(
    jobs: AsyncJobs, connection: Connection, database: Database, recorder: Recorder
) -> None:
    end = asyncio.Event()

    @jobs.job("own")
    async def own(ctx: JobContext) -> None:
        await ctx.complete(connection)
        while not end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await end.wait()

    async with jobs.runner(grace=0.1):
        await own.enqueue()
        await recorder.wait_for(AttemptStarted)
    end.set()
    await eventually(lambda: no_runner(connection), description="the row goes with the last handler")
    link = database.link("test")
    await runners.rescue(link, 10, max_errors=10)
    await link.close()
    assert await rows(connection) == [("completed", 1, True)]


async def test_attempts_that_are_over_before_the_end_of_the_grace_leave_nothing_behind(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder
) -> None:
    @jobs.job("short")
    async def short() -> None:
        await asyncio.sleep(0.1)

    async with jobs.runner(grace=5):
        await short.enqueue()
        await recorder.wait_for(AttemptStarted)
    assert await rows(connection) == [("completed", 1, True)]
    assert await no_runner(connection)
    assert not [thread for thread in threading.enumerate() if thread.name == "asyncjobs heartbeat"]
