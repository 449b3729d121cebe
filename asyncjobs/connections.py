"""Which connections an enqueue can join, told by their class, so that no driver is imported to look at one.

`Connection` is for type checkers: each protocol has one method that only the right class has. `check_connection` is for the rest.

A connection is asynchronous or synchronous, and so is the call that it is given to: `enqueue` awaits the driver, `enqueue_sync`
calls it. `using(connection=…)` takes both, since it does not know yet which call follows.
"""

from collections.abc import Coroutine
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

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


class SyncSQLAlchemyConnection(Protocol):
    """sqlalchemy.Connection."""

    def get_isolation_level(self) -> str:
        """The level of its transactions."""
        ...


class SyncSQLAlchemySession(Protocol):
    """sqlalchemy.orm.Session, also one of SQLModel, and a scoped_session."""

    def connection(self) -> SyncSQLAlchemyConnection:
        """The connection of the session."""
        ...


class SyncPsycopgConnection(Protocol):
    """psycopg.Connection."""

    def set_autocommit(self, value: bool, /) -> None:  # noqa: FBT001 - psycopg's signature
        """Commit after each statement, or not."""
        ...


class Psycopg2Connection(Protocol):
    """psycopg2's connection."""

    def set_client_encoding(self, encoding: str, /) -> None:
        """Set the encoding."""
        ...


class DjangoProxy(Protocol):
    """django.db.connection, as far as a type checker sees one."""

    def __getattr__(self, item: str, /) -> Any:
        """What the thread's connection has."""
        ...

    def __contains__(self, key: Any, /) -> bool:
        """Whether it has that."""
        ...


class DjangoConnection(Protocol):
    """One of django.db.connections."""

    def ensure_connection(self) -> None:
        """Connect, unless it is connected."""
        ...


AsyncConnection: TypeAlias = AsyncpgConnection | SQLAlchemySession | SQLAlchemyConnection | PsycopgConnection
SyncConnection: TypeAlias = (
    SyncPsycopgConnection | Psycopg2Connection | SyncSQLAlchemySession | SyncSQLAlchemyConnection | DjangoConnection | DjangoProxy
)
Connection: TypeAlias = AsyncConnection | SyncConnection

AsyncKind = Literal["asyncpg", "sqlalchemy_session", "sqlalchemy_connection", "psycopg"]
SyncKind = Literal["psycopg sync", "psycopg2", "sqlalchemy_session sync", "sqlalchemy_connection sync", "django"]
ConnectionKind: TypeAlias = AsyncKind | SyncKind

_KINDS: Final[dict[tuple[str, str], AsyncKind]] = {
    ("asyncpg", "Connection"): "asyncpg",
    ("asyncpg", "PoolConnectionProxy"): "asyncpg",
    ("sqlalchemy", "AsyncSession"): "sqlalchemy_session",
    ("sqlalchemy", "AsyncConnection"): "sqlalchemy_connection",
    ("psycopg", "AsyncConnection"): "psycopg",
}
_SYNC_KINDS: Final[dict[tuple[str, str], SyncKind]] = {
    ("psycopg", "Connection"): "psycopg sync",
    ("psycopg2", "connection"): "psycopg2",
    ("sqlalchemy", "Session"): "sqlalchemy_session sync",
    ("sqlalchemy", "scoped_session"): "sqlalchemy_session sync",
    ("sqlalchemy", "Connection"): "sqlalchemy_connection sync",
    ("django", "ConnectionProxy"): "django",
    ("django", "BaseDatabaseWrapper"): "django",
}

_REMEDIES: Final[dict[tuple[str, str], str]] = {
    ("asyncpg", "Pool"): "which is a pool: acquire a connection from it",
    ("sqlalchemy", "AsyncEngine"): "which is an engine: use `async with engine.begin() as connection`",
    ("sqlalchemy", "Engine"): "which is an engine: use `with engine.begin() as connection`, and enqueue_sync",
    ("sqlalchemy", "async_sessionmaker"): "which makes sessions: call it and give the session",
    ("sqlalchemy", "sessionmaker"): "which makes sessions: call it and give the session",
    ("sqlalchemy", "async_scoped_session"): "which is a registry: call it and give the session",
    ("psycopg_pool", "AsyncConnectionPool"): "which is a pool: use `async with pool.connection() as connection`",
    ("psycopg_pool", "ConnectionPool"): "which is a pool: use `with pool.connection() as connection`, and enqueue_sync",
    ("django", "ConnectionHandler"): 'which holds connections: give connections["default"], or django.db.connection',
    ("django", "Atomic"): "which is a block: give django.db.connection in it",
}
#: What to do with a synchronous connection where the driver is awaited.
_GIVE: Final[dict[ConnectionKind, str]] = {
    "psycopg sync": "give it to enqueue_sync (complete_sync, cancel_sync …), or use AsyncConnection",
    "psycopg2": "give it to enqueue_sync (complete_sync, cancel_sync …), or use psycopg's AsyncConnection",
    "sqlalchemy_session sync": "give it to enqueue_sync (complete_sync, cancel_sync …), or use AsyncSession",
    "sqlalchemy_connection sync": "give it to enqueue_sync (complete_sync, cancel_sync …), or use AsyncConnection",
    "django": "give it to enqueue_sync (complete_sync, cancel_sync …), from async code within sync_to_async",
}

#: What is said of an error that a library raises by itself, when the connection is used.
_AT_USE: Final[dict[tuple[str, str], str]] = {
    ("sqlalchemy", "PendingRollbackError"): "is in a failed transaction: roll it back first.",
    ("sqlalchemy", "MissingGreenlet"): (
        "is the inside of an asynchronous one: `await` enqueue with that, or call enqueue_sync within its run_sync."
    ),
    ("sqlalchemy", "InvalidRequestError"): "cannot be used: {}",
    ("sqlalchemy", "ResourceClosedError"): "cannot be used: {}",
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
        kind = _KINDS.get(key) or _SYNC_KINDS.get(key)
        if kind is not None:
            problem = _state_problem(kind, connection)
            if problem:
                raise UnsupportedConnection(f"this {_name_of(connection)} {problem}.")
            return kind
    raise UnsupportedConnection(
        f"got {_name_of(connection)}: give a connection of asyncpg or psycopg, a session or connection of SQLAlchemy, "
        "or Django's connection."
    )


def check_async(connection: object) -> AsyncKind:
    """`check_connection` for a call that awaits the driver: a synchronous one is refused, too."""
    kind = check_connection(connection)
    if kind in _GIVE:
        raise UnsupportedConnection(f"got {_name_of(connection)}, which is synchronous: {_GIVE[kind]}.")
    return cast("AsyncKind", kind)


def check_sync(connection: object) -> SyncKind:
    """`check_connection` for a call that does not await the driver: an asynchronous one is refused, too."""
    kind = check_connection(connection)
    if kind in _GIVE:
        return cast("SyncKind", kind)
    raise UnsupportedConnection(
        f"got {_name_of(connection)}, which is asynchronous: `await` enqueue with it, or give enqueue_sync a synchronous one."
    )


#: The tests that keep jobs in memory just now, and use no connection.
unused: list[object] = []


def check_given(connection: object, *, blocks: bool | None = None) -> None:
    """`check_connection` where jobs are enqueued, with `blocks` `check_sync` or `check_async`. While a test keeps jobs in memory,
    a mock will do (of no driver's class).
    """
    kinds = {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(connection).__mro__}
    if not unused or kinds & (_KINDS.keys() | _SYNC_KINDS.keys() | _REMEDIES.keys()):
        (check_connection if blocks is None else check_sync if blocks else check_async)(connection)


def refusal_of(connection: object, error: Exception) -> UnsupportedConnection | None:
    """What a driver's error says about the connection, when it only told at use that it is aborted or closed; else None."""
    causes = (error, getattr(error, "orig", None), error.__cause__)
    if any(_sqlstate(cause) == _IN_FAILED_TRANSACTION for cause in causes):
        return UnsupportedConnection(f"this {_name_of(connection)} is in a failed transaction: roll it back first.")
    if any(_sqlstate(cause) in _NO_SUCH_STATEMENT and "__asyncpg_" in str(cause) for cause in causes):
        return UnsupportedConnection(
            f"this {_name_of(connection)} keeps prepared statements, and a pooler in between forgets them: "
            "connect with statement_cache_size=0."
        )
    elsewhere = next((cause for cause in causes if _sqlstate(cause) in _NO_SUCH_SCHEMA), None)
    if elsewhere is not None:
        what = str(elsewhere).partition("\n")[0]
        return UnsupportedConnection(
            f"this {_name_of(connection)} leads to a database without the app's schema ({what}): give one to the app's database."
        )
    kind = (type(error).__module__.partition(".")[0], type(error).__name__)
    problem = _AT_USE.get(kind)
    return None if problem is None else UnsupportedConnection(f"this {_name_of(connection)} {problem.format(error)}")


def sqlstates_of(error: Exception) -> set[str]:
    """What the server says of an error, whichever library it came through."""
    causes = (error, getattr(error, "orig", None), error.__cause__)
    return {state for cause in causes if (state := _sqlstate(cause)) is not None}


def _sqlstate(error: object) -> str | None:
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


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
    if kind == "django":
        return _django_problem(connection)
    if kind in {"sqlalchemy_session", "sqlalchemy_session sync"}:
        return None if connection.is_active else "is in a failed transaction: roll it back first"
    if connection.closed:
        return "is closed: give an open one"
    if kind in {"sqlalchemy_connection", "sqlalchemy_connection sync"}:
        return "was invalidated: give another" if connection.invalidated else None
    aborted = connection.info.transaction_status == _PSYCOPG_IN_ERROR
    return "is in a failed transaction: roll it back first" if aborted else None


def _django_problem(connection: Any) -> str | None:
    """Outside of its atomic blocks one that is closed, or that failed, begins anew by itself."""
    if connection.vendor != "postgresql":
        return f"leads to {connection.vendor}: jobs are enqueued in PostgreSQL"
    if not connection.in_atomic_block:
        return None
    if connection.closed_in_transaction:
        return "was closed in its transaction: leave its atomic block first"
    return "is in a failed transaction: leave its atomic block first" if connection.needs_rollback else None


def _asyncpg_problem(connection: Any) -> str | None:
    from_pool = type(connection).__name__ == "PoolConnectionProxy"
    if from_pool and getattr(connection, "_con", connection) is None:
        return "was given back to its pool: enqueue before that"
    return "is closed: give an open one" if connection.is_closed() else None
