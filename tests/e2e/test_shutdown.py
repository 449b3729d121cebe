"""Stopping a runner: in order, within its grace and a second, with the database up or down (P10)."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import AttemptStarted, ClaimWasLost, DatabaseFailed, JobsClaimed, RunnerStopped
from asyncjobs.testing import Proxy, Recorder
from tests.support.eventually import Stopwatch, eventually, patience
from tests.support.notices import without_lot

pytestmark = [pytest.mark.matrix("loop"), pytest.mark.hurried]


@pytest.fixture
def jobs(database: Database) -> AsyncJobs:
    queues = [Queue(concurrency=5), Queue("mail", concurrency=2)]
    return AsyncJobs(database.dsn, schema=database.schema, queues=queues, heartbeat=1)


@asynccontextmanager
async def taking_at_most(seconds: float) -> AsyncGenerator[None]:
    watch = Stopwatch()
    yield
    assert watch.stop() <= seconds


async def rows(connection: Connection) -> list[tuple[Any, ...]]:
    found = await connection.fetch("SELECT status, attempts, runner_id IS NULL FROM asyncjobs.jobs ORDER BY id")
    return [tuple(row) for row in found]


async def test_handlers_may_end_within_the_grace_and_enqueue_while_nothing_new_is_claimed(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder
) -> None:
    stopping = asyncio.Event()

    @jobs.job("child", queue="mail")
    async def child() -> None: ...

    @jobs.job("parent")
    async def parent() -> str:
        await stopping.wait()
        handle = await child.enqueue()
        await asyncio.sleep(0.05)
        return f"parent of {handle.id}"

    async with jobs.runner(grace=10) as runner:
        handle = await parent.enqueue()
        await recorder.wait_for(AttemptStarted)
        stop = asyncio.create_task(runner.stop())
        await asyncio.sleep(0)
        stopping.set()
        async with taking_at_most(5):
            await stop
    assert await rows(connection) == [("completed", 1, True), ("pending", 0, True)]
    [stopped] = recorder.of(RunnerStopped)
    assert stopped.abandoned_job_ids == []
    children = await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE parent_job_id = $1", handle.id)
    assert children == 1


async def test_what_goes_on_after_the_grace_is_cancelled_and_given_back_at_once(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder
) -> None:
    heard: list[str] = []
    await connection.add_listener(jobs_channel(jobs), lambda *args: heard.append(without_lot(args[-1])))

    @jobs.job("long", queue="mail")
    async def long() -> None:
        await asyncio.sleep(60)

    async with jobs.runner(grace=0.2):
        await long.enqueue()
        await recorder.wait_for(AttemptStarted)
        heard.clear()
        began, watch = time.monotonic(), Stopwatch()
    assert time.monotonic() - began >= 0.16  # the last fifth is for cleaning up
    assert watch.stop() <= 1.2
    assert await rows(connection) == [("pending", 0, True)]
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.runners") == 0
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.former_runners WHERE died_at IS NULL") == 1
    await eventually(lambda: "q:mail" in heard, description="other runners are told of the job")


def jobs_channel(jobs: AsyncJobs) -> str:
    return Database(str(jobs.dsn), schema=jobs.settings.schema).channel


async def test_jobs_that_wait_for_a_slot_are_given_back_at_once(
    database: Database, connection: Connection, recorder: Recorder
) -> None:
    jobs = AsyncJobs(database.dsn, schema=database.schema, queues=[Queue(concurrency=1, prefetch=3)])
    end = asyncio.Event()

    @jobs.job("wait")
    async def wait() -> None:
        await end.wait()

    async with jobs.runner(grace=10) as runner:
        await jobs.enqueue_many([wait.new() for _ in range(5)])
        await eventually(lambda: sum(event.claimed for event in recorder.of(JobsClaimed)) == 4, description="four are claimed")
        stop = asyncio.create_task(runner.stop())
        await eventually(lambda: given_back(connection), description="those that wait are given back")
        end.set()
        await stop
    assert await rows(connection) == [("completed", 1, True), *[("pending", 0, True)] * 4]


async def given_back(connection: Connection) -> bool:
    return [row[0] for row in await rows(connection)] == ["processing", *["pending"] * 4]


async def test_queues_share_one_grace(jobs: AsyncJobs, connection: Connection, recorder: Recorder) -> None:
    @jobs.job("one")
    async def one() -> None:
        await asyncio.sleep(0.4)

    @jobs.job("other", queue="mail")
    async def other() -> None:
        await asyncio.sleep(0.4)

    async with jobs.runner(grace=5) as runner:
        await jobs.enqueue_many([one.new(), other.new()])
        await eventually(lambda: len(recorder.of(AttemptStarted)) == 2, description="both run")
        async with taking_at_most(1.5):
            await runner.stop()
    assert await rows(connection) == [("completed", 1, True)] * 2


async def test_second_stop_cuts_the_grace_short(jobs: AsyncJobs, connection: Connection, recorder: Recorder) -> None:
    @jobs.job("long")
    async def long() -> None:
        await asyncio.sleep(60)

    async with jobs.runner(grace=60) as runner:
        await long.enqueue()
        await recorder.wait_for(AttemptStarted)
        first = asyncio.create_task(runner.stop())
        await asyncio.sleep(0.05)
        assert not first.done()
        async with taking_at_most(1):
            await asyncio.gather(first, runner.stop())
    assert await rows(connection) == [("pending", 0, True)]


async def test_stops_at_the_same_time_and_afterwards_all_return(jobs: AsyncJobs) -> None:
    async with jobs.runner() as runner, taking_at_most(2):
        await asyncio.gather(*(runner.stop() for _ in range(3)))
        await runner.wait_stopped()
        await runner.stop()


@pytest.mark.parametrize("where", ["handler", "its task"])
async def test_handler_that_stops_its_runner_does_not_wait_for_itself(
    jobs: AsyncJobs, connection: Connection, where: str
) -> None:
    @jobs.job("last")
    async def last() -> None:
        await (runner.stop() if where == "handler" else asyncio.create_task(runner.stop()))

    async with jobs.runner(grace=60) as runner:
        await last.enqueue()
        async with patience(5):
            await runner.wait_stopped()
    assert await rows(connection) == [("completed", 1, True)]


async def test_caller_of_a_stop_that_is_cancelled_is_in_a_hurry(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder
) -> None:
    @jobs.job("long")
    async def long() -> None:
        await asyncio.sleep(60)

    async with jobs.runner(grace=60) as runner:
        await long.enqueue()
        await recorder.wait_for(AttemptStarted)
        stop = asyncio.create_task(runner.stop())
        await asyncio.sleep(0.05)
        async with taking_at_most(1):
            stop.cancel()
            await asyncio.wait([stop])
        assert stop.cancelled()
    assert await rows(connection) == [("pending", 0, True)]


async def test_handler_that_is_cancelled_has_time_to_clean_up_within_the_grace(
    database: Database, connection: Connection, recorder: Recorder
) -> None:
    jobs = AsyncJobs(database.dsn, schema=database.schema, cleanup=1.5)
    tidied = asyncio.Event()

    @jobs.job("tidy", max_attempts=1)
    async def tidy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.6)  # longer than the moment that a stop leaves after its grace
            tidied.set()

    async with jobs.runner(grace=1.6):
        await tidy.enqueue()
        await recorder.wait_for(AttemptStarted)
        watch = Stopwatch()
    assert watch.stop() <= 1.6
    assert tidied.is_set()
    assert await rows(connection) == [("pending", 0, True)]


@pytest.mark.parametrize("trouble", ["black hole", "refused"])
@pytest.mark.parametrize("running", [3, 0])
@pytest.mark.unaudited("the jobs are left to the rescue")
async def test_stop_ends_in_time_although_the_database_is_away(
    proxy: Proxy, connection: Connection, recorder: Recorder, trouble: str, running: int
) -> None:
    jobs = AsyncJobs(proxy.dsn)

    @jobs.job("long")
    async def long() -> None:
        await asyncio.sleep(60)

    async with jobs.runner(grace=0.3):
        await jobs.enqueue_many([long.new() for _ in range(running)])
        await eventually(lambda: len(recorder.of(AttemptStarted)) == running, description="all run")
        await recorder.wait_for(JobsClaimed)
        if trouble == "black hole":
            proxy.black_hole()
        else:
            proxy.refuse()
            proxy.reset()
        watch = Stopwatch()
    assert watch.stop() <= 1.3
    [stopped] = recorder.of(RunnerStopped)
    assert len(stopped.abandoned_job_ids) == running
    assert recorder.of(ClaimWasLost) == []
    assert await rows(connection) == [("processing", 1, False)] * running
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.runners") == 1


async def test_stop_while_the_database_restarts_its_connections_still_gives_back(
    database: Database, proxy: Proxy, connection: Connection, recorder: Recorder
) -> None:
    jobs = AsyncJobs(proxy.dsn, schema=database.schema)

    @jobs.job("long")
    async def long() -> None:
        await asyncio.sleep(60)

    async with jobs.runner(grace=0.1):
        await long.enqueue()
        await recorder.wait_for(AttemptStarted)
        proxy.reset()
    assert await rows(connection) == [("pending", 0, True)]
    assert len(recorder.of(DatabaseFailed)) <= 2


@pytest.mark.parametrize("hurried", [False, True], ids=["within the grace", "stopped twice"])
async def test_slow_database_has_what_is_left_of_the_grace_to_see_the_runner_off(
    proxy: Proxy, database: Database, connection: Connection, recorder: Recorder, *, hurried: bool
) -> None:
    jobs = AsyncJobs(proxy.dsn, schema=database.schema)

    @jobs.job("short")
    async def short() -> None: ...

    async with jobs.runner(grace=60) as runner:
        await (await short.enqueue()).wait(timeout=20)
        await eventually(runner.duties.leader.held, description="it does duties")
        proxy.delay(2.0 if hurried else 0.4)
        stop = asyncio.create_task(runner.stop())
        if hurried:
            await asyncio.sleep(0)
            await runner.stop()
        await stop
        proxy.heal()
    assert len(recorder.of(RunnerStopped)) == 1
    left = await connection.fetchval("SELECT count(*) FROM asyncjobs.runners")
    leases = await connection.fetchval("SELECT count(*) FROM asyncjobs.background_job_leases WHERE held_by_worker_id <> 'none'")
    assert (left, leases > 0) == ((1, True) if hurried else (0, False))
