"""A runner that was declared dead, or may be: it gives up what it runs and comes back (P2, P8)."""

import asyncio
from typing import Any

from asyncjobs import AsyncJobs, JobContext
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import (
    AttemptEnded,
    AttemptStarted,
    ClaimWasLost,
    DatabaseFailed,
    RunnerLostItself,
    RunnerRegistered,
)
from asyncjobs.testing import Proxy, Recorder
from tests.support.eventually import eventually

SHORT: dict[str, Any] = {"heartbeat": 0.1, "runner_timeout": 0.6, "rescue_interval": 0.1, "promote_interval": 0.2}


def an_app(dsn: str, **settings: Any) -> tuple[AsyncJobs, Any]:
    """An app with a job whose first attempt lasts until it is cancelled."""
    jobs = AsyncJobs(dsn, **settings)

    @jobs.job("long")
    async def long(ctx: JobContext) -> int:
        if ctx.attempt == 1 and not ctx.job.rescues and not seen:
            seen.append(ctx.job.id)
            await asyncio.sleep(60)
        return ctx.attempt

    seen: list[int] = []
    return jobs, long


async def test_runner_that_was_declared_dead_gives_up_registers_anew_and_goes_on(
    database: Database, connection: Connection, recorder: Recorder
) -> None:
    jobs, long = an_app(database.dsn, **SHORT)
    async with jobs.runner() as runner:
        handle = await long.enqueue()
        await recorder.wait_for(AttemptStarted)
        former = runner.id
        await connection.execute("DELETE FROM asyncjobs.runners")
        await recorder.wait_for(RunnerRegistered, lambda event: event.formerly == former)
        job = await handle.wait(timeout=10)
        assert runner.id != former
    # Given back by itself, or rescued by itself under its new name: whichever came first.
    assert (job.status, job.attempts - job.rescues) == ("completed", 1)
    assert len(recorder.of(AttemptEnded)) == 2
    assert len(recorder.of(ClaimWasLost)) == job.rescues


async def test_runner_that_cannot_confirm_its_beat_gives_its_jobs_back_and_claims_nothing_until_it_can(
    database: Database, connection: Connection, proxy: Proxy, recorder: Recorder
) -> None:
    jobs, long = an_app(proxy.dsn, **(SHORT | {"runner_timeout": 1.2}))
    async with jobs.runner() as runner:
        handle = await long.enqueue()
        await recorder.wait_for(AttemptStarted)
        # Nobody else looks; the runner itself would declare itself dead.
        runner.duties.rescuer.interval_seconds = 300
        proxy.black_hole("duties")
        proxy.black_hole("heartbeat")
        await recorder.wait_for(RunnerLostItself)
        await recorder.wait_for(AttemptEnded, lambda event: event.outcome == "interrupted")
        await eventually(lambda: is_pending(connection, handle.id), description="the job is given back")
        assert await is_pending(connection, handle.id)
        runner.wake()
        await asyncio.sleep(0.1)
        assert await is_pending(connection, handle.id)
        proxy.heal()
        assert await handle.result(timeout=10) == 1


async def is_pending(connection: Connection, job_id: int) -> bool:
    row = await connection.fetchrow("SELECT status, attempts FROM asyncjobs.jobs WHERE id = $1", job_id)
    return row is not None and tuple(row) == ("pending", 0)


async def test_runner_that_stops_while_it_registers_anew_leaves_no_row(
    database: Database, connection: Connection, proxy: Proxy, recorder: Recorder
) -> None:
    jobs, _ = an_app(proxy.dsn, **SHORT)
    async with jobs:
        async with jobs.runner(grace=0) as runner:
            proxy.refuse("pool")
            proxy.reset("pool")
            await connection.execute("DELETE FROM asyncjobs.runners")
            await eventually(lambda: runner._registering is not None, description="it registers anew")
        proxy.heal()
        await asyncio.sleep(0.3)
        assert await connection.fetchval("SELECT count(*) FROM asyncjobs.runners") == 0


async def test_runner_that_may_not_come_back_yet_goes_on_trying_and_its_app_stays_usable(
    database: Database, connection: Connection, recorder: Recorder
) -> None:
    """A schema that is being restored, a role without its rights: not even an error that is not known to pass ends the app."""
    jobs = AsyncJobs(database.dsn, **SHORT)

    @jobs.job("quick")
    async def quick() -> None: ...

    def failed() -> int:
        return sum(event.during == "register" for event in recorder.of(DatabaseFailed))

    async with jobs.runner() as runner:
        former = runner.id
        await connection.execute("ALTER TABLE asyncjobs.runners ADD CONSTRAINT nobody CHECK (false) NOT VALID")
        await connection.execute("DELETE FROM asyncjobs.runners")
        await eventually(lambda: failed() >= 2, description="it tries again", timeout=20)
        handle = await quick.enqueue()
        await connection.execute("ALTER TABLE asyncjobs.runners DROP CONSTRAINT nobody")
        await recorder.wait_for(RunnerRegistered, lambda event: event.formerly == former)
        assert (await handle.wait(timeout=20)).status == "completed"
