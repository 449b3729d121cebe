"""Statements inside a caller's transaction, whatever its driver.

The caller's connection is the caller's: nothing is set on it, no codec, no parameter; what we send are texts and numbers, what
comes back is one row. Drivers are told by what they can do, none is imported.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from asyncjobs.connections import Connection, check_connection
from asyncjobs.errors import DuplicateJob
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.store.database import Database


async def enqueue(connection: Connection, database: Database, rows: Sequence[NewRow], tokens: Sequence[int]) -> list[Enqueued]:
    """Write the rows in the connection's transaction: visible, and notified, with its commit.

    Raises DuplicateJob (nothing was written) when a row asked for that, and UnsupportedConnection.
    """
    document = [{**msgspec.to_builtins(row), "enqueue_token": token} for row, token in zip(rows, tokens, strict=True)]
    text = msgspec.json.encode(document).decode()
    ids, existing, duplicates, status = await call(connection, database.sql("enqueue_here"), text, database.channel)
    if duplicates:
        row = rows[duplicates[0] - 1]
        raise DuplicateJob(row.type, row.dedup_key or "", ids[duplicates[0] - 1], status or "gone")
    met = frozenset(existing or ())
    return [Enqueued(job_id, at not in met) for at, job_id in enumerate(ids, start=1)]


async def complete(
    connection: Connection, database: Database, job_id: int, token: int, *, result: str | None, dropped: str | None
) -> bool:
    """Complete a processing job in the connection's transaction. False: the claim is not ours any more."""
    (done,) = await call(connection, database.sql("complete_here"), job_id, token, result, dropped)
    return bool(done)


async def call(connection: Any, sql: str, *args: Any) -> Sequence[Any]:
    """The one row of the statement, executed in the connection's transaction. UnsupportedConnection for what cannot do that."""
    kind = check_connection(connection)
    if kind == "asyncpg":
        return tuple(await connection.fetchrow(sql, *args))
    if kind == "psycopg":
        async with connection.cursor(row_factory=_tuple_rows) as cursor:
            await cursor.execute(_percent(sql, len(args)), args)
            return tuple(await cursor.fetchone())
    if kind == "sqlalchemy_session":
        connection = await connection.connection()
    # SQLAlchemy begins its transaction with the first statement that goes through it, so the driver's connection is not used
    # directly.
    text = sql if connection.dialect.driver == "asyncpg" else _percent(sql, len(args))
    return tuple((await connection.exec_driver_sql(text, args)).one())


def _percent(sql: str, count: int) -> str:
    """The statement with psycopg's placeholders. Parameters occur in their order."""
    sql = sql.replace("%", "%%")
    for number in range(1, count + 1):
        sql = sql.replace(f"${number}", "%s")
    return sql


def _tuple_rows(_cursor: Any) -> Any:
    return tuple
