"""enqueue_sync on a synchronous connection: no loop, no open app; what is refused, and in which words."""

import asyncio
import contextlib
import importlib
import io
from collections.abc import Callable, Generator
from typing import Any

import asyncpg
import django.db
import psycopg
import psycopg2
import psycopg2.extras
import pytest
from django.core.exceptions import SynchronousOnlyOperation
from psycopg.rows import class_row, dict_row
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import scoped_session, sessionmaker

from asyncjobs import (
    AmbiguousApp,
    AsyncJobs,
    DuplicateJob,
    InvalidOption,
    JobContext,
    JobRouter,
    NotIncluded,
    UnsupportedConnection,
)
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import JobEnqueued
from asyncjobs.testing import Recorder, captured
from tests.support.doors import (
    SYNC_CALLERS,
    SyncCaller,
    django_alias,
    jobs_in,
    need_django,
    sync_caller,
    sync_psycopg,
    sync_psycopg2,
)

transaction: Any = importlib.import_module("django.db.transaction")  # what a type checker guesses of it is wrong
router = JobRouter()


@router.job("email")
async def email(to: str) -> None: ...


@pytest.fixture
def jobs(dsn: str, schema: str) -> Generator[AsyncJobs]:
    """An app that nobody opens."""
    made = AsyncJobs(dsn, schema=schema, routers=[router])
    yield made
    router.declarations.parents.clear()


@pytest.fixture(params=SYNC_CALLERS)
def caller(request: pytest.FixtureRequest, dsn: str) -> Generator[SyncCaller]:
    """A connection of each kind, in a transaction."""
    with sync_caller(request.param, dsn) as made:
        yield made


# -- without a loop, without an open app


@pytest.mark.usefixtures("jobs")
def test_the_type_finds_the_only_app_that_includes_it_open_or_not(caller: SyncCaller, dsn: str) -> None:
    handle = email.using(connection=caller.connection).enqueue_sync("a")
    assert handle.created
    assert jobs_in(dsn) == 0
    caller.commit()
    assert jobs_in(dsn) == 1


def test_several_are_written_at_once_or_none(jobs: AsyncJobs, caller: SyncCaller, dsn: str) -> None:
    many = [email.new(str(n)) for n in range(2_500)]
    handles = jobs.enqueue_many_sync(many, connection=caller.connection)
    assert len({handle.id for handle in handles}) == 2_500
    once = email.using(dedup_key="d", on_duplicate="raise")
    with pytest.raises(DuplicateJob):
        jobs.enqueue_many_sync([email.new("x"), once.new("a"), once.new("b")], connection=caller.connection)
    assert jobs.enqueue_many_sync([], connection=caller.connection) == []
    caller.commit()
    assert jobs_in(dsn) == 2_500


def test_two_apps_with_the_type_are_told_apart_by_the_call(jobs: AsyncJobs, dsn: str) -> None:
    archive = AsyncJobs(dsn, schema="archive", routers=[router])
    with sync_psycopg(dsn) as caller:
        with pytest.raises(AmbiguousApp) as caught:
            email.using(connection=caller.connection).enqueue_sync("a")
        assert set(str(caught.value).partition("(")[2].partition(")")[0].split(", ")) == {jobs.settings.schema, "archive"}
        assert str(caught.value).startswith('job "email" is in two AsyncJobs (')
        assert str(caught.value).endswith("): write jobs.enqueue_sync(email.new(...), connection=...).")
        jobs.enqueue_sync(email.new("a"), connection=caller.connection)
        jobs.enqueue_sync("email", {"to": "a"}, connection=caller.connection)
        with pytest.raises(UnsupportedConnection, match="without the app's schema"):
            archive.enqueue_sync(email.new("a"), connection=caller.connection)
        caller.rollback()
        with jobs.sync():  # the open one is meant
            email.using(connection=caller.connection).enqueue_sync("a")
        caller.commit()
    assert jobs_in(dsn) == 1


def test_a_type_that_no_app_includes_is_refused(dsn: str) -> None:
    with sync_psycopg(dsn) as caller, pytest.raises(NotIncluded):
        email.using(connection=caller.connection).enqueue_sync("a")


def test_two_connections_are_refused(jobs: AsyncJobs, dsn: str) -> None:
    with sync_psycopg(dsn) as one, sync_psycopg(dsn) as two, pytest.raises(InvalidOption, match="two connections"):
        jobs.enqueue_sync(email.using(connection=one.connection).new("a"), connection=two.connection)


def test_its_event_is_told(recorder: Recorder, dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema, routers=[router])
    with sync_psycopg(dsn) as caller:
        handle = jobs.enqueue_sync(email.new("a"), connection=caller.connection)
    assert [event.job_id for event in recorder.of(JobEnqueued)] == [handle.id]
    router.declarations.parents.clear()


def test_captured_keeps_it_without_a_loop(jobs: AsyncJobs, dsn: str) -> None:
    with sync_psycopg(dsn) as caller, captured(jobs) as kept:
        email.using(connection=caller.connection).enqueue_sync("a")
        caller.commit()
    assert [job.payload for job in kept.jobs] == [{"to": "a"}]
    assert jobs_in(dsn) == 0


async def test_captured_refuses_what_a_database_would(jobs: AsyncJobs, dsn: str) -> None:
    theirs = await psycopg.AsyncConnection.connect(dsn)
    with sync_psycopg(dsn) as caller, captured(jobs) as kept:
        with pytest.raises(UnsupportedConnection, match="which is synchronous"):
            await email.using(connection=caller.connection).enqueue("a")
        with pytest.raises(UnsupportedConnection, match="which is asynchronous"):
            email.using(connection=theirs).enqueue_sync("a")
    await theirs.close()
    assert kept.jobs == []


@pytest.mark.parametrize(
    ("opening", "options"),
    [
        (sync_psycopg, {"row_factory": dict_row}),
        (sync_psycopg, {"row_factory": class_row(type("Strict", (), {}))}),
        (sync_psycopg, {"cursor_factory": psycopg.RawCursor}),
        (sync_psycopg, {"cursor_factory": psycopg.ClientCursor}),
        (sync_psycopg2, {"cursor_factory": psycopg2.extras.RealDictCursor}),
        (sync_psycopg2, {"connection_factory": psycopg2.extras.LoggingConnection}),
    ],
    ids=["dict", "class", "raw", "client", "psycopg2 dict", "psycopg2 subclass"],
)
def test_what_the_connection_makes_of_rows_does_not_matter(jobs: AsyncJobs, dsn: str, opening: Any, options: Any) -> None:
    with opening(dsn, **options) as caller:
        if "connection_factory" in options:
            caller.connection.initialize(io.StringIO())
        assert jobs.enqueue_sync(email.new("100 % of 'it' \\ $1"), connection=caller.connection).created
        caller.commit()
    assert jobs_in(dsn) == 1


def test_a_scoped_session_and_its_like_are_sessions(jobs: AsyncJobs, dsn: str) -> None:
    engine = create_engine(make_url(dsn).set(drivername="postgresql+psycopg"))
    registry = scoped_session(sessionmaker(engine))
    jobs.enqueue_sync(email.new("a"), connection=registry)
    registry.commit()
    registry.remove()
    engine.dispose()
    assert jobs_in(dsn) == 1


# -- in an event loop's own thread


async def test_in_the_loop_s_own_thread_it_blocks_as_the_driver_does(jobs: AsyncJobs, dsn: str) -> None:
    async with jobs:
        with sync_psycopg(dsn) as caller:
            email.using(connection=caller.connection).enqueue_sync("a")
            caller.commit()
    assert jobs_in(dsn) == 1


async def test_django_refuses_a_loop_s_own_thread_in_its_words(jobs: AsyncJobs, dsn: str) -> None:
    connection = django.db.connections[django_alias(dsn)]
    with pytest.raises(SynchronousOnlyOperation):
        jobs.enqueue_sync(email.new("a"), connection=connection)


async def test_the_inside_of_an_asynchronous_session_is_for_run_sync(jobs: AsyncJobs, dsn: str) -> None:
    engine = create_async_engine(make_url(dsn).set(drivername="postgresql+asyncpg"))
    async with AsyncSession(engine) as session:
        await session.run_sync(lambda inside: jobs.enqueue_sync(email.new("a"), connection=inside))
        await session.commit()
        with pytest.raises(UnsupportedConnection, match="is the inside of an asynchronous one: `await` enqueue with that"):
            jobs.enqueue_sync(email.new("a"), connection=session.sync_session)
    await engine.dispose()
    assert jobs_in(dsn) == 1


async def test_a_plain_def_handler_hands_its_ids_on(dsn: str, schema: str, connection: Connection) -> None:
    jobs = AsyncJobs(dsn, schema=schema)

    @jobs.job("child")
    async def child() -> None: ...

    @jobs.job("parent")
    def parent(ctx: JobContext) -> int:
        with sync_psycopg(dsn) as caller:
            handle = child.using(connection=caller.connection).enqueue_sync()
            caller.commit()
        return handle.id

    async with jobs.runner():
        handle = await parent.using(correlation_id="trace").enqueue()
        made = await jobs.handle(await handle.result(timeout=10)).wait(timeout=10)
    assert (made.parent_job_id, made.correlation_id) == (handle.id, "trace")


# -- bad input


async def test_a_synchronous_connection_is_not_awaited(jobs: AsyncJobs, caller: SyncCaller) -> None:
    async with jobs:
        for call in (
            lambda: email.using(connection=caller.connection).enqueue("a"),
            lambda: jobs.enqueue(email.new("a"), connection=caller.connection),
            lambda: jobs.enqueue_many([email.new("a")], connection=caller.connection),
        ):
            with pytest.raises(UnsupportedConnection, match=r"^got \S+, which is synchronous: give it to enqueue_sync \("):
                await call()


async def test_an_asynchronous_connection_is_not_called(jobs: AsyncJobs, dsn: str) -> None:
    told = "which is asynchronous: `await` enqueue with it, or give enqueue_sync a synchronous one"
    connection = await asyncpg.connect(dsn)
    theirs = await psycopg.AsyncConnection.connect(dsn)
    engine = create_async_engine(make_url(dsn).set(drivername="postgresql+asyncpg"))
    async with AsyncSession(engine) as session, engine.connect() as sa, jobs:
        for one in (connection, theirs, session, sa):
            on_it = email.using(connection=one)
            with pytest.raises(UnsupportedConnection, match=told):
                on_it.enqueue_sync("a")
            with pytest.raises(UnsupportedConnection, match=told):
                await asyncio.to_thread(on_it.enqueue_sync, "a")
    await connection.close()
    await theirs.close()
    await engine.dispose()


async def test_completing_a_job_takes_no_synchronous_connection(dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)

    @jobs.job("pay", max_attempts=1)
    async def pay(ctx: JobContext) -> None:
        with sync_psycopg(dsn) as caller:
            await ctx.complete(caller.connection)

    async with jobs.runner():
        job = await (await pay.enqueue()).wait(timeout=10)
    assert job.errors[0]["type"] == "asyncjobs.errors.UnsupportedConnection"


def test_a_failed_transaction_takes_no_job_until_it_is_rolled_back(jobs: AsyncJobs, caller: SyncCaller) -> None:
    with pytest.raises(Exception, match="division by zero"):
        caller.execute("SELECT 1/0")
    with pytest.raises(UnsupportedConnection, match=r"^this \S+ is in a failed transaction: "):
        jobs.enqueue_sync(email.new("a"), connection=caller.connection)
    caller.rollback()
    if "django" not in type(caller.connection).__module__:  # whose atomic block is over
        assert jobs.enqueue_sync(email.new("a"), connection=caller.connection).created


@pytest.mark.parametrize("kind", SYNC_CALLERS)
def test_a_connection_to_another_database_is_refused(kind: str, jobs: AsyncJobs, empty_dsn: str) -> None:
    with sync_caller(kind, empty_dsn) as caller:
        with pytest.raises(UnsupportedConnection, match=r'^this \S+ leads to .* \(.*schema "asyncjobs" does not exist'):
            jobs.enqueue_sync(email.new("a"), connection=caller.connection)
        caller.rollback()


@pytest.mark.parametrize("name", [name for name in SYNC_CALLERS if name != "Django" and "Session" not in name])
def test_a_closed_connection_is_refused_where_it_is_given(name: str, jobs: AsyncJobs, dsn: str) -> None:
    with SYNC_CALLERS[name](dsn) as caller:
        caller.connection.close()
        with pytest.raises(UnsupportedConnection, match=r"^this \S+ is closed: give an open one\.$"):
            email.using(connection=caller.connection)


@pytest.mark.parametrize("opening", [sync_psycopg, sync_psycopg2, "sqlalchemy", "django"])
def test_outside_of_a_transaction_a_job_is_committed_at_once(opening: Any, jobs: AsyncJobs, dsn: str) -> None:
    keyed = email.using(serialization_key="k")
    if opening == "django":
        need_django(dsn)
        connection: Any = django.db.connections[django_alias(dsn)]
        keyed.using(connection=connection).enqueue_sync("a")
        connection.close()
    elif opening == "sqlalchemy":
        engine = create_engine(make_url(dsn).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            keyed.using(connection=connection).enqueue_sync("a")
        engine.dispose()
    else:
        with opening(dsn) as caller:
            caller.connection.autocommit = True
            keyed.using(connection=caller.connection).enqueue_sync("a")
    assert jobs_in(dsn) == 1


def test_djangos_connection_is_refused_where_it_cannot_take_a_job(jobs: AsyncJobs, dsn: str) -> None:
    need_django(dsn)
    alias = django_alias(dsn)
    connection = django.db.connections[alias]
    on_it = email.using(connection=connection)
    with transaction.atomic(using=alias):
        with contextlib.suppress(LookupError), transaction.atomic(using=alias, savepoint=False):
            raise LookupError
        with pytest.raises(UnsupportedConnection, match="is in a failed transaction: leave its atomic block first"):
            on_it.enqueue_sync("a")
    with contextlib.suppress(django.db.DatabaseError), transaction.atomic(using=alias):
        connection.close()
        with pytest.raises(UnsupportedConnection, match="was closed in its transaction: leave its atomic block first"):
            on_it.enqueue_sync("a")
    assert on_it.enqueue_sync("a").created, "it opens itself again"
    with transaction.atomic(using=alias):
        on_it.enqueue_sync("b")
        with contextlib.suppress(LookupError), transaction.atomic(using=alias):
            on_it.enqueue_sync("c")
            raise LookupError
    connection.close()
    assert jobs_in(dsn) == 2, "what the savepoint rolled back is gone"


def _sqlite() -> Any:
    known: Any = django.db.connections
    known.settings["lite"] = known.configure_settings({"default": {}, "lite": {"ENGINE": "django.db.backends.sqlite3"}})["lite"]
    return django.db.connections["lite"]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: django.db.connections, 'which holds connections: give connections["default"], or django.db.connection'),
        (transaction.atomic, "which is a block: give django.db.connection in it"),
        (_sqlite, "leads to sqlite: jobs are enqueued in PostgreSQL"),
    ],
    ids=["connections", "atomic", "sqlite"],
)
def test_what_is_no_connection_of_django_s_to_postgresql_is_refused(make: Callable[[], Any], told: str) -> None:
    django_alias("postgresql://u@h/d")
    with pytest.raises(UnsupportedConnection, match=told.replace("[", r"\[").replace("(", r"\(")):
        email.using(connection=make())
