"""Sequences as they are on a copy that logical replication made: as if nothing had ever been drawn."""

from asyncjobs.store.database import Connection


async def reset_sequences(connection: Connection) -> None:
    """All of the schema."""
    await connection.execute(
        "SELECT setval(c.oid::regclass, 1, false) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE c.relkind = 'S' AND n.nspname = 'asyncjobs' AND c.relname NOT LIKE 'audit%'"
    )


async def fill(connection: Connection, count: int) -> None:
    """So many rows that have ended, with the first ids."""
    await connection.execute(
        "INSERT INTO asyncjobs.jobs (id, type, status, completed_at, enqueue_token) "
        "SELECT n, 'email', 'completed', now(), n FROM generate_series(1, $1) AS n",
        count,
    )
