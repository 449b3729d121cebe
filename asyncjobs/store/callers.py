"""Statements inside a caller's transaction, whatever its driver: awaited, or called on one that is synchronous.

The caller's connection is the caller's: nothing is set on it, no codec, no parameter. Whatever codecs it has already, we send
texts, and one text comes back. Drivers are told by what they can do, none is imported.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from asyncjobs.connections import (
    AsyncKind,
    Connection,
    SyncConnection,
    SyncKind,
    check_async,
    check_sync,
    refusal_of,
)
from asyncjobs.errors import UnsupportedConnection
from asyncjobs.model.new_row import NewRow
from asyncjobs.store import door
from asyncjobs.store.database import Database
from asyncjobs.store.jobs import EnqueueAnswer, enqueue_answer

#: What SQLAlchemy may reach PostgreSQL with: another driver may mean something else by a placeholder, or by an error.
_DRIVERS: Final = ("asyncpg", "psycopg", "psycopg2")


async def enqueue(connection: Connection, database: Database, rows: Sequence[NewRow], tokens: Sequence[int]) -> EnqueueAnswer:
    """Write the rows in the connection's transaction: visible, and notified, with its commit. Raises UnsupportedConnection."""
    return _read(await call(connection, database.sql("enqueue_in_transaction"), door.as_json(rows, tokens), database.channel))


def enqueue_sync(connection: SyncConnection, database: Database, rows: Sequence[NewRow], tokens: Sequence[int]) -> EnqueueAnswer:
    """`enqueue` on a synchronous connection, which it blocks as long as any statement of the caller's does."""
    return _read(call_sync(connection, database.sql("enqueue_in_transaction"), door.as_json(rows, tokens), database.channel))


def _read(answer: str) -> EnqueueAnswer:
    return enqueue_answer({"taken": None, "reserved": None, "later": None, **msgspec.json.decode(answer, type=dict[str, Any])})


class Completion(NamedTuple):
    """What a handler's transaction is to write of its job; the claim's token fences it."""

    job_id: int
    token: int
    result: str | None = None
    dropped: str | None = None
    progress: str | None = None
    empties: bool = False

    def texts(self) -> tuple[str | None, ...]:
        """As they are sent."""
        return str(self.job_id), str(self.token), self.result, self.dropped, self.progress, str(self.empties).lower()


async def complete(connection: Connection, database: Database, completion: Completion) -> bool:
    """Complete a processing job in the connection's transaction. False: the claim is not ours any more."""
    return await call(connection, database.sql("complete_in_transaction"), *completion.texts()) == "true"


def complete_sync(connection: SyncConnection, database: Database, completion: Completion) -> bool:
    """`complete` on a synchronous connection."""
    return call_sync(connection, database.sql("complete_in_transaction"), *completion.texts()) == "true"


async def call(connection: Any, sql: str, *args: str | None) -> str:
    """The one text that the statement answers, executed in the connection's transaction. UnsupportedConnection for what cannot
    do that.
    """
    kind = check_async(connection)
    try:
        (answer,) = await _send(kind, connection, sql, *args)
        return str(answer)
    except Exception as error:
        refusal = refusal_of(connection, error)
        if refusal is None:
            raise
        raise refusal from error


def call_sync(connection: Any, sql: str, *args: str | None) -> str:
    """`call` on a synchronous connection."""
    kind = check_sync(connection)
    try:
        (answer,) = _send_sync(kind, connection, sql, *args)
        return str(answer)
    except Exception as error:
        refusal = refusal_of(connection, error)
        if refusal is None:
            raise
        raise refusal from error


async def _send(kind: AsyncKind, connection: Any, sql: str, *args: str | None) -> Sequence[Any]:
    if kind == "asyncpg":
        return tuple(await connection.fetchrow(sql, *args))
    if kind == "psycopg":
        async with connection.cursor(row_factory=_tuple_rows) as cursor:
            await cursor.execute(sql if _takes_numbers(cursor) else _percent(sql), args)
            return tuple(await cursor.fetchone())
    if kind == "sqlalchemy_session":
        connection = await connection.connection()
    return tuple((await connection.exec_driver_sql(_for_sqlalchemy(connection.dialect, sql), args)).one())


def _send_sync(kind: SyncKind, connection: Any, sql: str, *args: str | None) -> Sequence[Any]:
    if kind in {"sqlalchemy_session sync", "sqlalchemy_connection sync"}:
        if kind == "sqlalchemy_session sync":
            connection = connection.connection()
        return tuple(connection.exec_driver_sql(_for_sqlalchemy(connection.dialect, sql), args).one())
    with connection.cursor(**_PLAIN_ROWS[kind]()) as cursor:
        cursor.execute(sql if _takes_numbers(cursor) else _percent(sql), args)
        return tuple(cursor.fetchone())


def _for_sqlalchemy(dialect: Any, sql: str) -> str:
    """The statement as its driver takes it. SQLAlchemy begins its transaction with the first statement that goes through it, so
    the driver's connection is not used directly.
    """
    if dialect.name != "postgresql":
        raise UnsupportedConnection(f"got a connection to {dialect.name}: jobs are enqueued in PostgreSQL.")
    if dialect.driver not in _DRIVERS:
        raise UnsupportedConnection(
            f"got a connection through {dialect.driver}: use postgresql+psycopg:// (or +psycopg2, or +asyncpg)."
        )
    return sql if dialect.driver == "asyncpg" else _percent(sql)


_PARTS = re.compile(r"""(?P<as_it_is>"(?:[^"]|"")*"|'(?:[^']|'')*'|--[^\n]*)|(?P<parameter>\$\d+)""")


def _percent(sql: str) -> str:
    """The statement with psycopg's placeholders. Parameters occur in their order; a schema's name may look like one."""
    return _PARTS.sub(lambda found: found["as_it_is"] or "%s", sql.replace("%", "%%"))


def _takes_numbers(cursor: Any) -> bool:
    """Whether this is one of psycopg's raw cursors, which take a statement as the server does."""
    return any(cls.__module__.startswith("psycopg") and "Raw" in cls.__name__ for cls in type(cursor).__mro__)


def _tuple_rows(_cursor: Any) -> Any:
    return tuple


#: How a driver is asked for a cursor whose rows are tuples, whatever the caller's are.
_PLAIN_ROWS: Final[Mapping[SyncKind, Callable[[], dict[str, Any]]]] = {
    "psycopg sync": lambda: {"row_factory": _tuple_rows},
    "psycopg2": lambda: {"cursor_factory": sys.modules["psycopg2.extensions"].cursor},  # it is there: the connection is of it
    "django": dict,
}
