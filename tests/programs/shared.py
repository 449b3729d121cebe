"""A runner in a process of its own that shares its queue with others, and spools the history of its attempts."""

import asyncio
import os
import random
from pathlib import Path

from asyncjobs import AsyncJobs, Backoff, JobContext, Queue
from asyncjobs.telemetry.events import RunnerStarted
from asyncjobs.testing import Recorder

jobs = AsyncJobs(
    queues=[Queue("default", concurrency=8, lanes={"fast": 2})],
    heartbeat=0.2,
    runner_timeout=1.2,
    rescue_interval=0.2,
    promote_interval=0.5,
    grace=5,
)


@jobs.job("share", max_attempts=5, backoff=Backoff(0.01, maximum=0.02))
async def share(ctx: JobContext, n: int) -> int:
    """Take a moment; every seventh fails at first."""
    await asyncio.sleep(random.random() * 0.01)
    if n % 7 == 0 and ctx.attempt == 1:
        raise RuntimeError("at first")
    return os.getpid()


async def main() -> None:
    """Run until told to stop."""
    Recorder(spool=Path(os.environ["SPOOL"])).watch(jobs.events)
    jobs.events.subscribe(lambda event: print("started", event.runner_id), RunnerStarted)
    await jobs.run()


if __name__ == "__main__":
    asyncio.run(main())
