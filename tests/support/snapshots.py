"""A session that holds an old snapshot."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg

from asyncjobs.store.database import Database


@asynccontextmanager
async def old_snapshot(database: Database) -> AsyncGenerator[None]:
    """While it is held, no dead entry of an index can be told from a live one."""
    connection = await asyncpg.connect(database.dsn)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetchval("SELECT count(*) FROM asyncjobs.runners")
            yield
    finally:
        await connection.close()
