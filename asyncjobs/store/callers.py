"""Statements inside a caller's transaction, whatever its driver.

The caller's connection is the caller's: nothing is set on it, no codec, no parameter. Whatever codecs it has already, we send
texts, and one text comes back. Drivers are told by what they can do, none is imported.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from asyncjobs.connections import Connection, ConnectionKind, check_connection, refusal_of
from asyncjobs.errors import UnsupportedConnection
from asyncjobs.model.new_row import NewRow
from asyncjobs.store import door
from asyncjobs.store.database import Database
from asyncjobs.store.jobs import EnqueueAnswer, enqueue_answer


async def enqueue(connection: Connection, database: Database, rows: Sequence[NewRow], tokens: Sequence[int]) -> EnqueueAnswer:
    """Write the rows in the connection's transaction: visible, and notified, with its commit. Raises UnsupportedConnection."""
    answer = await call(connection, database.sql("enqueue_in_transaction"), door.as_json(rows, tokens), database.channel)
    return enqueue_answer({"taken": None, "reserved": None, "later": None, **msgspec.json.decode(answer, type=dict[str, Any])})


async def complete(
    connection: Connection,
    database: Database,
    job_id: int,
    token: int,
    *,
    result: str | None,
    dropped: str | None,
    progress: str | None = None,
) -> bool:
    """Complete a processing job in the connection's transaction. False: the claim is not ours any more."""
    answer = await call(connection, database.sql("complete_in_transaction"), str(job_id), str(token), result, dropped, progress)
    return answer == "true"


async def call(connection: Any, sql: str, *args: str | None) -> str:
    """The one text that the statement answers, executed in the connection's transaction. UnsupportedConnection for what cannot
    do that.
    """
    kind = check_connection(connection)
    try:
        (answer,) = await _send(kind, connection, sql, *args)
        return str(answer)
    except Exception as error:
        refusal = refusal_of(connection, error)
        if refusal is None:
            raise
        raise refusal from error


async def _send(kind: ConnectionKind, connection: Any, sql: str, *args: str | None) -> Sequence[Any]:
    if kind == "asyncpg":
        return tuple(await connection.fetchrow(sql, *args))
    if kind == "psycopg":
        async with connection.cursor(row_factory=_tuple_rows) as cursor:
            await cursor.execute(sql if _takes_numbers(cursor) else _percent(sql), args)
            return tuple(await cursor.fetchone())
    if kind == "sqlalchemy_session":
        connection = await connection.connection()
    if connection.dialect.name != "postgresql":
        raise UnsupportedConnection(f"got a connection to {connection.dialect.name}: jobs are enqueued in PostgreSQL.")
    # SQLAlchemy begins its transaction with the first statement that goes through it, so the driver's connection is not used
    # directly.
    text = sql if connection.dialect.driver == "asyncpg" else _percent(sql)
    return tuple((await connection.exec_driver_sql(text, args)).one())


_PARTS = re.compile(r"""(?P<as_it_is>"(?:[^"]|"")*"|'(?:[^']|'')*'|--[^\n]*)|(?P<parameter>\$\d+)""")


def _percent(sql: str) -> str:
    """The statement with psycopg's placeholders. Parameters occur in their order; a schema's name may look like one."""
    return _PARTS.sub(lambda found: found["as_it_is"] or "%s", sql.replace("%", "%%"))


def _takes_numbers(cursor: Any) -> bool:
    """Whether this is one of psycopg's raw cursors, which take a statement as the server does."""
    return any(cls.__module__.startswith("psycopg") and "Raw" in cls.__name__ for cls in type(cursor).__mro__)


def _tuple_rows(_cursor: Any) -> Any:
    return tuple
