"""What a runner with nothing to do asks of the database."""

import asyncio

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.store.database import Connection, Database
from tests.support.eventually import patience

#: Of an idle runner, all its connections together.
STATEMENTS_PER_SECOND = 1.5


async def statements(connection: Connection) -> dict[str, int]:
    """How often each statement of the runner's was executed so far, but for this one."""
    rows = await connection.fetch(
        "SELECT s.query, s.calls FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid "
        "WHERE d.datname = current_database() AND s.toplevel AND s.query NOT LIKE '%pg_stat_statements%'"
    )
    return {row["query"]: row["calls"] for row in rows}


async def measured(database: Database, connection: Connection, seconds: float) -> dict[str, float]:
    """Statements per second of a runner that was idle for so many seconds."""
    await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    jobs = AsyncJobs(database.dsn, schema=database.schema)

    @jobs.job("any")
    async def work() -> None: ...

    async with jobs.runner() as runner:
        async with patience(5):
            await runner.listening.wait_decided()
        await (await work.enqueue()).wait(timeout=5)
        await asyncio.sleep(1.0)  # what starting and that job entailed has been done
        before = await statements(connection)
        await asyncio.sleep(seconds)
        after = await statements(connection)
    calls = {query: count - before.get(query, 0) for query, count in after.items()}
    return {query: count / seconds for query, count in calls.items() if count}


@pytest.mark.direct("counts statements, and the pooler makes some of its own")
async def test_idle_runner_asks_little(database: Database, connection: Connection) -> None:
    rates = await measured(database, connection, 11.0)
    assert sum(rates.values()) <= STATEMENTS_PER_SECOND, rates


@pytest.mark.proof
async def test_idle_runner_asks_little_over_a_minute(database: Database, connection: Connection) -> None:
    rates = await measured(database, connection, 60.0)
    assert sum(rates.values()) <= STATEMENTS_PER_SECOND, rates
