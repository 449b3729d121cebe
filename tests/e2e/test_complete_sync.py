"""ctx.complete_sync: in a plain def, a job's effects and its completion commit together, on each synchronous connection."""

from typing import Any

import asyncpg
import psycopg
import pytest

from asyncjobs import AsyncJobs, JobContext
from asyncjobs.testing import perform
from tests.support.doors import SYNC_CALLERS, sync_caller


@pytest.mark.parametrize("kind", SYNC_CALLERS)
@pytest.mark.parametrize("commits", [True, False])
async def test_both_are_committed_or_neither(dsn: str, kind: str, *, commits: bool) -> None:
    jobs = AsyncJobs(dsn)
    opened = sync_caller(kind, dsn)

    @jobs.job("pay", max_attempts=1, keep_payload=False)
    def pay(ctx: JobContext, cents: int) -> str:
        with opened as caller:
            caller.execute(f"INSERT INTO bookings (cents) VALUES ({cents})")
            ctx.complete_sync(caller.connection, "receipt")
            (caller.commit if commits else caller.rollback)()
        return "of no importance"

    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE bookings (cents integer)")
    async with jobs.runner():
        job = await (await pay.enqueue(7)).wait(timeout=10)
    effects = await connection.fetchval("SELECT count(*) FROM bookings")
    await connection.close()
    if commits:
        assert (job.status, job.result, job.payload, effects) == ("completed", "receipt", {}, 1)
    else:
        assert (job.status, job.payload, effects) == ("dead", {"cents": 7}, 0)
        assert str(job.error_message).startswith("asyncjobs.errors.NotCommitted")


async def test_an_asynchronous_connection_and_the_loops_own_thread_are_refused(dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    theirs = await asyncpg.connect(dsn)

    @jobs.job("plain", max_attempts=1)
    def plain(ctx: JobContext) -> None:
        wrong: Any = theirs
        ctx.complete_sync(wrong)

    @jobs.job("awaited", max_attempts=1)
    async def awaited(ctx: JobContext) -> None:
        with psycopg.connect(dsn) as connection:
            ctx.complete_sync(connection)

    @jobs.job("wrong", max_attempts=1)
    async def wrong(ctx: JobContext) -> None:
        with psycopg.connect(dsn) as connection:
            given: Any = connection
            await ctx.complete(given)

    async with jobs.runner():
        told = [str((await (await one.enqueue()).wait(timeout=10)).error_message) for one in (plain, awaited, wrong)]
    await theirs.close()
    assert "which is asynchronous" in told[0]
    assert "await ctx.complete(...)" in told[1]
    assert "which is synchronous: give it to enqueue_sync (complete_sync," in told[2]


async def test_perform_takes_its_result_too() -> None:
    jobs = AsyncJobs("embedded://")

    @jobs.job("pay")
    def pay(ctx: JobContext) -> str:
        connection: Any = None
        ctx.complete_sync(connection, "receipt")
        return "of no importance"

    assert await perform(pay.new()) == "receipt"
