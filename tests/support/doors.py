"""Doors: every kind of connection that an enqueue can join, each with a transaction that is open, and how to end it.

What is synchronous does all it does in a thread of its own, in which no event loop is: Django refuses to work beside one.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, closing, contextmanager
from itertools import count
from typing import Any, Final, NamedTuple

import asyncpg
import django
import django.db
import psycopg
import psycopg2
from django.conf import settings
from django.db import transaction
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from asyncjobs import AsyncJobs, JobHandle

_aliases: Final = count(1)


class Door(NamedTuple):
    """A connection of the user's in a transaction, how one enqueues on it, and how its transaction ends."""

    connection: Any
    #: By the type's name, with a payload by field and the options: as every door can be given them.
    enqueue: Callable[[str, Mapping[str, Any], Mapping[str, Any]], Awaitable[JobHandle[Any]]]
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
    async def enqueue(type: str, payload: Mapping[str, Any], options: Mapping[str, Any]) -> JobHandle[Any]:
        given: Any = {**options, "connection": connection}
        return await jobs.enqueue(type, payload, **given)

    return Door(connection, enqueue, execute, commit, rollback)


@asynccontextmanager
async def _asyncpg(jobs: AsyncJobs, dsn: str) -> AsyncGenerator[Door]:
    connection = await asyncpg.connect(dsn)
    begun = connection.transaction()
    await begun.start()
    async with jobs:
        yield _async_door(jobs, connection, connection.execute, begun.commit, begun.rollback)
    await connection.close()


@asynccontextmanager
async def _psycopg(jobs: AsyncJobs, dsn: str) -> AsyncGenerator[Door]:
    connection = await psycopg.AsyncConnection.connect(dsn)
    async with jobs:
        yield _async_door(jobs, connection, lambda sql: connection.execute(sql.encode()), connection.commit, connection.rollback)
    await connection.close()


def _async_sqlalchemy(driver: str, *, session: bool) -> Opening:
    @asynccontextmanager
    async def opening(jobs: AsyncJobs, dsn: str) -> AsyncGenerator[Door]:
        engine = create_async_engine(make_url(dsn).set(drivername=f"postgresql+{driver}"), poolclass=NullPool)
        made: Any = AsyncSession(engine) if session else await engine.connect()

        async def execute(sql: str) -> object:
            connection = await made.connection() if session else made
            return await connection.exec_driver_sql(sql)

        async with jobs:
            yield _async_door(jobs, made, execute, made.commit, made.rollback)
        await made.close()
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
        engine = create_engine(make_url(dsn).set(drivername=f"postgresql+{driver}"), poolclass=NullPool)
        made: Any = Session(engine) if session else engine.connect()

        def execute(sql: str) -> object:
            return (made.connection() if session else made).exec_driver_sql(sql)

        with closing(made):
            yield SyncCaller(made, execute, made.commit, made.rollback)
        engine.dispose()

    return opening


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
    atomic.__enter__()

    def rollback() -> None:
        transaction.set_rollback(True, using=alias)
        atomic.__exit__(None, None, None)

    with closing(connection):
        yield SyncCaller(connection, connection.cursor().execute, lambda: atomic.__exit__(None, None, None), rollback)


def _sync(opening: Callable[[str], AbstractContextManager[SyncCaller]]) -> Opening:
    @asynccontextmanager
    async def opened(jobs: AsyncJobs, dsn: str) -> AsyncGenerator[Door]:
        with ThreadPoolExecutor(1) as thread:
            loop = asyncio.get_running_loop()

            async def there(function: Callable[..., Any], *args: Any) -> Any:
                return await loop.run_in_executor(thread, function, *args)

            caller = opening(dsn)
            made = await there(caller.__enter__)

            async def enqueue(type: str, payload: Mapping[str, Any], options: Mapping[str, Any]) -> JobHandle[Any]:
                handle: JobHandle[Any] = await there(
                    lambda: jobs.enqueue_sync(type, payload, **{**options, "connection": made.connection})
                )
                return handle

            yield Door(
                made.connection,
                enqueue,
                lambda sql: there(made.execute, sql),
                lambda: there(made.commit),
                lambda: there(made.rollback),
            )
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
}
