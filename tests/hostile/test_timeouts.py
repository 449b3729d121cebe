"""The server's own limits of time, hit again and again: whatever they end is done again, and no attempt is spent by it."""

from functools import partial

import asyncpg
import pytest

from asyncjobs import AsyncJobs, Backoff, JobContext
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import ListenerLost
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually, patience
from tests.support.outage import at_work

pytestmark = pytest.mark.usefixtures("auditor")


async def limit(connection: Connection, **settings: str) -> None:
    """For every connection that is made from now on."""
    name = await connection.fetchval("SELECT quote_ident(current_database())")
    for setting, value in settings.items():
        await connection.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("statement_timeout", "canceling statement due to statement timeout"),
        pytest.param("lock_timeout", "canceling statement due to lock timeout", marks=pytest.mark.proof),
    ],
)
async def test_nothing_is_lost_while_a_table_is_locked_for_longer(
    database: Database, connection: Connection, recorder: Recorder, setting: str, words: str
) -> None:
    await limit(connection, **{setting: "150ms"})
    async with at_work(database.dsn, recorder) as work:
        await connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
        async with connection.transaction():
            await connection.execute("LOCK TABLE asyncjobs.jobs IN ACCESS EXCLUSIVE MODE")
            work.enqueues()
            work.gate.set()  # what ends now cannot be acknowledged
            await work.notices(words)
        await work.ends()


@pytest.mark.proof
async def test_nothing_is_lost_when_the_server_ends_idle_sessions(
    database: Database, connection: Connection, recorder: Recorder
) -> None:
    await limit(connection, idle_session_timeout="100ms")
    async with at_work(database.dsn, recorder, listener_keepalive=0.5) as work:
        for times in range(1, 4):
            await work.enqueue()
            await eventually(partial(has_ended, recorder, times), description="its session is ended")
        await limit(connection, idle_session_timeout="0")
        await work.ends()


def has_ended(recorder: Recorder, times: int) -> bool:
    return len(recorder.of(ListenerLost)) > times


async def test_transaction_that_idles_for_too_long_fails_its_attempt_in_words(
    database: Database, connection: Connection, recorder: Recorder
) -> None:
    await limit(connection, idle_in_transaction_session_timeout="100ms")
    jobs = AsyncJobs(database.dsn)

    @jobs.job("write", backoff=Backoff(0.01))
    async def write(ctx: JobContext) -> None:
        mine = await asyncpg.connect(database.dsn, timeout=10, command_timeout=10)
        try:
            async with mine.transaction():
                await ctx.complete(mine)
                if ctx.attempt == 1:
                    await connection.fetchval("SELECT pg_sleep(0.3)")
        finally:
            mine.terminate()

    async with jobs.runner(grace=1):
        handle = await write.enqueue()
        async with patience(20):
            job = await handle.wait()
    assert (job.status, job.attempts) == ("completed", 2)
    assert "closed" in str(job.last_error) or "terminating connection" in str(job.last_error)
