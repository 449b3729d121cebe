"""What a runner counts reaches the table: once, or not at all, and never at an attempt's cost."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import asyncpg
import pytest

from asyncjobs import AsyncJobs, Cancel, Dead, Queue, Snooze
from asyncjobs.runtime.metrics import Metrics, Rollup
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Events, JobsRescued, ServicePassFailed
from asyncjobs.testing import Proxy, Recorder
from tests.support.claims import a_claimed, an_ack
from tests.support.eventually import eventually
from tests.support.factories import insert_job
from tests.support.services import running

ENDINGS = {"completed": None, "scheduled": Snooze(3600), "dead": Dead("no"), "cancelled": Cancel("no")}


@pytest.fixture
async def pool(database: Database) -> AsyncGenerator[Pool]:
    made = Pool(database, 2)
    yield made
    await made.close()


async def counts(connection: Connection) -> dict[str, int]:
    rows = await connection.fetch("SELECT status, sum(count)::bigint AS count FROM asyncjobs.job_metrics GROUP BY status")
    return {row["status"]: row["count"] for row in rows}


async def sessions(connection: Connection) -> int:
    found = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return int(found)


def count(service: Metrics, times: int) -> None:
    for _ in range(times):
        service._tally("email", "completed").add(0.1, 0.2)


async def test_a_pass_with_something_to_add_is_one_statement_and_one_with_nothing_is_none(
    database: Database, connection: Connection
) -> None:
    pool = Pool(database, 1)
    service = Metrics(pool, events=Events(), interval_seconds=3600)
    async with running(service):
        await eventually(lambda: service.passes == 1, description="the first pass has ended")
        assert await sessions(connection) == 0
        count(service, 3)
        for _ in range(2):
            service.wake()
            await service.wait_passed()
            assert await counts(connection) == {"completed": 3}
    await pool.close()


async def test_what_the_database_refused_is_added_later(pool: Pool, connection: Connection, recorder: Recorder) -> None:
    service = Metrics(pool, events=Events(), interval_seconds=3600)
    await connection.execute("ALTER TABLE asyncjobs.job_metrics ADD CONSTRAINT none CHECK (count < 0)")
    count(service, 3)
    async with running(service):
        await recorder.wait_for(ServicePassFailed)
        count(service, 2)
        await connection.execute("ALTER TABLE asyncjobs.job_metrics DROP CONSTRAINT none")
        await eventually(lambda: service.failures == 0, description="a later pass has added it")
    assert await counts(connection) == {"completed": 5}


async def test_what_may_have_been_written_is_not_written_twice(database: Database, connection: Connection) -> None:
    async with Proxy(database.dsn) as proxy:
        pool = Pool(Database(proxy.dsn, command_timeout=2.0), 1)
        service = Metrics(pool, events=Events())
        count(service, 3)
        await service.write()
        count(service, 4)
        proxy.drop_next_response()
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await service.write()
        await service.write()
        await pool.close()
    assert await counts(connection) in ({"completed": 3}, {"completed": 7})


@pytest.mark.matrix("loop", "schema")
async def test_every_ending_of_an_attempt_is_counted_and_a_stop_writes_it_down(dsn: str, schema: str, database: Database) -> None:
    jobs = AsyncJobs(dsn, schema=schema, queues=[Queue(concurrency=2)])

    @jobs.job("end", max_attempts=2)
    async def end(how: str) -> Snooze | Dead | Cancel | None:
        if how == "failed":
            raise ValueError(how)
        return ENDINGS[how]

    async with jobs.runner():
        handles = [await end.enqueue(how) for how in ("completed", "completed", "dead", "cancelled")]
        failing, snoozed = await end.enqueue("failed"), await end.enqueue("scheduled")
        for handle in handles:
            await handle.wait(timeout=10)
        await jobs.admin.retry(failing.id)
        await failing.wait(timeout=10)
    async with jobs:
        (found,) = await jobs.admin.metrics(type="end")
        job = await jobs.get(snoozed.id)
    assert job is not None
    assert job.status == "scheduled"
    assert found.by_status == {"completed": 2, "dead": 2, "cancelled": 1, "failed": 1, "scheduled": 1}
    assert (found.attempts, found.failed) == (7, 3)
    assert found.run_time.p99 is not None
    assert found.run_time.p99 < 10


async def test_an_attempt_that_was_given_back_is_not_counted(dsn: str, connection: Connection) -> None:
    jobs = AsyncJobs(dsn)
    started = asyncio.Event()

    @jobs.job("wait")
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    async with jobs.runner(grace=0):
        await wait.enqueue()
        await started.wait()
    assert await counts(connection) == {}


async def test_an_attempt_that_was_lost_with_its_runner_is_counted_by_the_one_that_rescues_it(
    dsn: str, connection: Connection, recorder: Recorder
) -> None:
    await insert_job(connection, type="email", status="processing", runner_id=99, claim_token=5, attempts=1, max_attempts=3)
    await insert_job(connection, type="sms", status="processing", runner_id=99, claim_token=6, attempts=3, max_attempts=3)
    jobs = AsyncJobs(dsn, rescue_interval=0.05)
    async with jobs.runner():
        await recorder.wait_for(JobsRescued)
    assert await counts(connection) == {"failed": 1, "dead": 1}


async def test_an_attempt_that_began_before_its_time_by_the_clock_has_not_waited(pool: Pool) -> None:
    """The claim's transaction began a moment before its job was promoted."""
    service = Metrics(pool, events=Events())
    early = a_claimed(started_epoch=1_000.0, run_epoch=1_002.0)
    service.ended(cast("Any", SimpleNamespace(claimed=early, run_seconds=0.5)), an_ack(early))
    assert service._tallies["email", "completed"].queue_seconds == 0.0


async def test_folding_goes_on_at_once_while_there_is_more(database: Database, connection: Connection) -> None:
    await connection.execute(
        "INSERT INTO asyncjobs.job_metrics (job_type, status, minute, count, queue_seconds, run_seconds, queue_time, run_time) "
        "SELECT 'email', 'completed', date_trunc('hour', now()) - n * interval '1 hour', 1, 1, 1, '{}', '{}' "
        "FROM generate_series(4, 8) AS n"
    )
    link = database.link("duties")
    rollup = Rollup(link, keep_seconds=90 * 86_400.0, events=Events(), interval_seconds=3600.0)

    async def is_folded() -> bool:
        return not await connection.fetchval("SELECT count(*) FROM asyncjobs.job_metrics WHERE span = interval '1 minute'")

    async with running(rollup):
        await eventually(is_folded, description="all five hours are folded")
    await link.close()
