"""ctx.complete in a transaction that was not committed: the attempt has failed, and says so; what was committed is found."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from asyncjobs import AsyncJobs, Backoff, Cancel, Dead, Hook, JobContext, NotCommitted, Snooze
from asyncjobs.model.outcome import Outcome
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import AttemptEnded, CompletionUndone, OutcomeWritten
from asyncjobs.testing import Proxy, Recorder
from tests.support.completions import found, in_asyncpg, left_open
from tests.support.eventually import eventually

Complete: TypeAlias = Callable[[Any], Awaitable[None]]

pytestmark = pytest.mark.usefixtures("effects")


@pytest.fixture
def jobs(database: Database) -> AsyncJobs:
    return AsyncJobs(database.dsn, schema=database.schema)


async def forgotten_in_asyncpg(dsn: str, complete: Complete) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.transaction().start()
    await connection.execute("INSERT INTO effects VALUES (1)")
    await complete(connection)
    await connection.close()


async def given_back_to_its_pool(dsn: str, complete: Complete) -> None:
    async with asyncpg.create_pool(dsn, min_size=1) as pool, pool.acquire() as connection:
        await connection.execute("BEGIN; INSERT INTO effects VALUES (1)")
        await complete(connection)


async def forgotten_in_a_session(dsn: str, complete: Complete) -> None:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session:
        await session.execute(text("INSERT INTO effects VALUES (1)"))
        await complete(session)
    await engine.dispose()


async def forgotten_in_a_connection_of_sqlalchemys(dsn: str, complete: Complete) -> None:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    async with engine.connect() as connection:
        await connection.execute(text("INSERT INTO effects VALUES (1)"))
        await complete(connection)
    await engine.dispose()


async def forgotten_in_psycopg(dsn: str, complete: Complete) -> None:
    connection = await psycopg.AsyncConnection.connect(dsn)
    await connection.execute("INSERT INTO effects VALUES (1)")
    await complete(connection)
    await connection.close()


async def rolled_back_in_psycopg(dsn: str, complete: Complete) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("INSERT INTO effects VALUES (1)")
        await complete(connection)
        await connection.rollback()


async def rolled_back_to_a_savepoint(dsn: str, complete: Complete) -> None:
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        with contextlib.suppress(ValueError):
            async with connection.transaction():
                await connection.execute("INSERT INTO effects VALUES (1)")
                await complete(connection)
                raise ValueError("only this part")
    await connection.close()


async def rolled_back_to_a_savepoint_of_a_session(dsn: str, complete: Complete) -> None:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session, session.begin(), session.begin_nested() as savepoint:
        await session.execute(text("INSERT INTO effects VALUES (1)"))
        await complete(session)
        await savepoint.rollback()
    await engine.dispose()


async def cut_off_before_the_commit(dsn: str, complete: Complete) -> None:
    connection = await asyncpg.connect(dsn)
    with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        async with connection.transaction():
            await connection.execute("INSERT INTO effects VALUES (1)")
            await complete(connection)
            connection.terminate()


@pytest.mark.parametrize(
    "forget",
    [
        forgotten_in_asyncpg,
        given_back_to_its_pool,
        forgotten_in_a_session,
        forgotten_in_a_connection_of_sqlalchemys,
        forgotten_in_psycopg,
        rolled_back_in_psycopg,
        rolled_back_to_a_savepoint,
        rolled_back_to_a_savepoint_of_a_session,
        cut_off_before_the_commit,
    ],
)
async def test_handler_that_returns_although_its_completion_was_not_committed_has_failed(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder, forget: Any
) -> None:
    @jobs.job("pay", backoff=Backoff(0.01))
    async def pay(ctx: JobContext) -> str:
        if ctx.attempt == 2:
            return "without"
        await forget(str(jobs.dsn), ctx.complete)
        return "of no importance"

    async with jobs.runner():
        job = await (await pay.using(dedup_key="once").enqueue()).wait(timeout=15)
    assert (job.status, job.attempts, job.result) == ("completed", 2, "without")
    assert (await found(connection))[1] == 0
    [error] = job.errors
    assert error["type"] == "asyncjobs.errors.NotCommitted"
    assert "the transaction of its ctx.complete() was not committed" in error["message"]
    assert [(event.outcome, type(event.error)) for event in recorder.of(AttemptEnded)] == [
        ("retry", NotCommitted), ("completed", type(None))
    ]  # fmt: skip
    assert [event.status for event in recorder.of(OutcomeWritten)] == ["failed", "completed"]


async def test_last_attempt_that_was_not_committed_is_a_dead_letter_that_says_so(jobs: AsyncJobs) -> None:
    @jobs.job("pay", max_attempts=1)
    async def pay(ctx: JobContext) -> None:
        await forgotten_in_asyncpg(str(jobs.dsn), ctx.complete)

    async with jobs.runner():
        handle = await pay.enqueue()
        assert (await handle.wait(timeout=10)).status == "dead"
        [dead_letter] = (await jobs.admin.dead_letters()).dead_letters
    assert (dead_letter.error_message or "").startswith("asyncjobs.errors.NotCommitted: the handler returned")


async def test_commit_whose_answer_was_lost_is_found_committed(jobs: AsyncJobs, connection: Connection) -> None:
    async with Proxy(str(jobs.dsn)) as proxy:

        @jobs.job("pay", max_attempts=1)
        async def pay(ctx: JobContext) -> None:
            its = await asyncpg.connect(proxy.dsn)
            with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                async with its.transaction():
                    await its.execute("INSERT INTO effects VALUES (1)")
                    await ctx.complete(its, "receipt")
                    proxy.drop_next_response()

        async with jobs.runner():
            job = await (await pay.enqueue()).wait(timeout=10)
    assert (job.status, job.result, (await found(connection))[1]) == ("completed", "receipt", 1)


async def test_second_completion_that_is_committed_makes_up_for_one_that_was_not(jobs: AsyncJobs, connection: Connection) -> None:
    @jobs.job("pay", max_attempts=1)
    async def pay(ctx: JobContext) -> None:
        await forgotten_in_asyncpg(str(jobs.dsn), ctx.complete)
        async with in_asyncpg(str(jobs.dsn), ctx.job.id) as its:
            await ctx.complete(its)

    async with jobs.runner():
        job = await (await pay.enqueue()).wait(timeout=10)
    assert (job.status, (await found(connection))[1]) == ("completed", 1)


async def completed_twice(dsn: str, ctx: JobContext) -> None:
    async with in_asyncpg(dsn, ctx.job.id) as its:
        await ctx.complete(its)
        await ctx.complete(its)


async def told_of_after_it(dsn: str, ctx: JobContext) -> None:
    async with in_asyncpg(dsn, ctx.job.id) as its:
        await ctx.complete(its)
        ctx.progress(1)


async def where_its_claim_is_not_seen(dsn: str, ctx: JobContext) -> None:
    """As in another database, or in a snapshot from before the claim: the connection does not see the claim."""
    async with in_asyncpg(dsn, ctx.job.id) as its:
        await its.execute("UPDATE asyncjobs.jobs SET claim_token = 1")
        await ctx.complete(its)


@pytest.mark.parametrize("complete", [completed_twice, told_of_after_it, where_its_claim_is_not_seen])
async def test_claim_that_was_not_lost_is_not_given_back_for_a_claim_lost(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder, complete: Any
) -> None:
    """It would begin anew at once, as often as it likes: no attempt is charged for what is given back."""

    @jobs.job("pay", max_attempts=2, backoff=Backoff(0.01))
    async def pay(ctx: JobContext) -> None:
        await complete(str(jobs.dsn), ctx)

    async with jobs.runner():
        job = await (await pay.using(dedup_key="once").enqueue()).wait(timeout=5)
    assert (job.status, job.attempts, (await found(connection))[1]) == ("dead", 2, 0)
    assert [error["type"] for error in job.errors] == ["asyncjobs.errors.NotCommitted"] * 2
    assert "asyncjobs.errors.ClaimLost: job 1 is" in job.errors[0]["traceback"]
    assert [event.outcome for event in recorder.of(AttemptEnded)] == ["retry", "dead"]


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_progress_that_is_written_beside_a_snapshot_is_in_the_way_of_its_completion(
    jobs: AsyncJobs, connection: Connection, isolation: Any
) -> None:
    async def is_written() -> bool:
        return bool(await connection.fetchval("SELECT progress IS NOT NULL FROM asyncjobs.jobs"))

    @jobs.job("pay", backoff=Backoff(0.01))
    async def pay(ctx: JobContext) -> None:
        its = await asyncpg.connect(str(jobs.dsn))
        try:
            async with its.transaction(isolation=isolation):
                await its.execute("INSERT INTO effects VALUES (1)")
                if ctx.attempt == 1:
                    ctx.progress(0.5)
                    await eventually(is_written, description="it is written")
                await ctx.complete(its)
        finally:
            await its.close()

    async with jobs.runner():
        job = await (await pay.enqueue()).wait(timeout=10)
    assert (job.status, job.attempts, (await found(connection))[1]) == ("completed", 2, 1)
    assert job.errors[0]["type"] == "asyncpg.exceptions.SerializationError"


@pytest.mark.parametrize(("verdict", "status"), [(Snooze(600), "scheduled"), (Cancel("no"), "cancelled"), (Dead("no"), "dead")])
async def test_verdict_counts_when_the_completion_was_rolled_back(
    jobs: AsyncJobs, recorder: Recorder, verdict: Any, status: str
) -> None:
    @jobs.job("pay")
    async def pay(ctx: JobContext) -> Any:
        await forgotten_in_asyncpg(str(jobs.dsn), ctx.complete)
        return verdict

    async with jobs.runner():
        await pay.enqueue()
        assert (await recorder.wait_for(OutcomeWritten)).status == status


async def test_transaction_that_is_rolled_back_after_the_attempt_ended_is_told_and_retried(
    jobs: AsyncJobs, recorder: Recorder, held: list[Any]
) -> None:
    @jobs.job("open", backoff=Backoff(0.01))
    async def leave_open(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            await left_open(jobs, ctx, held)

    async with jobs.runner():
        handle = await leave_open.enqueue()
        assert (await recorder.wait_for(AttemptEnded)).outcome == "completed"  # as far as was known
        await held[0].execute("ROLLBACK")
        told = await recorder.wait_for(CompletionUndone)
        assert (told.job_id, told.status) == (handle.id, "failed")
        job = await handle.wait(timeout=5)
    assert (job.status, job.attempts, job.errors[0]["type"]) == ("completed", 2, "asyncjobs.errors.NotCommitted")


class Transacts(Hook):
    """Each attempt in a transaction, which is committed when it completed."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.outcomes: list[str] = []

    async def before_attempt(self, _ctx: JobContext, /) -> None:
        self.connection = await asyncpg.connect(self.dsn)
        await self.connection.execute("BEGIN; INSERT INTO effects VALUES (1)")

    async def after_attempt(self, _ctx: JobContext, /, outcome: Outcome) -> None:
        self.outcomes.append(outcome.kind)
        await self.connection.execute("COMMIT" if outcome.kind == "completed" else "ROLLBACK")
        await self.connection.close()


async def test_hook_may_commit_the_transaction_that_its_handler_completes(database: Database, connection: Connection) -> None:
    hook = Transacts(database.dsn)
    jobs = AsyncJobs(database.dsn, schema=database.schema, hooks=[hook])

    @jobs.job("pay", max_attempts=1)
    async def pay(ctx: JobContext) -> None:
        await ctx.complete(hook.connection, "receipt")

    async with jobs.runner():
        job = await (await pay.enqueue()).wait(timeout=10)
    assert (job.status, job.result, hook.outcomes, (await found(connection))[1]) == ("completed", "receipt", ["completed"], 1)


async def test_plain_function_cannot_complete_its_job_and_is_told(jobs: AsyncJobs) -> None:
    @jobs.job("pay", max_attempts=1)
    def pay(ctx: JobContext) -> None:
        never_awaited = ctx.complete(cast("Any", None))
        never_awaited.close()

    async with jobs.runner():
        job = await (await pay.enqueue()).wait(timeout=10)
    assert (job.status, job.errors[0]["type"]) == ("dead", "asyncjobs.errors.UsageError")
