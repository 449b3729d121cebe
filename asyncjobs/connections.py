"""Which connections an enqueue can join, told by their class, so that no driver is imported to look at one.

`Connection` is for type checkers: each protocol has one method that only the right class has. `check_connection` is for the rest.
"""

from collections.abc import Coroutine
from typing import Any, Literal, Protocol, TypeAlias

from asyncjobs.errors import UnsupportedConnection


class AsyncpgConnection(Protocol):
    """asyncpg.Connection, also one of a pool."""

    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...


class SQLAlchemySession(Protocol):
    """sqlalchemy.ext.asyncio.AsyncSession."""

    def connection(self) -> Coroutine[Any, Any, Any]:
        """The connection of the session."""
        ...


class SQLAlchemyConnection(Protocol):
    """sqlalchemy.ext.asyncio.AsyncConnection."""

    def get_raw_connection(self) -> Coroutine[Any, Any, Any]:
        """The driver's connection."""
        ...


class PsycopgConnection(Protocol):
    """psycopg.AsyncConnection."""

    def set_autocommit(self, value: bool, /) -> Coroutine[Any, Any, None]:  # noqa: FBT001 - psycopg's signature
        """Commit after each statement, or not."""
        ...


Connection: TypeAlias = AsyncpgConnection | SQLAlchemySession | SQLAlchemyConnection | PsycopgConnection

ConnectionKind = Literal["asyncpg", "sqlalchemy_session", "sqlalchemy_connection", "psycopg"]

_KINDS: dict[tuple[str, str], ConnectionKind] = {
    ("asyncpg", "Connection"): "asyncpg",
    ("asyncpg", "PoolConnectionProxy"): "asyncpg",
    ("sqlalchemy", "AsyncSession"): "sqlalchemy_session",
    ("sqlalchemy", "AsyncConnection"): "sqlalchemy_connection",
    ("psycopg", "AsyncConnection"): "psycopg",
}

_REMEDIES: dict[tuple[str, str], str] = {
    ("asyncpg", "Pool"): "which is a pool: acquire a connection from it",
    ("sqlalchemy", "AsyncEngine"): "which is an engine: use `async with engine.begin() as connection`",
    ("sqlalchemy", "Engine"): "which is a synchronous engine: use an AsyncEngine's connection",
    ("sqlalchemy", "async_sessionmaker"): "which makes sessions: call it and give the session",
    ("sqlalchemy", "sessionmaker"): "which makes synchronous sessions: use async_sessionmaker",
    ("sqlalchemy", "async_scoped_session"): "which is a registry: call it and give the session",
    ("sqlalchemy", "Session"): "which is synchronous: use AsyncSession, or enqueue_sync after the commit",
    ("sqlalchemy", "scoped_session"): "which is synchronous: use AsyncSession, or enqueue_sync after the commit",
    ("sqlalchemy", "Connection"): "which is synchronous: use AsyncConnection, or enqueue_sync after the commit",
    ("psycopg", "Connection"): "which is synchronous: use AsyncConnection, or enqueue_sync after the commit",
    ("psycopg_pool", "AsyncConnectionPool"): "which is a pool: use `async with pool.connection() as connection`",
    ("psycopg_pool", "ConnectionPool"): "which is a synchronous pool: use AsyncConnectionPool's connection",
    ("psycopg2", "connection"): "which is synchronous: use psycopg's AsyncConnection, or enqueue_sync after the commit",
}

_IN_FAILED_TRANSACTION = "25P02"
_NO_SUCH_SCHEMA = {"3F000", "42883"}  # neither the schema, nor the function in an older one
_NO_SUCH_STATEMENT = {"26000", "42P05"}  # or one of its name is another's: a pooler took the session away
_PSYCOPG_IN_ERROR = 3  # psycopg.pq.TransactionStatus.INERROR


def check_connection(connection: object) -> ConnectionKind:
    """Which kind of connection this is. UnsupportedConnection for anything else, and for one that is closed or aborted."""
    for cls in type(connection).__mro__:
        key = (cls.__module__.partition(".")[0], cls.__name__)
        if key in _REMEDIES:
            raise UnsupportedConnection(f"got {_name_of(connection)}, {_REMEDIES[key]}.")
        if key in _KINDS:
            kind = _KINDS[key]
            problem = _state_problem(kind, connection)
            if problem:
                raise UnsupportedConnection(f"this {_name_of(connection)} {problem}.")
            return kind
    raise UnsupportedConnection(
        f"got {_name_of(connection)}: give an asyncpg connection, a psycopg AsyncConnection, "
        "or an AsyncSession or AsyncConnection of SQLAlchemy."
    )


#: The tests that keep jobs in memory just now, and use no connection.
unused: list[object] = []


def check_given(connection: object) -> None:
    """`check_connection` where jobs are written. While a test keeps jobs in memory, a mock will do (of no driver's class)."""
    kinds = {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(connection).__mro__}
    if not unused or kinds & (_KINDS.keys() | _REMEDIES.keys()):
        check_connection(connection)


def refusal_of(connection: object, error: Exception) -> UnsupportedConnection | None:
    """What a driver's error says about the connection, when it only told at use that it is aborted or closed; else None."""
    causes = (error, getattr(error, "orig", None), error.__cause__)
    if any(getattr(cause, "sqlstate", None) == _IN_FAILED_TRANSACTION for cause in causes):
        return UnsupportedConnection(f"this {_name_of(connection)} is in a failed transaction: roll it back first.")
    if any(getattr(cause, "sqlstate", None) in _NO_SUCH_STATEMENT and "__asyncpg_" in str(cause) for cause in causes):
        return UnsupportedConnection(
            f"this {_name_of(connection)} keeps prepared statements, and a pooler in between forgets them: "
            "connect with statement_cache_size=0."
        )
    elsewhere = next((cause for cause in causes if getattr(cause, "sqlstate", None) in _NO_SUCH_SCHEMA), None)
    if elsewhere is not None:
        what = str(elsewhere).partition("\n")[0]
        return UnsupportedConnection(
            f"this {_name_of(connection)} leads to a database without the app's schema ({what}): give one to the app's database."
        )
    kind = (type(error).__module__.partition(".")[0], type(error).__name__)
    if kind == ("sqlalchemy", "PendingRollbackError"):
        return UnsupportedConnection(f"this {_name_of(connection)} is in a failed transaction: roll it back first.")
    if kind in {("sqlalchemy", "InvalidRequestError"), ("sqlalchemy", "ResourceClosedError")}:
        return UnsupportedConnection(f"this {_name_of(connection)} cannot be used: {error}")
    return None


def _name_of(connection: object) -> str:
    cls = connection if isinstance(connection, type) else type(connection)
    module = cls.__module__
    if module.startswith("sqlalchemy.orm"):
        module = "sqlalchemy.orm"
    elif module.startswith("sqlalchemy.ext.asyncio"):
        module = "sqlalchemy.ext.asyncio"
    else:
        module = module.partition(".")[0]
    name = cls.__name__ if module == "builtins" else f"{module}.{cls.__name__}"
    return f"the class {name} itself" if cls is connection else name


def _state_problem(kind: ConnectionKind, connection: Any) -> str | None:
    if kind == "asyncpg":
        return _asyncpg_problem(connection)
    if kind == "psycopg":
        if connection.closed:
            return "is closed: give an open one"
        aborted = connection.info.transaction_status == _PSYCOPG_IN_ERROR
        return "is in a failed transaction: roll it back first" if aborted else None
    if kind == "sqlalchemy_connection":
        if connection.closed:
            return "is closed: give an open one"
        return "was invalidated: give another" if connection.invalidated else None
    return None if connection.is_active else "is in a failed transaction: roll it back first"


def _asyncpg_problem(connection: Any) -> str | None:
    from_pool = type(connection).__name__ == "PoolConnectionProxy"
    if from_pool and getattr(connection, "_con", connection) is None:
        return "was given back to its pool: enqueue before that"
    return "is closed: give an open one" if connection.is_closed() else None
