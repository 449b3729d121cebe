"""The figures that users are promised. Each is measured with few jobs in every run of the tests, and with many as a proof."""

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest

from asyncjobs import AsyncJobs, JobContext, JobRouter, Queue
from asyncjobs.store.database import Connection, quote_identifier
from asyncjobs.telemetry.events import AttemptEnded
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually

NewApp = Callable[..., AsyncJobs]


@pytest.fixture
def new_app(dsn: str, schema: str, notify: Literal["auto", "listen", "poll"]) -> NewApp:
    """Make an app on the test's database."""

    def make(*routers: JobRouter, **options: Any) -> AsyncJobs:
        return AsyncJobs(dsn, schema=schema, notify=notify, routers=routers, **options)

    return make


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


async def short_beside_long(new_app: NewApp, recorder: Recorder) -> float:
    """How many seconds 100 jobs of 20 ms take in five slots, one of which runs a long job all the while."""
    router, release = JobRouter(), asyncio.Event()

    @router.job("long")
    async def wait() -> None:
        await release.wait()

    @router.job("sleep")
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)

    jobs = new_app(router, queues=[Queue(concurrency=5)])
    async with jobs:
        long, *_ = await jobs.enqueue_many([wait.new(), *[sleep.new(0.02) for _ in range(100)]])
        async with jobs.runner():
            last = await recorder.wait_for(AttemptEnded, lambda _: len(recorder.of(AttemptEnded)) >= 100)
            assert recorder.attempts(long.id)[0].ended_at is None
            assert last.job_id != long.id
            seen = recorder.attempts()
            release.set()
            await long.result(timeout=20)
    return max(attempt.ended_at or 0 for attempt in seen) - min(attempt.started_at for attempt in seen)


@pytest.mark.matrix("loop", "notify", "schema")
async def test_short_jobs_end_while_a_long_one_runs(new_app: NewApp, recorder: Recorder) -> None:
    await short_beside_long(new_app, recorder)


@pytest.mark.proof
async def test_hundred_short_jobs_beside_a_long_one_take_less_than_a_second(new_app: NewApp, recorder: Recorder) -> None:
    assert await short_beside_long(new_app, recorder) <= 0.9


async def lateness(new_app: NewApp, connection: Connection, schema: str, count: int, delay: float) -> list[float]:
    """How many seconds after their time jobs started, by this machine's clock, which is the server's."""
    router = JobRouter()
    started: dict[int, float] = {}

    @router.job("due")
    async def due(ctx: JobContext) -> None:
        started[ctx.job.id] = time.time()

    async with new_app(router).runner():
        handles = []
        for _ in range(count):
            handles.append(await due.using(delay=delay).enqueue())
            await asyncio.sleep(0.01)
        for handle in handles:
            await handle.wait(timeout=30)
    due_at = f"SELECT id, extract(epoch FROM run_at)::float8 AS run_at FROM {quote_identifier(schema)}.jobs"
    return [started[row["id"]] - row["run_at"] for row in await connection.fetch(due_at)]


@pytest.mark.matrix("loop", "notify", "schema")
async def test_jobs_do_not_start_before_they_are_due(new_app: NewApp, connection: Connection, schema: str) -> None:
    found = await lateness(new_app, connection, schema, 20, 0.4)
    assert len(found) == 20
    assert min(found) >= 0


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
    left: int = await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status <> 'completed'")
    return left == 0
