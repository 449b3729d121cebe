"""What may be given as `connection`, and what is said about everything else."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from asyncjobs import AsyncJobs, EnqueueError, InvalidOption, JobRouter, UnsupportedConnection
from asyncjobs.connections import check_connection
from asyncjobs.declare.new_job import one_connection

URL = "postgresql+asyncpg://u:secret@127.0.0.1:1/db"
SYNC_URL = "postgresql+psycopg://u:secret@127.0.0.1:1/db"
ANY_OF = "give a connection of asyncpg or psycopg, a session or connection of SQLAlchemy, or Django's connection."

router = JobRouter()


@router.job("email")
async def email(to: str) -> None: ...


def unmade(cls: Any) -> Any:
    """An instance that was never connected."""
    return cls.__new__(cls)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: create_async_engine(URL),
        "got sqlalchemy.ext.asyncio.AsyncEngine, which is an engine: use `async with engine.begin() as connection`.",
    ),
    (
        lambda: create_engine(SYNC_URL),
        "got sqlalchemy.Engine, which is an engine: use `with engine.begin() as connection`, and enqueue_sync.",
    ),
    (
        lambda: async_sessionmaker(create_async_engine(URL)),
        "got sqlalchemy.ext.asyncio.async_sessionmaker, which makes sessions: call it and give the session.",
    ),
    (
        lambda: async_scoped_session(async_sessionmaker(create_async_engine(URL)), scopefunc=lambda: 1),
        "got sqlalchemy.ext.asyncio.async_scoped_session, which is a registry: call it and give the session.",
    ),
    (sessionmaker, "got sqlalchemy.orm.sessionmaker, which makes sessions: call it and give the session."),
    (lambda: unmade(asyncpg.Pool), "got asyncpg.Pool, which is a pool: acquire a connection from it."),
    (lambda: "postgresql://u:secret@db", f"got str: {ANY_OF}"),
    (lambda: AsyncSession, f"got the class sqlalchemy.ext.asyncio.AsyncSession itself: {ANY_OF}"),
    (object, f"got object: {ANY_OF}"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=lambda value: getattr(value, "__name__", str(value))[:40])
def test_what_cannot_carry_an_enqueue_is_refused_where_it_is_given(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UnsupportedConnection) as caught:
        email.using(connection=make())
    assert str(caught.value) == message
    assert isinstance(caught.value, EnqueueError)
    assert isinstance(caught.value, TypeError)


async def test_connections_of_all_drivers_are_told_apart(dsn: str) -> None:
    pg = await asyncpg.connect(dsn)
    async with asyncpg.create_pool(dsn, min_size=0, max_size=1) as pool, pool.acquire() as pooled:
        assert (check_connection(pg), check_connection(pooled)) == ("asyncpg", "asyncpg")
    with pytest.raises(UnsupportedConnection, match="was given back to its pool: enqueue before that"):
        check_connection(pooled)
    await pg.close()
    with pytest.raises(UnsupportedConnection, match=r"^this asyncpg.Connection is closed: give an open one\.$"):
        check_connection(pg)


async def test_a_psycopg_connection_must_be_open_and_not_aborted(dsn: str) -> None:
    connection = await psycopg.AsyncConnection.connect(dsn)
    assert check_connection(connection) == "psycopg"
    with pytest.raises(psycopg.Error):
        await connection.execute("SELECT 1/0")
    with pytest.raises(
        UnsupportedConnection, match=r"^this psycopg.AsyncConnection is in a failed transaction: roll it back first"
    ):
        check_connection(connection)
    await connection.rollback()
    assert check_connection(connection) == "psycopg"
    await connection.close()
    with pytest.raises(UnsupportedConnection, match="is closed"):
        check_connection(connection)


async def test_an_sqlalchemy_connection_must_be_open(dsn: str) -> None:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.connect() as connection, AsyncSession(engine) as session:
        assert (check_connection(connection), check_connection(session)) == ("sqlalchemy_connection", "sqlalchemy_session")
    with pytest.raises(UnsupportedConnection, match="is closed"):
        check_connection(connection)
    await engine.dispose()


async def test_a_transaction_that_failed_takes_no_job_until_it_is_rolled_back(dsn: str, schema: str) -> None:
    declared = JobRouter()
    sent: Any = declared.job("sent")(_nothing)
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    pg = await asyncpg.connect(dsn)
    async with AsyncJobs(dsn, schema=schema, routers=[declared]), engine.connect() as connection, AsyncSession(engine) as session:
        transaction = pg.transaction()
        await transaction.start()
        failing: list[Any] = [
            pg.execute("SELECT 1/0"),
            connection.execute(text("SELECT 1/0")),
            session.execute(text("SELECT 1/0")),
        ]
        assert len(await asyncio.gather(*failing, return_exceptions=True)) == 3
        for one in (pg, connection, session):
            with pytest.raises(UnsupportedConnection, match="is in a failed transaction: roll it back first"):
                await sent.using(connection=one).enqueue()
        await transaction.rollback()
        await connection.rollback()
        await session.rollback()
        for one in (pg, connection, session):
            assert (await sent.using(connection=one).enqueue()).id
    await pg.close()
    await engine.dispose()


async def test_a_session_that_was_closed_for_good_is_refused(dsn: str, schema: str) -> None:
    declared = JobRouter()
    sent: Any = declared.job("sent")(_nothing)
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    session = AsyncSession(engine, close_resets_only=False)
    await session.close()
    async with AsyncJobs(dsn, schema=schema, routers=[declared]):
        with pytest.raises(UnsupportedConnection, match="AsyncSession cannot be used: This Session has been permanently closed"):
            await sent.using(connection=session).enqueue()
    await engine.dispose()


async def _nothing() -> None: ...


class Mine(AsyncSession):
    """A user's own kind of session is one."""


def test_jobs_that_are_enqueued_together_share_one_connection() -> None:
    first, second = Mine(), Mine()
    plain, on_first, on_second = email.new("a"), email.using(connection=first).new("b"), email.using(connection=second).new("c")
    assert one_connection([plain, plain], None) is None
    assert one_connection([plain, on_first], first) is first
    assert one_connection([on_first, on_first], None) is first
    for jobs, connection in (([on_first, on_second], None), ([on_first], second), ([plain, on_first], None)):
        with pytest.raises(InvalidOption) as caught:
            one_connection(jobs, connection)
        assert caught.value.option == "connection"
