"""What does a runner with nothing to do cost the database?"""

import asyncio

from asyncjobs import JobRouter, Queue
from asyncjobs.app import AsyncJobs
from bench.lab import counting, main, migrated, report

router = JobRouter()


@router.job("bench.nothing")
async def nothing() -> None:
    """Is never enqueued."""


async def run(dsn: str, smoke: bool) -> None:  # noqa: FBT001 - the lab calls it
    await migrated(dsn)
    seconds = 2 if smoke else 60
    rows: list[list[str]] = []
    for queues in (1, 10):
        names = ["default", *(f"queue {number}" for number in range(1, queues))]
        jobs = AsyncJobs(dsn, queues=[Queue(name) for name in names], routers=[router])
        async with jobs.runner(), counting(dsn) as counted:
            _, before = await counted()
            await asyncio.sleep(seconds)
            _, after = await counted()
        rows.append([str(queues), f"{(after - before) / (seconds + 1.1):.2f}"])
    report("an idle runner", ["queues", "statements/s"], rows)


if __name__ == "__main__":
    main(run, __doc__)
