"""What an attempt leaves behind, however it ended: whether it counts, and how far it was."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import asyncpg
import pytest

from asyncjobs import AsyncJobs, Cancel, Dead, Job, JobContext, Queue, Retry, Snooze
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted, OutcomeWritten
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually


class Workshop:
    """One slot, and a job that does what its payload says; others of it wait for the slot."""

    def __init__(self, dsn: str) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue("default", concurrency=1, prefetch=1)], poll_interval=300.0)
        self.stopped = asyncio.Event()
        self.dsn = dsn

        @self.app.job("act")
        async def act(ctx: JobContext, what: str) -> Any:
            return await self.do(ctx, what)

        @self.app.job("plain", max_attempts=1)
        def plain(ctx: JobContext) -> str:
            ctx.progress(0.3, "mine")
            while not ctx.cancelled:
                time.sleep(0.005)
            return "late"

        self.act, self.plain = act, plain

    async def do(self, ctx: JobContext, what: str) -> Any:
        ctx.progress(0.6, "theirs")
        ctx.progress(0.9, "mine")
        if what == "complete here":
            connection = await asyncpg.connect(self.dsn)
            try:
                async with connection.transaction():
                    await ctx.complete(connection)
            finally:
                await connection.close()
        if what == "raise":
            raise ValueError(what)
        if what == "wait":
            await self.stopped.wait()
        return {"snooze": Snooze(600), "retry": Retry(600), "cancel": Cancel("no"), "dead": Dead("no")}.get(what)


Do = Callable[["Setup"], Awaitable[None]]


class Setup(NamedTuple):
    """A job that an operator may do something to."""

    shop: Workshop
    job_id: int
    connection: Connection
    recorder: Recorder

    async def started(self) -> None:
        await self.recorder.wait_for(AttemptStarted, lambda event: event.job_id == self.job_id, timeout=10)

    async def reached(self, status: str) -> None:
        async def is_so() -> bool:
            query = "SELECT status FROM asyncjobs.jobs WHERE id = $1"
            return bool(await self.connection.fetchval(query, self.job_id) == status)

        await eventually(is_so, description=f"it is {status}", timeout=10)


class End(NamedTuple):
    """How a job ends, and what that makes of its attempt."""

    name: str
    what: str
    status: str
    attempts: int
    outcome: str | None  # as the event tells it; None: no attempt was begun
    do: Do | None = None
    last: bool = False  # it was the last attempt


async def cancel(setup: Setup) -> None:
    await setup.started()
    await setup.shop.app.admin.cancel(setup.job_id, "by me")


async def cancel_all(setup: Setup) -> None:
    await setup.started()
    await setup.shop.app.admin.cancel_all("by me", type="act", dry_run=False)


async def kill(setup: Setup) -> None:
    await setup.started()
    await setup.shop.app.admin.kill(setup.job_id, "by me")


async def fail(setup: Setup) -> None:
    await setup.started()
    await setup.shop.app.admin.fail(setup.job_id, "by me", will_retry=True)


async def cancel_then_kill(setup: Setup) -> None:
    """In one moment: the last request counts."""
    await setup.started()
    async with setup.connection.transaction():  # else its runner may have ended it between the two
        await setup.shop.app.admin.cancel(setup.job_id, "by me", connection=setup.connection)
        await setup.shop.app.admin.kill(setup.job_id, "by me", connection=setup.connection)


async def cancel_between(setup: Setup) -> None:
    await setup.reached("failed")
    await setup.shop.app.admin.cancel(setup.job_id, "by me")


async def stop(setup: Setup) -> None:
    await setup.started()
    await setup.shop.app.runners[0].stop(timeout=0)


ENDS = [
    End("completes", "", "completed", 1, "completed"),
    End("completes in its own transaction", "complete here", "completed", 1, "completed"),
    End("fails", "raise", "failed", 1, "retry"),
    End("fails for the last time", "raise", "dead", 1, "dead", last=True),
    End("asks for another attempt", "retry", "failed", 1, "retry"),
    End("gives up", "dead", "dead", 1, "dead"),
    End("stops", "cancel", "cancelled", 1, "cancel"),
    End("snoozes", "snooze", "scheduled", 0, "snooze"),
    End("is interrupted by a stop", "wait", "pending", 0, "interrupted", stop),
    End("is cancelled", "wait", "cancelled", 1, "cancel", cancel),
    End("is cancelled by a filter", "wait", "cancelled", 1, "cancel", cancel_all),
    End("is killed", "wait", "dead", 1, "dead", kill),
    End("is failed by hand", "wait", "failed", 1, "retry", fail),
    End("is failed by hand for the last time", "wait", "dead", 1, "dead", fail, last=True),
    End("is cancelled, then killed", "wait", "dead", 1, None, cancel_then_kill),
    End("is cancelled between its attempts", "retry", "cancelled", 1, "retry", cancel_between),
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.name)
async def test_what_ran_counts_and_what_was_interrupted_does_not(
    dsn: str, connection: Connection, recorder: Recorder, end: End
) -> None:
    shop = Workshop(dsn)
    async with shop.app.runner(grace=0):
        new = shop.act.using(max_attempts=1) if end.last else shop.act
        handle = await new.enqueue(end.what)
        setup = Setup(shop, handle.id, connection, recorder)
        if end.do is not None:
            await end.do(setup)
        await setup.reached(end.status)
        ended = await recorder.wait_for(AttemptEnded, lambda event: event.job_id == handle.id)
    row = await connection.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", handle.id)
    assert row is not None
    assert (row["status"], row["attempts"]) == (end.status, end.attempts)
    assert json.loads(row["progress"]) == {"done": 0.9, "note": "mine"}
    assert ended.attempt == 1
    if end.outcome is not None:
        assert ended.outcome == end.outcome
    written = recorder.of(OutcomeWritten)[0].status
    assert written == ("failed" if end.do is cancel_between else end.status) or end.do is cancel_then_kill
    dead_letters = await connection.fetch("SELECT original_job, error_details FROM asyncjobs.dead_letter_jobs")
    assert len(dead_letters) == (end.status == "dead")
    for dead_letter in dead_letters:
        details = json.loads(dead_letter["error_details"])
        assert (details["attempts"], json.loads(dead_letter["original_job"])["attempts"]) == (1, 1)
        assert details["errors"][-1]["attempt"] == 1
    if end.do in {cancel, kill}:
        assert (ended.message, row["error_message"]) == ("by me", "by me")


@pytest.mark.parametrize("verb", ["cancel", "kill"])
async def test_what_was_claimed_and_had_not_begun_does_not_count(dsn: str, recorder: Recorder, verb: str) -> None:
    shop = Workshop(dsn)
    async with shop.app.runner(grace=0):
        first, second = await shop.act.enqueue("wait"), await shop.act.enqueue("wait")

        async def is_claimed() -> bool:
            job = await shop.app.get(second.id)
            return job is not None and job.status == "processing"

        await recorder.wait_for(AttemptStarted, lambda event: event.job_id == first.id)
        await eventually(is_claimed, description="the second is claimed")
        await getattr(shop.app.admin, verb)(second.id, "by me")
        job: Job = await second.wait(timeout=10)
        assert (job.attempts, [error["attempt"] for error in job.errors]) == (0, [0] if verb == "kill" else [])
        shop.stopped.set()
        await first.wait(timeout=10)


async def test_plain_function_that_is_cancelled_counts_and_its_progress_is_written(dsn: str, recorder: Recorder) -> None:
    shop = Workshop(dsn)
    async with shop.app.runner(grace=0):
        handle = await shop.plain.enqueue()
        await recorder.wait_for(AttemptStarted)
        await shop.app.admin.cancel(handle.id, "by me")
        job = await handle.wait(timeout=10)
    assert (job.status, job.attempts, job.progress) == ("cancelled", 1, {"done": 0.3, "note": "mine"})


async def test_progress_that_was_written_is_not_written_again(dsn: str, connection: Connection, recorder: Recorder) -> None:
    shop = Workshop(dsn)
    async with shop.app.runner(grace=0):
        handle = await shop.act.enqueue("wait")

        async def is_written() -> bool:
            return await connection.fetchval("SELECT progress IS NOT NULL FROM asyncjobs.jobs") is True

        await eventually(is_written, description="it is written while it runs", timeout=5)
        await connection.execute("""UPDATE asyncjobs.jobs SET progress = '{"done": 0.1, "note": "by hand"}'""")
        shop.stopped.set()
        job = await handle.wait(timeout=10)
    assert job.progress == {"done": 0.1, "note": "by hand"}
