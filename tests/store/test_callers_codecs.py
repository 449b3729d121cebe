"""What a caller has set on its connection is the caller's: our statements take and give texts only."""

from typing import Any

import psycopg
import pytest
from psycopg.adapt import Loader
from sqlalchemy.ext.asyncio import AsyncSession

from asyncjobs import AsyncJobs
from asyncjobs.store import callers, leases
from asyncjobs.store.database import Connection, Database
from tests.store.test_enqueue_callers import asyncpg_caller, counts, enqueue, psycopg_caller, with_sqlalchemy
from tests.support.factories import a_row

CODECS: dict[str, Any] = {
    name: {"encoder": lambda value: f"<{value}>", "decoder": lambda text: f"<{text}>"}
    for name in ("int8", "int4", "bool", "float8", "json", "jsonb", "timestamptz")
}


@pytest.mark.parametrize("through", ["asyncpg", "psycopg", "SQLAlchemy"])
async def test_the_connections_own_codecs_do_not_matter(
    through: str, database: Database, connection: Connection, dsn: str
) -> None:
    made = {"asyncpg": asyncpg_caller, "psycopg": psycopg_caller, "SQLAlchemy": with_sqlalchemy("asyncpg", session=True)}
    async with made[through](dsn, "READ COMMITTED") as caller:
        await _set_codecs(caller.connection)
        first, again = [await enqueue(database, caller, a_row(dedup_key="d")) for _ in range(2)]
        assert [(one.enqueued[0].id, one.enqueued[0].created) for one in (first, again)] == [(1, True), (1, False)]
        app = AsyncJobs(dsn)
        job = await app.get(1, connection=caller.connection)
        assert (job and job.id, job and job.status) == (1, "pending")
        assert (await app.admin.change(1, priority=5, connection=caller.connection)).is_change
        done = await callers.complete(caller.connection, database, callers.Completion(1, 2, '{"n": 1}'))
        assert not done, "nobody has claimed it"
        assert not await leases.hold(caller.connection, database, leases.Fence("duty", 5, 3))
        await caller.commit()
    assert await counts(connection, database) == [1, 0, 1, 0]


async def _set_codecs(connection: Any) -> None:
    if isinstance(connection, psycopg.AsyncConnection):
        for name in CODECS:
            connection.adapters.register_loader(name, _Quoting)
        return
    if isinstance(connection, AsyncSession):
        connection = (await (await connection.connection()).get_raw_connection()).driver_connection
    for name, codec in CODECS.items():
        await connection.set_type_codec(name, schema="pg_catalog", **codec)


class _Quoting(Loader):
    def load(self, data: Any) -> str:
        return f"<{bytes(data).decode()}>"
