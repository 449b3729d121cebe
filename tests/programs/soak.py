"""A runner of the soak, in a process of its own, with short times: it spools what its attempts did."""

import asyncio
import logging
import os
from pathlib import Path

import asyncpg

from asyncjobs import AsyncJobs, Backoff, JobContext, Queue
from asyncjobs.telemetry.events import RunnerRegistered
from tests.soak.spool import spool

#: Where jobs write that end in transactions of their own.
EFFECTS = "CREATE TABLE public.effects (job_id bigint NOT NULL)"
SLOTS = 20
TIMEOUT = float(os.environ.get("RUNNER_TIMEOUT", "4.8"))

jobs = AsyncJobs(
    queues=[Queue(concurrency=SLOTS)],
    heartbeat=TIMEOUT / 12,
    runner_timeout=TIMEOUT,
    rescue_interval=0.5,
    promote_interval=0.5,
    sweep_interval=1.0,
    listener_keepalive=1,
    poll_interval=1,
    stall_after=30,
    grace=2,
)


class NotYetError(Exception):
    """What the first attempt of some jobs raises."""


async def _work(ctx: JobContext, seconds: float, failures: int) -> None:
    if seconds:
        await asyncio.sleep(seconds)
    if ctx.attempt <= failures:
        raise NotYetError


@jobs.job("plain", max_attempts=100, backoff=Backoff(0.02, maximum=0.5))
async def plain(ctx: JobContext, seconds: float = 0.0, failures: int = 0) -> None:
    """Take some time, and fail the first attempts."""
    await _work(ctx, seconds, failures)


@jobs.job("keyed", serialize_by="{key}", max_attempts=100, backoff=Backoff(0.02, maximum=0.5))
async def keyed(ctx: JobContext, key: int, seconds: float = 0.0, failures: int = 0) -> None:
    """The same, one of a key at a time."""
    del key
    await _work(ctx, seconds, failures)


@jobs.job("whole", max_attempts=100, backoff=Backoff(0.02, maximum=0.5))
async def whole(ctx: JobContext) -> None:
    """End in a transaction of its own, with what it is about."""
    connection = await asyncpg.connect(os.environ["ASYNCJOBS_DSN"], timeout=10, command_timeout=10)
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO public.effects (job_id) VALUES ($1)", ctx.job.id)
            await ctx.complete(connection)
    finally:
        connection.terminate()


async def main() -> None:
    """Run until told to stop. What it says is kept by who started it: attempts that fail on purpose would be most of that."""
    logging.getLogger("asyncjobs").setLevel(logging.ERROR)
    spool(jobs.events, Path(os.environ["SPOOL"]))
    jobs.events.subscribe(lambda event: print("registered", event.runner_id), RunnerRegistered)
    await jobs.run()


if __name__ == "__main__":
    asyncio.run(main())
