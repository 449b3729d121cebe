"""The figures that users are promised. Each is measured with few jobs in every run of the tests, and with many as a proof."""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest

from asyncjobs import AsyncJobs, JobRouter, Queue
from asyncjobs.store.database import Connection, quote_identifier
from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted, ListenerConnected
from asyncjobs.testing import Recorder
from tests.programs.enqueuer import router as notes
from tests.support.eventually import eventually
from tests.support.program import Program
from tests.support.proxy import Proxy

NewApp = Callable[..., AsyncJobs]


@pytest.fixture
def new_app(dsn: str, schema: str, notify: Literal["auto", "listen", "poll"]) -> NewApp:
    """Make an app on the test's database."""

    def make(*routers: JobRouter, **options: Any) -> AsyncJobs:
        return AsyncJobs(dsn, schema=schema, notify=notify, routers=routers, **options)

    return make


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


@pytest.mark.matrix("loop", "notify", "schema")
async def test_short_jobs_do_not_wait_for_a_long_one(new_app: NewApp, recorder: Recorder) -> None:
    router = JobRouter()

    @router.job("sleep")
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)

    jobs = new_app(router, queues=[Queue(concurrency=5)])
    async with jobs:
        long, *short = await jobs.enqueue_many([sleep.new(2.0), *[sleep.new(0.02) for _ in range(100)]])
        async with jobs.runner():
            last = await recorder.wait_for(AttemptEnded, lambda _: len(recorder.of(AttemptEnded)) >= 100)
            assert recorder.attempts(long.id)[0].ended_at is None
            assert last.job_id != long.id
            seen = recorder.attempts()
            took = max(attempt.ended_at or 0 for attempt in seen) - min(attempt.started_at for attempt in seen)
            assert took <= 0.9
            await long.result(timeout=5)
    assert len(short) == 100


def env_of(dsn: str, schema: str) -> dict[str, str]:
    return {"ASYNCJOBS_DSN": dsn, "TEST_SCHEMA": schema}


async def waits(connection: Connection, new_app: NewApp, dsn: str, schema: str, count: int) -> list[float]:
    """How long jobs of another process waited for their start, in seconds."""
    async with new_app(notes, poll_interval=300).runner():
        async with Program.python("-m", "tests.programs.enqueuer", str(count), env=env_of(dsn, schema)) as other:
            await other.succeeds(timeout=300)
        return await noted(connection, schema, count)


async def noted(connection: Connection, schema: str, count: int) -> list[float]:
    """The results of that many jobs, once all are there."""
    results = f"SELECT result::float8 FROM {quote_identifier(schema)}.jobs WHERE type = 'figures.note' AND status = 'completed'"

    async def are_there() -> list[float]:
        found = [row["result"] for row in await connection.fetch(results)]
        return found if len(found) == count else []

    return await eventually(are_there, description=f"{count} jobs are completed", timeout=20)


@pytest.mark.matrix("loop", "schema")
async def test_jobs_of_another_process_start_at_once(connection: Connection, new_app: NewApp, dsn: str, schema: str) -> None:
    found = await waits(connection, new_app, dsn, schema, 40)
    assert statistics.median(found) <= 0.1
    assert max(found) <= 2


@pytest.mark.proof
async def test_a_thousand_jobs_of_another_process_start_at_once(
    connection: Connection, new_app: NewApp, dsn: str, schema: str
) -> None:
    found = await waits(connection, new_app, dsn, schema, 1000)
    assert percentile(found, 99) <= 0.1
    assert max(found) <= 1


async def test_a_terminated_listener_costs_a_moment(
    new_app: NewApp, dsn: str, schema: str, recorder: Recorder, connection: Connection
) -> None:
    async with new_app(notes, poll_interval=300).runner():
        await recorder.wait_for(ListenerConnected)
        kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'asyncjobs listener'"
        assert await connection.fetchval(kill + " AND datname = current_database()")
        async with Program.python("-m", "tests.programs.enqueuer", "1", env=env_of(dsn, schema)) as other:
            await other.succeeds()
        (waited,) = await noted(connection, schema, 1)
    assert waited <= 2


async def test_a_silent_listener_costs_its_keepalive_and_time_out(
    new_app: NewApp, dsn: str, schema: str, recorder: Recorder
) -> None:
    async with Proxy(dsn) as proxy, new_app(notes, poll_interval=300, listen_dsn=proxy.dsn, listener_keepalive=0.5).runner():
        await recorder.wait_for(ListenerConnected)
        proxy.silence("listener")
        began = time.monotonic()
        async with Program.python("-m", "tests.programs.enqueuer", "1", env=env_of(dsn, schema)) as other:
            await other.succeeds()
        await recorder.wait_for(AttemptStarted, timeout=10)
        assert time.monotonic() - began <= 0.5 + 2 + 2  # keepalive, its time-out, and a slow machine


async def lateness(new_app: NewApp, connection: Connection, schema: str, count: int, delay: float) -> list[float]:
    """How many seconds after their time jobs started, by the server's clock."""
    router = JobRouter()

    @router.job("due")
    async def due() -> None: ...

    async with new_app(router).runner():
        handles = []
        for _ in range(count):
            handles.append(await due.using(delay=delay).enqueue())
            await asyncio.sleep(0.01)
        for handle in handles:
            await handle.wait(timeout=30)
    late = f"SELECT extract(epoch FROM started_at - run_at)::float8 AS late FROM {quote_identifier(schema)}.jobs"
    return [row["late"] for row in await connection.fetch(late)]


@pytest.mark.matrix("loop", "notify", "schema")
async def test_jobs_start_when_they_are_due(new_app: NewApp, connection: Connection, schema: str) -> None:
    found = await lateness(new_app, connection, schema, 20, 0.4)
    assert min(found) >= 0
    assert statistics.median(found) <= 0.05
    assert max(found) <= 1


@pytest.mark.proof
async def test_a_hundred_jobs_start_within_50_ms_of_their_time(new_app: NewApp, connection: Connection, schema: str) -> None:
    found = await lateness(new_app, connection, schema, 100, 1.5)
    assert percentile(found, 95) <= 0.05


async def calls(connection: Connection, like: str = "%") -> int:
    """How often statements like this were called in this database, these questions apart."""
    count = """SELECT coalesce(sum(s.calls), 0)::bigint FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
        WHERE d.datname = current_database() AND s.query LIKE $1 AND s.query NOT LIKE '%pg_stat_statements%'"""
    value: int = await connection.fetchval(count, like)
    return value


async def idle_statements(new_app: NewApp, connection: Connection, seconds: float) -> float:
    """Statements per second of a runner with nothing to do."""
    await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    router = JobRouter()

    @router.job("nothing")
    async def nothing() -> None: ...

    async with new_app(router).runner():
        await asyncio.sleep(1)
        before = await calls(connection)
        await asyncio.sleep(seconds)
        return (await calls(connection) - before) / seconds


@pytest.mark.matrix("notify")
async def test_an_idle_runner_asks_for_little(new_app: NewApp, connection: Connection) -> None:
    assert await idle_statements(new_app, connection, 4) <= 2.5


@pytest.mark.proof
async def test_an_idle_runner_asks_for_little_over_a_minute(new_app: NewApp, connection: Connection) -> None:
    assert await idle_statements(new_app, connection, 60) <= 1.5


async def test_a_thousand_jobs_take_few_transactions(new_app: NewApp, connection: Connection) -> None:
    await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    router = JobRouter()

    @router.job("nothing")
    async def nothing() -> None: ...

    jobs = new_app(router, queues=[Queue(concurrency=50)])
    async with jobs:
        handles = await jobs.enqueue_many([nothing.new() for _ in range(1000)])
        before = await calls(connection, "%finish%")
        async with jobs.runner():
            await handles[-1].wait(timeout=30)
            await eventually(lambda: is_done(connection), description="all are completed")
        assert await calls(connection, "%finish%") - before <= 60


async def is_done(connection: Connection) -> bool:
    left = await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status <> 'completed'")
    return left == 0
