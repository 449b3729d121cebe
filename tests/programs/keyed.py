"""A runner of keyed jobs in a process of its own, which spools what a checker of histories needs. It may be killed or stopped."""

import asyncio
import os
from pathlib import Path

import asyncpg

from asyncjobs import AsyncJobs, Backoff, JobContext, Queue
from asyncjobs.telemetry.events import RunnerStarted
from asyncjobs.testing import Recorder

WORK_SECONDS = float(os.environ["WORK_SECONDS"])

jobs = AsyncJobs(
    queues=[Queue("default", concurrency=12, prefetch=int(os.environ["PREFETCH"]), total=int(os.environ["TOTAL"]) or None)],
    heartbeat=0.3,
    runner_timeout=1.5,
    rescue_interval=0.3,
    promote_interval=0.5,
    sweep_interval=1.0,
    stall_after=30,
    max_errors=20,
    grace=5,
)


@jobs.job("work", serialize_by="key {key}", max_attempts=20, backoff=Backoff(0.02, maximum=0.05))
async def work(ctx: JobContext, key: int, failures: int) -> None:
    """Fail the first so many attempts."""
    await asyncio.sleep(WORK_SECONDS * (ctx.job.id % 3))
    if ctx.attempt <= failures:
        raise RuntimeError(f"attempt {ctx.attempt}")


@jobs.job("break", serialize_by="key {key}", max_attempts=1)
async def break_(key: int) -> None:
    """Die at once: the key goes on. It shares the keys of the other type."""
    raise RuntimeError("never works")


@jobs.job("whole", serialize_by="key {key}", max_attempts=20, backoff=Backoff(0.02, maximum=0.05))
async def whole(ctx: JobContext, key: int) -> None:
    """End in a transaction of its own, with what it is about."""
    connection = await asyncpg.connect(os.environ["ASYNCJOBS_DSN"], timeout=10, command_timeout=10)
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO public.effects (job_id) VALUES ($1)", ctx.job.id)
            await asyncio.sleep(WORK_SECONDS * (ctx.job.id % 3))
            await ctx.complete(connection)
    finally:
        connection.terminate()


async def main() -> None:
    """Run until told to stop."""
    recorder = Recorder(spool=Path(os.environ["SPOOL"]))
    recorder.watch(jobs.events)
    jobs.events.subscribe(lambda event: print("started", event.runner_id), RunnerStarted)
    await jobs.run()


if __name__ == "__main__":
    asyncio.run(main())
