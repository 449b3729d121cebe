"""Behind a pooler that shares connections between transactions: no LISTEN, no statement cache, all promises."""

import asyncio
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from asyncjobs import AsyncJobs, ConfigurationError, DatabaseUnavailable, UnsupportedConnection
from asyncjobs.store.database import Database, quote_identifier
from asyncjobs.store.migrate import migrate
from asyncjobs.telemetry.events import DutyPassed, ListenerFellBack
from asyncjobs.testing import Recorder
from tests.support.pgbouncer import pgbouncer

#: No statement lives longer than its transaction, and no start-up parameter is passed on.
TRANSACTION_POOLING = {"statement_cache_size": 0, "server_settings": dict[str, str]()}

pytestmark = pytest.mark.system


@pytest.fixture
async def pooled_dsn(dsn: str) -> AsyncGenerator[str]:
    async with pgbouncer(dsn) as through:
        yield through


async def test_jobs_run_and_the_runner_polls_after_one_warning(pooled_dsn: str, schema: str, recorder: Recorder) -> None:
    jobs = AsyncJobs(pooled_dsn, schema=schema, poll_interval=0.2, connect_kwargs=TRANSACTION_POOLING)

    @jobs.job("double")
    async def double(number: int) -> int:
        return 2 * number

    async with jobs.runner():
        handles = [await double.enqueue(number) for number in range(20)]
        assert [await handle.result(timeout=10) for handle in handles] == [2 * number for number in range(20)]
        await recorder.wait_for(ListenerFellBack)
    assert len(recorder.of(ListenerFellBack)) == 1


async def test_jobs_run_that_sql_enqueued_through_the_pooler(pooled_dsn: str, schema: str) -> None:
    jobs = AsyncJobs(pooled_dsn, schema=schema, poll_interval=0.2, connect_kwargs=TRANSACTION_POOLING)

    @jobs.job("double", serialize_by="k_{number}")
    async def double(number: int) -> int:
        return 2 * number

    async with jobs.runner():
        theirs = await asyncpg.connect(pooled_dsn, statement_cache_size=0)
        call = f"SELECT {quote_identifier(schema)}.enqueue('double', '{{\"number\": 4}}')"
        async with theirs.transaction():
            ids = [await theirs.fetchval(call) for _ in range(3)]
        await theirs.close()
        assert [await jobs.handle(job_id).result(timeout=10) for job_id in ids] == [8] * 3


async def test_the_listener_goes_around_the_pooler(pooled_dsn: str, dsn: str, schema: str, recorder: Recorder) -> None:
    jobs = AsyncJobs(
        pooled_dsn, schema=schema, notify="listen", listen_dsn=dsn, poll_interval=300, connect_kwargs=TRANSACTION_POOLING
    )

    @jobs.job("double")
    async def double(number: int) -> int:
        return 2 * number

    async with jobs.runner():
        handles = [await double.enqueue(number) for number in range(20)]
        assert [await handle.result(timeout=10) for handle in handles] == [2 * number for number in range(20)]
    assert recorder.of(ListenerFellBack) == []


async def test_duty_under_an_advisory_lock_is_refused_at_open(pooled_dsn: str, schema: str) -> None:
    jobs = AsyncJobs(pooled_dsn, schema=schema, strategies={"prune": "advisory"}, connect_kwargs=TRANSACTION_POOLING)
    with pytest.raises(ConfigurationError, match=r'duty "prune": strategy="advisory" .* a pooler'):
        async with jobs.runner():
            pass


async def test_app_that_keeps_statements_is_told_at_its_start_that_the_pooler_forgets_them(pooled_dsn: str, schema: str) -> None:
    for _ in range(3):  # whatever the pooler has open by then
        with pytest.raises(
            ConfigurationError, match=r'forgets prepared statements: give connect_kwargs=\{"statement_cache_size": 0'
        ):
            async with AsyncJobs(pooled_dsn, schema=schema, connect_kwargs={"server_settings": {}}):
                pass


async def test_app_that_sends_settings_is_told_at_once_what_to_give(pooled_dsn: str, schema: str) -> None:
    refused = r"refuses settings at the start of a session: give connect_kwargs=.* \(unsupported startup parameter"
    with pytest.raises(DatabaseUnavailable, match=refused):
        async with AsyncJobs(pooled_dsn, schema=schema, connect_timeout=3600):
            pass


async def test_statements_are_kept_where_the_pooler_gives_each_client_its_session(dsn: str, schema: str) -> None:
    async with pgbouncer(dsn, mode="session") as by_session:
        jobs = AsyncJobs(by_session, schema=schema, connect_kwargs={"server_settings": {}})

        @jobs.job("double")
        async def double(number: int) -> int:
            return 2 * number

        async with jobs.runner():
            assert await (await double.enqueue(21)).result(timeout=10) == 42


@pytest.mark.parametrize("around", [False, True])
async def test_duties_are_done_under_leases_and_around_the_pooler_under_advisory_locks(
    pooled_dsn: str, dsn: str, schema: str, recorder: Recorder, *, around: bool
) -> None:
    jobs = AsyncJobs(
        pooled_dsn, schema=schema, connect_kwargs=TRANSACTION_POOLING, listen_dsn=dsn if around else None,
        strategies={"prune": "advisory"} if around else {},
    )  # fmt: skip
    async with jobs.runner():
        event = await recorder.wait_for(DutyPassed, lambda event: event.duty == "prune")
    assert not event.failed


async def test_migrations_through_a_pooler_leave_no_lock(empty_dsn: str) -> None:
    async with pgbouncer(empty_dsn) as through:
        database = Database(through, connect_kwargs=TRANSACTION_POOLING)
        done = await asyncio.gather(*(migrate(database) for _ in range(5)))
        assert sum(map(bool, done)) == 1
        connection = await asyncpg.connect(empty_dsn)
        assert await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
        await connection.close()


async def test_the_doctor_sees_a_pooler_that_swallows_notifications_and_only_that(pooled_dsn: str, dsn: str, schema: str) -> None:
    async def found(to: str, listen_dsn: str | None = None) -> list[str]:
        symptoms = await AsyncJobs(to, schema=schema, listen_dsn=listen_dsn).admin.doctor()
        return [one.what for one in symptoms if "pooler" in one.what or one.severity == "critical"]

    assert await found(pooled_dsn) == ["a pooler is in the way of LISTEN"]
    assert await found(pooled_dsn, listen_dsn=dsn) == []
    async with pgbouncer(dsn, mode="session") as by_session:
        assert await found(by_session) == []


async def test_callers_connection_that_keeps_statements_is_told_what_it_lacks(pooled_dsn: str, schema: str) -> None:
    jobs = AsyncJobs(pooled_dsn, schema=schema, connect_kwargs=TRANSACTION_POOLING)

    @jobs.job("any")
    async def work() -> None: ...

    mine, other = await asyncpg.connect(pooled_dsn), await asyncpg.connect(pooled_dsn)
    async with jobs:
        async with mine.transaction():
            await work.using(connection=mine).enqueue()
        async with other.transaction():
            await other.execute("SELECT 1")  # on the session that `mine` gave back
            with pytest.raises(UnsupportedConnection, match=r"keeps prepared statements, .* connect with statement_cache_size=0"):
                async with mine.transaction():
                    await work.using(connection=mine).enqueue()
        assert len((await jobs.admin.find()).jobs) == 1
    await mine.close()
    await other.close()
