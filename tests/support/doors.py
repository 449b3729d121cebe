"""Doors: every kind of connection that an enqueue can join, and SQL. Each has a transaction open, and the next when that is over.

What is synchronous does all it does in a thread of its own, in which no event loop is: Django refuses to work beside one.
On a server that the installed Django is too new for, Django is left out, and nothing else.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, closing, contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

import asyncpg
import django
import django.db
import psycopg
import psycopg2
import pytest
from django.conf import settings
from django.db import transaction
from django.db.backends.postgresql.features import DatabaseFeatures
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from asyncjobs import AsyncJobs, Debounce, JobHandle
from asyncjobs.errors import EnqueueError

_aliases: Final = count(1)


class Refused(Exception):
    """What a door says instead of an id: the name of Python's error, and its text."""


class Door(NamedTuple):
    """A connection of the user's in a transaction, how one enqueues on it, and how its transaction ends."""

    #: By the type's name, with a payload by field and the options: as every door can be given them. The job's id.
    enqueue: Callable[[str, Any, Mapping[str, Any]], Awaitable[int]]
    execute: Callable[[str], Awaitable[object]]
    commit: Callable[[], Awaitable[object]]
    rollback: Callable[[], Awaitable[object]]


class SyncCaller(NamedTuple):
    """The same of a synchronous connection."""

    connection: Any
    execute: Callable[[str], object]
    commit: Callable[[], object]
    rollback: Callable[[], object]


def jobs_in(dsn: str) -> int:
    """How many jobs there are."""
    with psycopg.connect(dsn) as looking:
        found: Any = looking.execute("SELECT count(*) FROM asyncjobs.jobs").fetchone()
    return int(found[0])


Opening = Callable[[AsyncJobs, str], AbstractAsyncContextManager[Door]]


def _async_door(jobs: AsyncJobs, connection: Any, execute: Any, commit: Any, rollback: Any) -> Door:
    async def enqueue(type: str, payload: Any, options: Mapping[str, Any]) -> int:
        given: Any = {**options, "connection": connection}
        try:
            return (await jobs.enqueue(type, payload, **given)).id
        except EnqueueError as error:
            raise Refused(error.__class__.__name__, str(error)) from error

    return Door(enqueue, execute, commit, rollback)


@asynccontextmanager
async def _closed(connection: Any) -> AsyncGenerator[None]:
    """Closed in the end, whatever fails before."""
    try:
        yield
    finally:
        await connection.close()


@asynccontextmanager
async def _begun(dsn: str) -> AsyncGenerator[tuple[Any, Any, Any]]:
    """A connection of asyncpg's, and how its transaction ends."""
    connection = await asyncpg.connect(dsn)

    begun: Any = connection.transaction()

    async def end(how: str) -> None:
        nonlocal begun
        await getattr(begun, how)()
        begun = connection.transaction()
        await begun.start()

    async with _closed(connection):
        await begun.start()
        yield connection, partial(end, "commit"), partial(end, "rollback")


@asynccontextmanager
async def _asyncpg(jobs: AsyncJobs, dsn: str) -> AsyncGenerator[Door]:
    async with _begun(dsn) as (connection, commit, rollback):
        yield _async_door(jobs, connection, connection.execute, commit, rollback)


#: SQLSTATEs of the door for SQL.
_ERRORS: Final = {
    "JOB01": "UnknownType", "JOB02": "InvalidPayload", "JOB03": "PayloadTooLarge", "JOB04": "InvalidOption",
    "JOB05": "DuplicateJob", "JOB06": "UnknownQueue", "JOB07": "UnknownLane", "JOB08": "WorkflowError",
}  # fmt: skip


@asynccontextmanager
async def _sql(_jobs: AsyncJobs, dsn: str) -> AsyncGenerator[Door]:
    """`SELECT asyncjobs.enqueue(…)`."""
    async with _begun(dsn) as (connection, commit, rollback):

        async def enqueue(type: str, payload: Any, options: Mapping[str, Any]) -> int:
            said = json.dumps({name: _in_sql(value) for name, value in options.items()})
            try:
                async with connection.transaction():  # a savepoint, which saves the caller's transaction
                    call = "SELECT asyncjobs.enqueue($1, $2, $3)"
                    return int(await connection.fetchval(call, type, json.dumps(payload), said))
            except asyncpg.PostgresError as error:
                name = _ERRORS.get(error.sqlstate or "", "?") if error.hint else "refused without a hint"
                raise Refused(name, str(error).partition("\n")[0]) from error

        yield Door(enqueue, connection.execute, commit, rollback)


def _in_sql(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Debounce):
        return {"quiet": value.quiet, "at_most": value.at_most}
    return f"{value.total_seconds()} seconds" if isinstance(value, timedelta) else value


@asynccontextmanager
async def _psycopg(jobs: AsyncJobs, dsn: str) -> AsyncGenerator[Door]:
    connection = await psycopg.AsyncConnection.connect(dsn)
    async with _closed(connection):
        yield _async_door(jobs, connection, lambda sql: connection.execute(sql.encode()), connection.commit, connection.rollback)


def _async_sqlalchemy(driver: str, *, session: bool) -> Opening:
    @asynccontextmanager
    async def opening(jobs: AsyncJobs, dsn: str) -> AsyncGenerator[Door]:
        engine = create_async_engine(make_url(dsn).set(drivername=f"postgresql+{driver}"))
        made: Any = AsyncSession(engine) if session else await engine.connect()

        async def execute(sql: str) -> object:
            connection = await made.connection() if session else made
            return await connection.exec_driver_sql(sql)

        try:
            async with _closed(made):
                yield _async_door(jobs, made, execute, made.commit, made.rollback)
        finally:
            await engine.dispose()

    return opening


@contextmanager
def sync_psycopg(dsn: str, **options: Any) -> Generator[SyncCaller]:
    """psycopg's Connection."""
    connection: Any = psycopg.connect(dsn, **options)
    with closing(connection):
        yield SyncCaller(connection, lambda sql: connection.execute(sql.encode()), connection.commit, connection.rollback)


@contextmanager
def sync_psycopg2(dsn: str, **options: Any) -> Generator[SyncCaller]:
    """psycopg2's connection."""
    connection = psycopg2.connect(dsn, **options)
    with closing(connection):
        yield SyncCaller(connection, lambda sql: connection.cursor().execute(sql), connection.commit, connection.rollback)


def sync_sqlalchemy(driver: str, *, session: bool) -> Callable[[str], AbstractContextManager[SyncCaller]]:
    """A Session or a Connection of SQLAlchemy's."""

    @contextmanager
    def opening(dsn: str) -> Generator[SyncCaller]:
        engine = create_engine(make_url(dsn).set(drivername=f"postgresql+{driver}"))
        made: Any = Session(engine) if session else engine.connect()

        def execute(sql: str) -> object:
            return (made.connection() if session else made).exec_driver_sql(sql)

        try:
            with closing(made):
                yield SyncCaller(made, execute, made.commit, made.rollback)
        finally:
            engine.dispose()

    return opening


def django_takes(dsn: str) -> bool:
    """Whether this server is not too old for the installed Django."""
    least: tuple[int, ...] = DatabaseFeatures.minimum_database_version
    with psycopg.connect(dsn) as asking:
        return divmod(asking.info.server_version, 10_000) >= least


def need_django(dsn: str) -> None:
    """Leave out the rest of the test, which is Django's, on a server that is too old for it."""
    if not django_takes(dsn):
        pytest.skip(f"Django {django.__version__} needs PostgreSQL {DatabaseFeatures.minimum_database_version[0]}")


def django_alias(dsn: str, alias: str | None = None) -> str:
    """The alias of a database that Django knows from now on."""
    if not settings.configured:
        settings.configure(USE_TZ=True, DATABASES={})
        django.setup()
    url, alias = make_url(dsn), alias or f"doors_{next(_aliases)}"
    of = {"ENGINE": "django.db.backends.postgresql", "NAME": url.database, "USER": url.username, "PASSWORD": url.password,
          "HOST": url.host, "PORT": url.port}  # fmt: skip
    known: Any = django.db.connections
    known.settings[alias] = known.configure_settings({"default": {}, alias: of})[alias]
    return alias


@contextmanager
def sync_django(dsn: str) -> Generator[SyncCaller]:
    """Django's connection in `transaction.atomic`."""
    alias = django_alias(dsn)
    connection = django.db.connections[alias]
    atomic: Any = transaction.atomic(using=alias)

    def commit() -> None:
        atomic.__exit__(None, None, None)
        atomic.__enter__()

    def rollback() -> None:
        transaction.set_rollback(True, using=alias)
        commit()

    with closing(connection):
        atomic.__enter__()
        yield SyncCaller(connection, lambda sql: connection.cursor().execute(sql), commit, rollback)


def _sync(opening: Callable[[str], AbstractContextManager[SyncCaller]]) -> Opening:
    @asynccontextmanager
    async def opened(jobs: AsyncJobs, dsn: str) -> AsyncGenerator[Door]:
        with ThreadPoolExecutor(1) as thread:
            loop = asyncio.get_running_loop()

            async def there(function: Callable[..., Any], *args: Any) -> Any:
                return await loop.run_in_executor(thread, function, *args)

            caller = opening(dsn)
            made = await there(caller.__enter__)

            async def enqueue(type: str, payload: Any, options: Mapping[str, Any]) -> int:
                given: Any = {**options, "connection": made.connection}
                try:
                    handle: JobHandle[Any] = await there(lambda: jobs.enqueue_sync(type, payload, **given))
                except EnqueueError as error:
                    raise Refused(error.__class__.__name__, str(error)) from error
                return handle.id

            try:
                yield Door(
                    enqueue,
                    lambda sql: there(made.execute, sql),
                    lambda: there(made.commit),
                    lambda: there(made.rollback),
                )
            finally:
                await there(caller.__exit__, None, None, None)

    return opened


SYNC_CALLERS: Final[Mapping[str, Callable[[str], AbstractContextManager[SyncCaller]]]] = {
    "psycopg sync": sync_psycopg,
    "psycopg2": sync_psycopg2,
    "Session on psycopg": sync_sqlalchemy("psycopg", session=True),
    "Session on psycopg2": sync_sqlalchemy("psycopg2", session=True),
    "Connection on psycopg": sync_sqlalchemy("psycopg", session=False),
    "Django": sync_django,
}

DOORS: Final[Mapping[str, Opening]] = {
    "asyncpg": _asyncpg,
    "psycopg async": _psycopg,
    "AsyncSession on asyncpg": _async_sqlalchemy("asyncpg", session=True),
    "AsyncConnection on psycopg": _async_sqlalchemy("psycopg", session=False),
    **{name: _sync(opening) for name, opening in SYNC_CALLERS.items()},
    "SQL": _sql,
}


def sync_caller(kind: str, dsn: str) -> AbstractContextManager[SyncCaller]:
    """This one of SYNC_CALLERS; the test is left out where it is Django and the server is too old for it."""
    if kind == "Django":
        need_django(dsn)
    return SYNC_CALLERS[kind](dsn)


def doors_to(dsn: str) -> Mapping[str, Opening]:
    """Those of DOORS that lead to this server."""
    return {name: door for name, door in DOORS.items() if name != "Django" or django_takes(dsn)}
