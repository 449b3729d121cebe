"""A runner in a process of its own, with short times, that notes each execution in the table at $RAN_DSN."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from asyncjobs import AsyncJobs, Backoff, JobContext, Queue, resource
from asyncjobs.telemetry.events import RunnerRegistered
from tests.support.executions import Ran

jobs = AsyncJobs(
    queues=[Queue(concurrency=8)],
    heartbeat=0.2,
    runner_timeout=2.4,
    rescue_interval=0.3,
    promote_interval=0.3,
    sweep_interval=0.5,
    listener_keepalive=0.5,
    poll_interval=1,
    stall_after=30,
    grace=0.2,
)


@resource
@asynccontextmanager
async def ran() -> AsyncGenerator[Ran]:
    """The table, for all attempts."""
    table = await Ran.connect(os.environ["RAN_DSN"])
    yield table
    table.close()


@jobs.job("plain", max_attempts=50, backoff=Backoff(0.05))
async def plain(ctx: JobContext, seconds: float) -> None:
    """Take some time."""
    table = await ctx.use(ran)
    async with table.execution(ctx.job.id, None):
        await asyncio.sleep(seconds)


@jobs.job("keyed", serialize_by="{key}", max_attempts=50, backoff=Backoff(0.05))
async def keyed(ctx: JobContext, key: str, seconds: float) -> None:
    """The same, one of a key at a time."""
    table = await ctx.use(ran)
    async with table.execution(ctx.job.id, key):
        await asyncio.sleep(seconds)


async def main() -> None:
    """Run until told to stop."""
    jobs.events.subscribe(lambda event: print("registered", event.runner_id), RunnerRegistered)
    await jobs.run()


if __name__ == "__main__":
    asyncio.run(main())
