"""Operators' verbs and `get` in the caller's own transaction, whatever its driver: with its commit, gone with its rollback."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from asyncjobs import (
    AsyncJobs,
    Dead,
    DeadLetterNotFound,
    InvalidOption,
    JobNotFound,
    StateError,
    UnsupportedConnection,
    UsageError,
)
from asyncjobs.telemetry.events import ListenerConnected, NotificationHeard, VerbUsed
from asyncjobs.testing import Recorder, run_until_idle
from tests.support.doors import SYNC_CALLERS, sync_caller

KINDS = ("asyncpg", "psycopg", "sqlalchemy asyncpg", "sqlalchemy psycopg")
Ends = Callable[[], Awaitable[object]]


def make(dsn: str) -> AsyncJobs:
    jobs = AsyncJobs(dsn)

    @jobs.job("email", max_attempts=1)
    async def email(to: str) -> str | Dead:
        return Dead("no") if to == "dead" else to

    return jobs


@pytest.fixture
async def jobs(dsn: str) -> AsyncGenerator[AsyncJobs]:
    made = make(dsn)
    async with made:
        yield made


@pytest.fixture(params=KINDS)
async def caller(request: pytest.FixtureRequest, dsn: str) -> AsyncGenerator[tuple[Any, Ends, Ends]]:
    """A connection of the user's in a transaction, its commit, and its rollback."""
    if request.param == "asyncpg":
        plain = await asyncpg.connect(dsn)
        transaction = plain.transaction()
        await transaction.start()
        yield plain, transaction.commit, transaction.rollback
        await plain.close()
    elif request.param == "psycopg":
        async with await psycopg.AsyncConnection.connect(dsn) as their:
            yield their, their.commit, their.rollback
    else:
        engine = create_async_engine(make_url(dsn).set(drivername=f"postgresql+{request.param.split()[1]}"))
        async with AsyncSession(engine) as session:
            yield session, session.commit, session.rollback
        await engine.dispose()


async def enqueue(jobs: AsyncJobs, to: str = "a", **options: Any) -> int:
    return (await jobs.enqueue("email", {"to": to}, **options)).id


async def status(jobs: AsyncJobs, job_id: int) -> str | None:
    job = await jobs.get(job_id)
    return None if job is None else job.status


async def test_each_verb_is_done_with_the_commit(jobs: AsyncJobs, caller: tuple[Any, Ends, Ends]) -> None:
    connection, commit, _ = caller
    dead = await enqueue(jobs, "dead")
    letter_of = await enqueue(jobs, "dead")
    await run_until_idle(jobs)
    found = (await jobs.admin.dead_letters()).dead_letters
    letters = {one.job_id: one.id for one in found}
    cancelled, killed, later, changed = [await enqueue(jobs, delay=3600) for _ in range(4)]
    deleted = await enqueue(jobs, delay=3600)
    await jobs.admin.cancel(deleted)
    admin = jobs.admin
    assert (await admin.cancel(cancelled, "no", connection=connection)).told(1) == "job 1: cancelled (was scheduled)"
    assert (await admin.kill(killed, connection=connection)).outcome == "dead"
    assert (await admin.fail(later, will_retry=True, connection=connection)).outcome == "scheduled"
    assert (await admin.retry(later, connection=connection)).queues == ["default"]
    assert (await admin.retry(dead, connection=connection)).outcome == "retried"
    assert (await admin.change(changed, priority=5, delay=7200, connection=connection)).is_change
    assert (await admin.delete(deleted, by="me", connection=connection)).outcome == "deleted"
    assert (await admin.requeue(letters[letter_of], by="me", connection=connection)).outcome == "requeued"
    assert (await admin.acknowledge(letters[letter_of], by="you", connection=connection)).by == "me"
    assert [await status(jobs, one) for one in (cancelled, killed, later, deleted)] == [
        "scheduled", "scheduled", "scheduled", "cancelled",
    ]  # fmt: skip
    seen = await jobs.get(changed, connection=connection)
    assert seen
    assert seen.priority == 5
    await commit()
    assert [await status(jobs, one) for one in (cancelled, killed, later, deleted, dead)] == [
        "cancelled", "dead", "pending", None, "pending",
    ]  # fmt: skip
    after = await jobs.get(changed)
    assert after == seen
    assert len([one for one in (await admin.find(status="pending")).jobs if one.requeued_from == letter_of]) == 1


async def test_after_a_rollback_nothing_was_done(jobs: AsyncJobs, caller: tuple[Any, Ends, Ends]) -> None:
    connection, _, rollback = caller
    job_id = await enqueue(jobs, delay=3600, serialization_key="k", tags=["a"], timeout=90, correlation_id="c")
    before = await jobs.get(job_id)
    assert await jobs.get(job_id, connection=connection) == before
    made = await enqueue(jobs, connection=connection)
    assert (await jobs.get(made, connection=connection) or before).id == made  # type: ignore[union-attr]
    assert await jobs.get(made) is None
    assert (await jobs.admin.cancel(job_id, connection=connection)).outcome == "cancelled"
    assert (await jobs.admin.cancel(job_id, connection=connection)).outcome == "final"
    await rollback()
    assert await jobs.get(job_id) == before


@pytest.mark.direct("hears a notification", only="poll")
async def test_runners_are_told_with_the_commit(dsn: str, caller: tuple[Any, Ends, Ends]) -> None:
    connection, commit, _ = caller
    jobs, recorder = make(dsn), Recorder()
    recorder.watch(jobs.events)
    async with jobs.runner():
        await recorder.wait_for(ListenerConnected)
        job_id = await enqueue(jobs, delay=3600)
        await jobs.admin.retry(job_id, connection=connection)
        await commit()
        assert await jobs.handle(job_id).result(timeout=5) == "a"
        await recorder.wait_for(NotificationHeard, lambda one: one.kind == "q")


async def test_what_is_not_there_or_cannot_be_is_refused_and_the_transaction_goes_on(
    jobs: AsyncJobs, caller: tuple[Any, Ends, Ends]
) -> None:
    connection, commit, _ = caller
    job_id = await enqueue(jobs, delay=3600)
    admin = jobs.admin
    for verb in (admin.cancel, admin.kill, admin.retry, admin.delete):
        with pytest.raises(JobNotFound):
            await verb(99_999, connection=connection)
        for wrong in (2**63, "x", True, None):
            with pytest.raises(UsageError, match="is no id"):
                await verb(wrong, connection=connection)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption):
        await admin.change(job_id, connection=connection)
    with pytest.raises(DeadLetterNotFound):
        await admin.requeue(99_999, by="me", connection=connection)
    with pytest.raises(DeadLetterNotFound):
        await admin.acknowledge(99_999, by="me", connection=connection)
    for text in ("a\0b", "\ud800"):
        with pytest.raises(UsageError, match="cannot hold"):
            await admin.cancel(job_id, text, connection=connection)
    assert await jobs.get(2**63, connection=connection) is None
    assert await jobs.get(99_999, connection=connection) is None
    assert (await admin.cancel(job_id, connection=connection)).outcome == "cancelled"
    await commit()
    assert await status(jobs, job_id) == "cancelled"


async def test_a_lock_that_is_not_had_in_a_second_is_a_state_error(
    jobs: AsyncJobs, caller: tuple[Any, Ends, Ends], dsn: str
) -> None:
    connection, _, rollback = caller
    job_id = await enqueue(jobs, delay=3600)
    stranger = await asyncpg.connect(dsn)
    async with stranger.transaction():
        await stranger.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", job_id)
        with pytest.raises(StateError, match="Roll this one back"):
            await jobs.admin.cancel(job_id, connection=connection)
    await rollback()
    await stranger.close()
    assert (await jobs.admin.cancel(job_id, connection=connection)).outcome == "cancelled"


async def test_a_delay_counts_from_the_verb_not_from_the_transactions_start(jobs: AsyncJobs, dsn: str) -> None:
    job_id = await enqueue(jobs, delay=3600)
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        await connection.execute("SELECT pg_sleep(0.3)")
        before = await connection.fetchval("SELECT clock_timestamp()")
        await jobs.admin.change(job_id, delay=10, connection=connection)
        after = await connection.fetchval("SELECT clock_timestamp()")
    await connection.close()
    job = await jobs.get(job_id)
    assert job
    assert before <= job.run_at - timedelta(seconds=10) <= after


async def test_verbs_need_no_open_app_and_tell_who_used_them(dsn: str, jobs: AsyncJobs) -> None:
    job_id = await enqueue(jobs, delay=3600)
    closed, used = make(dsn), list[VerbUsed]()
    closed.events.subscribe(used.append, VerbUsed)
    connection = await asyncpg.connect(dsn)
    await closed.admin.change(job_id, priority=1, by="ada", connection=connection)
    await connection.close()
    assert [(one.verb, one.by, one.outcome) for one in used] == [("jobs.change", "ada", "changed: priority=1")]
    assert (job := await jobs.get(job_id))
    assert job.priority == 1


async def test_synchronous_connections_are_refused_by_what_is_awaited_and_the_reverse(jobs: AsyncJobs, dsn: str) -> None:
    job_id = await enqueue(jobs, delay=3600)
    connection = await asyncpg.connect(dsn)
    with psycopg.connect(dsn) as their:
        with pytest.raises(UnsupportedConnection, match="which is synchronous"):
            await jobs.admin.cancel(job_id, connection=their)  # type: ignore[arg-type]
        with pytest.raises(UnsupportedConnection, match="which is asynchronous"):
            jobs.admin.cancel_sync(job_id, connection=connection)  # type: ignore[arg-type]
    for wrong in (object(), "dsn"):
        with pytest.raises(UnsupportedConnection):
            await jobs.admin.cancel(job_id, connection=wrong)  # type: ignore[arg-type]
    await connection.close()


@pytest.mark.parametrize("kind", SYNC_CALLERS)
@pytest.mark.usefixtures("schema")
def test_synchronous_verbs_need_neither_a_loop_nor_an_open_app(dsn: str, kind: str) -> None:
    jobs = make(dsn)
    with sync_caller(kind, dsn) as caller:
        on = caller.connection
        ids = [jobs.enqueue_sync("email", {"to": "a"}, delay=60, connection=on).id for _ in range(5)]
        cancelled, killed, later, changed, deleted = ids
        assert jobs.admin.cancel_sync(cancelled, connection=on).outcome == "cancelled"
        assert jobs.admin.kill_sync(killed, connection=on).outcome == "dead"
        assert jobs.admin.fail_sync(later, will_retry=True, connection=on).outcome == "scheduled"
        assert jobs.admin.retry_sync(later, connection=on).outcome == "retried"
        assert jobs.admin.change_sync(changed, priority=3, connection=on).outcome == "changed"
        jobs.admin.cancel_sync(deleted, connection=on)
        assert jobs.admin.delete_sync(deleted, connection=on).outcome == "deleted"
        with pytest.raises(JobNotFound):
            jobs.admin.cancel_sync(deleted, connection=on)
        with pytest.raises(DeadLetterNotFound):
            jobs.admin.requeue_sync(1_000, by="me", connection=on)
        with pytest.raises(DeadLetterNotFound):
            jobs.admin.acknowledge_sync(1_000, by="me", connection=on)
        caller.commit()
        seen = [jobs.get_sync(one, connection=on) for one in ids]
    assert [one and one.status for one in seen] == ["cancelled", "dead", "pending", "scheduled", None]
    assert seen[3]
    assert seen[3].priority == 3


def test_a_synchronous_session_that_fails_can_go_on_after_its_savepoint(dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)
    jobs.job("email")(lambda: None)
    engine = create_engine(make_url(dsn).set(drivername="postgresql+psycopg"))
    with Session(engine) as session, session.begin():
        job_id = jobs.enqueue_sync("email", {}, delay=60, connection=session).id
        with session.begin_nested() as savepoint:
            jobs.admin.cancel_sync(job_id, connection=session)
            savepoint.rollback()
        assert (job := jobs.get_sync(job_id, connection=session))
        assert job.status == "scheduled"
    engine.dispose()
