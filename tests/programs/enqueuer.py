"""Another process that enqueues: `python -m tests.programs.enqueuer COUNT`, one job at a time; database: $ASYNCJOBS_DSN."""

import asyncio
import os
import sys
import time

from asyncjobs import AsyncJobs, JobRouter

router = JobRouter()


@router.job("figures.note")
async def note(at: float) -> float:
    """How many seconds after it was enqueued it started: processes of one machine share this clock."""
    return time.monotonic() - at


async def main(count: int) -> None:
    """Enqueue, some milliseconds apart."""
    async with AsyncJobs(schema=os.environ.get("TEST_SCHEMA", "asyncjobs"), routers=[router]):
        for _ in range(count):
            await note.enqueue(at=time.monotonic())
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
