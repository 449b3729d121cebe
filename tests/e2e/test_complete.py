"""ctx.complete: a job's effects and its completion commit together, or not at all."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from asyncjobs import AsyncJobs, JobContext
from asyncjobs.errors import ClaimLost
from asyncjobs.runtime.call_line import CallLine
from asyncjobs.store import jobs as stored
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import AttemptEnded, ClaimWasLost, OutcomeWritten
from asyncjobs.testing import Recorder
from tests.support.completions import found, in_asyncpg, in_psycopg, in_session, left_open
from tests.support.eventually import eventually

pytestmark = pytest.mark.usefixtures("effects")


@pytest.fixture
def jobs(database: Database) -> AsyncJobs:
    return AsyncJobs(database.dsn, schema=database.schema)


TRANSACTIONS = pytest.mark.parametrize("transaction", [in_asyncpg, in_session, in_psycopg])


@TRANSACTIONS
async def test_effects_and_completion_commit_together(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder, transaction: Any
) -> None:
    @jobs.job("pay")
    async def pay(ctx: JobContext) -> str:
        async with transaction(connection_dsn, ctx.job.id) as its:
            await ctx.complete(its, "receipt")
        return "of no importance"

    connection_dsn = str(jobs.dsn)
    async with jobs.runner():
        handle = await pay.using(dedup_key="once").enqueue()
        assert await handle.result(timeout=10) == "receipt"
        await recorder.wait_for(OutcomeWritten)
    row, effects = await found(connection)
    assert (row["status"], row["attempts"], row["runner_id"], effects) == ("completed", 1, None, 1)
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 0
    assert [(event.status, event.in_transaction) for event in recorder.of(OutcomeWritten)] == [("completed", True)]


@TRANSACTIONS
async def test_rollback_takes_both_back_and_the_attempts_outcome_counts(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder, transaction: Any
) -> None:
    @jobs.job("pay", max_attempts=1)
    async def pay(ctx: JobContext) -> None:
        async with transaction(connection_dsn, ctx.job.id) as its:
            await ctx.complete(its)
            raise ValueError("the card was refused")

    connection_dsn = str(jobs.dsn)
    async with jobs.runner():
        job = await (await pay.enqueue()).wait(timeout=10)
    assert (job.status, job.error_message) == ("dead", "ValueError: the card was refused")
    assert [(event.status, event.in_transaction) for event in recorder.of(OutcomeWritten)] == [("dead", False)]
    assert (await found(connection))[1] == 0
    assert recorder.of(ClaimWasLost) == []


async def test_error_after_the_commit_does_not_undo_the_completion(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder
) -> None:
    @jobs.job("pay")
    async def pay(ctx: JobContext) -> None:
        async with in_asyncpg(str(jobs.dsn), ctx.job.id) as its:
            await ctx.complete(its)
        raise ValueError("afterwards")

    async with jobs.runner():
        job = await (await pay.enqueue()).wait(timeout=10)
        await recorder.wait_for(OutcomeWritten)
    assert (job.status, job.errors) == ("completed", [])
    assert [event.outcome for event in recorder.of(AttemptEnded)] == ["retry"]
    assert [event.status for event in recorder.of(OutcomeWritten)] == ["completed"]


async def test_completion_without_a_transaction_takes_effect_at_once(jobs: AsyncJobs, connection: Connection) -> None:
    @jobs.job("pay")
    async def pay(ctx: JobContext) -> None:
        await ctx.complete(connection, {"n": 1})
        assert await connection.fetchval("SELECT status FROM asyncjobs.jobs") == "completed"

    async with jobs.runner():
        assert (await (await pay.enqueue()).wait(timeout=10)).result == {"n": 1}


async def test_transaction_that_stays_open_holds_up_no_other_job(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder, held: list[Any]
) -> None:
    @jobs.job("open")
    async def leave_open(ctx: JobContext) -> Any:
        await left_open(jobs, ctx, held, "late")

    @jobs.job("other")
    async def other() -> int:
        return 1

    async with jobs.runner():
        handle = await leave_open.enqueue()
        await recorder.wait_for(AttemptEnded)
        others = await jobs.enqueue_many([other.new() for _ in range(20)])
        assert [await one.result(timeout=5) for one in others] == [1] * 20
        assert await connection.fetchval("SELECT status FROM asyncjobs.jobs WHERE type = 'open'") == "processing"
        await held[0].execute("COMMIT")
        assert await handle.result(timeout=5) == "late"
        await recorder.wait_for(OutcomeWritten, lambda event: event.job_id == handle.id)


async def test_transaction_that_is_rolled_back_after_the_handler_ended_lets_its_outcome_count(
    jobs: AsyncJobs, recorder: Recorder, held: list[Any]
) -> None:
    @jobs.job("open", max_attempts=1)
    async def leave_open(ctx: JobContext) -> None:
        await left_open(jobs, ctx, held)
        raise ValueError("and leaves")

    async with jobs.runner():
        handle = await leave_open.enqueue()
        await recorder.wait_for(AttemptEnded)
        await held[0].execute("ROLLBACK")
        assert (await handle.wait(timeout=5)).status == "dead"


async def test_next_of_the_key_starts_when_the_handler_has_ended(jobs: AsyncJobs, recorder: Recorder) -> None:
    order: list[str] = []

    @jobs.job("pay", serialize_by="account")
    async def pay(ctx: JobContext, n: int) -> None:
        order.append(f"start {n}")
        async with in_asyncpg(str(jobs.dsn), ctx.job.id) as its:
            await ctx.complete(its)
        await asyncio.sleep(0.05)
        order.append(f"end {n}")

    async with jobs.runner():
        handles = [await pay.enqueue(n) for n in range(3)]
        for handle in handles:
            await handle.wait(timeout=3)  # less than the poll: the queue is told
        await eventually(lambda: len(recorder.of(OutcomeWritten)) == 3, description="all are settled")
    assert order == [f"{what} {n}" for n in range(3) for what in ("start", "end")]


async def test_job_that_is_not_the_attempts_any_more_cannot_be_completed(
    jobs: AsyncJobs, connection: Connection, recorder: Recorder
) -> None:
    losses: list[ClaimLost] = []

    @jobs.job("pay")
    async def pay(ctx: JobContext) -> None:
        await connection.execute("UPDATE asyncjobs.jobs SET status = 'cancelled', completed_at = now(), runner_id = NULL")
        try:
            async with in_asyncpg(str(jobs.dsn), ctx.job.id) as its:
                await ctx.complete(its)
        except ClaimLost as error:
            losses.append(error)
            raise

    async with jobs.runner():
        await pay.enqueue()
        await recorder.wait_for(ClaimWasLost)
    assert len(losses) == 1
    row, effects = await found(connection)
    assert (row["status"], effects) == ("cancelled", 0)


async def test_reconciliation_leaves_a_job_alone_whose_transaction_is_open(
    jobs: AsyncJobs, recorder: Recorder, held: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reconciled = asyncio.Semaphore(0)

    async def give_back(*args: Any, **fields: Any) -> list[tuple[int, str]]:
        strays = await stored.give_back(*args, **fields)
        reconciled.release()
        return strays

    def line(*args: Any, **fields: Any) -> CallLine:
        return CallLine(*args, **fields | {"reconcile_seconds": 0.05})

    monkeypatch.setattr("asyncjobs.runtime.doubt.jobs", SimpleNamespace(**vars(stored) | {"give_back": give_back}))
    monkeypatch.setattr("asyncjobs.runtime.runner_parts.CallLine", line)

    @jobs.job("open")
    async def leave_open(ctx: JobContext) -> Any:
        await left_open(jobs, ctx, held, ctx.attempt)

    async with jobs.runner():
        handle = await leave_open.enqueue()
        await recorder.wait_for(AttemptEnded)
        reconciled = asyncio.Semaphore(0)
        await reconciled.acquire()  # it may have begun before
        await reconciled.acquire()
        await held[0].execute("COMMIT")
        assert await handle.result(timeout=5) == 1
    assert len(held) == 1


async def test_outcome_that_cannot_be_stored_ends_its_job_and_not_the_runner(
    jobs: AsyncJobs, recorder: Recorder, held: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    @jobs.job("open")
    async def leave_open(ctx: JobContext) -> str:
        await left_open(jobs, ctx, held)
        await held[0].execute("ROLLBACK")
        return "stored as it is"

    @jobs.job("other")
    async def other() -> int:
        return 1

    monkeypatch.setattr("asyncjobs.declare.definition.JobDefinition.encode_result", encode_badly)
    async with jobs.runner():
        job = await (await leave_open.enqueue()).wait(timeout=10)
        assert job.status == "dead"
        assert (await (await other.enqueue()).wait(timeout=10)).status == "completed"


def encode_badly(_handler: Any, value: Any) -> str | None:
    """As JSON, unless it is text: that becomes something that only the database refuses."""
    return '"\\u0000"' if isinstance(value, str) else None
