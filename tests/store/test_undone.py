"""Jobs whose caller's transaction ended without a commit are told of: one test for each rule of `runtime/undone.py`."""

import contextlib
import gc
import logging
import weakref
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from asyncjobs import AsyncJobs
from asyncjobs.telemetry.events import EnqueuesUndone
from asyncjobs.testing import Recorder
from tests.support.doors import jobs_in


@pytest.fixture
async def jobs(dsn: str, schema: str) -> AsyncGenerator[AsyncJobs]:
    made = AsyncJobs(dsn, schema=schema)

    @made.job("email")
    async def email(to: str) -> None: ...

    async with made:
        yield made


@pytest.fixture
def told(jobs: AsyncJobs) -> list[EnqueuesUndone]:
    recorder, found = Recorder(), list[EnqueuesUndone]()
    recorder.watch(jobs.events)
    jobs.events.subscribe(found.append, EnqueuesUndone)
    return found


@pytest.fixture(params=["asyncpg", "psycopg"])
async def engine(request: pytest.FixtureRequest, dsn: str) -> AsyncGenerator[AsyncEngine]:
    made = create_async_engine(make_url(dsn).set(drivername=f"postgresql+{request.param}"))
    yield made
    await made.dispose()


async def enqueue(jobs: AsyncJobs, connection: Any, **options: Any) -> int:
    return (await jobs.enqueue("email", {"to": "a"}, connection=connection, **options)).id


async def test_a_session_that_is_left_after_a_helper_committed_is_told_of(
    jobs: AsyncJobs, told: list[EnqueuesUndone], engine: AsyncEngine, dsn: str
) -> None:
    async with AsyncSession(engine) as session:
        await session.execute(text("SELECT 1"))
        await session.commit()  # a CRUD helper's
        job_id = await enqueue(jobs, session)
        other = await enqueue(jobs, session)
        assert told == []
    assert told == [EnqueuesUndone(job_ids=[job_id, other], how="closed")]
    assert jobs_in(dsn) == 0


async def test_a_rollback_of_a_session_is_told_of_as_one(
    jobs: AsyncJobs, told: list[EnqueuesUndone], engine: AsyncEngine
) -> None:
    async with AsyncSession(engine) as session:
        job_id = await enqueue(jobs, session)
        await session.rollback()
        assert told == [EnqueuesUndone(job_ids=[job_id], how="rolled back")]
    session, other = AsyncSession(engine), 0
    with contextlib.suppress(ZeroDivisionError):
        async with session, session.begin():
            other = await enqueue(jobs, session)
            raise ZeroDivisionError
    assert told[1:] == [EnqueuesUndone(job_ids=[other], how="rolled back")]


async def test_after_a_commit_nothing_is_told(jobs: AsyncJobs, told: list[EnqueuesUndone], engine: AsyncEngine, dsn: str) -> None:
    async with AsyncSession(engine) as session:
        async with session.begin():
            await enqueue(jobs, session)
        await session.execute(text("SELECT 1"))  # begins another, which has no jobs
    async with engine.begin() as connection:
        await enqueue(jobs, connection)
    async with engine.connect() as connection:
        await enqueue(jobs, connection)
        await connection.commit()
        await connection.execute(text("SELECT 1"))
    assert told == []
    assert jobs_in(dsn) == 3


async def test_what_a_savepoint_undoes_is_told_of_once_and_what_it_keeps_is_not(
    jobs: AsyncJobs, told: list[EnqueuesUndone], engine: AsyncEngine, dsn: str
) -> None:
    async with AsyncSession(engine) as session, session.begin():
        savepoint = await session.begin_nested()  # begun before anything is watched
        first = await enqueue(jobs, session)
        await savepoint.rollback()
        await enqueue(jobs, session)
        async with session.begin_nested():
            await enqueue(jobs, session)
        savepoint = await session.begin_nested()
        last = await enqueue(jobs, session)
        await savepoint.rollback()
    assert told == [EnqueuesUndone(job_ids=[one], how="rolled back") for one in (first, last)]
    assert jobs_in(dsn) == 2


async def test_a_connection_that_is_left_or_rolled_back_is_told_of(
    jobs: AsyncJobs, told: list[EnqueuesUndone], engine: AsyncEngine
) -> None:
    async with engine.connect() as connection:
        left = await enqueue(jobs, connection)
    async with engine.connect() as connection:
        back = await enqueue(jobs, connection)
        await connection.rollback()
    assert told == [EnqueuesUndone(job_ids=[one], how="ended") for one in (left, back)]


async def test_a_connection_that_commits_each_statement_has_nothing_to_lose(
    jobs: AsyncJobs, told: list[EnqueuesUndone], engine: AsyncEngine, dsn: str
) -> None:
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await enqueue(jobs, connection)
    assert jobs_in(dsn) == 1
    assert told == [] or told[0].how == "ended"


async def test_a_duplicate_made_no_job_that_could_be_lost(
    jobs: AsyncJobs, told: list[EnqueuesUndone], engine: AsyncEngine
) -> None:
    await jobs.enqueue("email", {"to": "a"}, dedup_key="one")
    async with AsyncSession(engine) as session:
        await enqueue(jobs, session, dedup_key="one")
    assert told == []


def test_synchronous_sessions_are_told_of_without_an_open_app(dsn: str, schema: str) -> None:
    jobs, told = AsyncJobs(dsn, schema=schema), list[EnqueuesUndone]()
    jobs.job("email")(lambda: None)
    jobs.events.subscribe(told.append, EnqueuesUndone)
    engine = create_engine(make_url(dsn).set(drivername="postgresql+psycopg"))
    with Session(engine) as session:
        ids = [jobs.enqueue_sync("email", {}, connection=session).id]
    scoped = scoped_session(sessionmaker(engine))
    ids.append(jobs.enqueue_sync("email", {}, connection=scoped).id)
    scoped.remove()
    with engine.connect() as connection:
        ids.append(jobs.enqueue_sync("email", {}, connection=connection).id)
    engine.dispose()
    assert told == [EnqueuesUndone(job_ids=[one], how=how) for one, how in zip(ids, ("closed", "closed", "ended"), strict=True)]


async def test_other_drivers_tell_nothing_and_are_not_harmed(jobs: AsyncJobs, told: list[EnqueuesUndone], dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    transaction = connection.transaction()
    await transaction.start()
    await enqueue(jobs, connection)
    await transaction.rollback()
    await connection.close()
    assert told == []


async def test_session_is_listened_to_once_however_many_transactions_it_has(
    jobs: AsyncJobs, told: list[EnqueuesUndone], engine: AsyncEngine
) -> None:
    async with AsyncSession(engine) as session:
        heard = list[tuple[int, int]]()
        for _ in range(3):
            await enqueue(jobs, session)
            await session.commit()
            dispatch: Any = session.sync_session.dispatch
            heard.append((len([*dispatch.after_rollback]), len([*dispatch.after_transaction_end])))
        assert heard == [(1, 1)] * 3
        left = await enqueue(jobs, session)
    assert told == [EnqueuesUndone(job_ids=[left], how="closed")]


async def test_no_session_is_kept_alive(jobs: AsyncJobs, told: list[EnqueuesUndone], engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as session:
        await enqueue(jobs, session)
        alive: list[Any] = [
            weakref.ref(session.sync_session),
            weakref.ref((await session.connection()).sync_connection or session),
        ]
    del session
    gc.collect()
    assert [one() for one in alive] == [None, None]
    assert len(told) == 1


async def test_what_was_forgotten_is_a_warning_in_the_log_and_what_was_rolled_back_is_not(
    jobs: AsyncJobs, engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "asyncjobs")
    async with AsyncSession(engine) as session:
        await enqueue(jobs, session)
        await session.rollback()
        await enqueue(jobs, session)
    lines = [(one.levelname, one.getMessage()) for one in caplog.records if "enqueues.undone" in one.getMessage()]
    assert [level for level, _ in lines] == ["INFO", "WARNING"]
    assert "how='closed'" in lines[1][1]
