"""How many no-op jobs a second does one runner run, and how many transactions does that take?"""

import asyncio

from asyncjobs import AsyncJobs, JobRouter, Queue
from bench.lab import counting, main, migrated, report, stopwatch

router = JobRouter()
left = 0
done = asyncio.Event()


@router.job("bench.nothing")
async def nothing() -> None:
    global left  # noqa: PLW0603 - a counter is all this handler may cost
    left -= 1
    if left == 0:
        done.set()


async def measure(dsn: str, concurrency: int, count: int) -> list[str]:
    global left  # noqa: PLW0603
    jobs = AsyncJobs(dsn, queues=[Queue("default", concurrency=concurrency)], routers=[router])
    async with jobs, counting(dsn) as counted:
        await jobs.enqueue_many([nothing.new() for _ in range(count)])
        left = count
        done.clear()
        before, _ = await counted()
        with stopwatch() as seconds:
            async with jobs.runner():
                await done.wait()
        after, _ = await counted()
    return [str(concurrency), f"{count:,}", f"{count / seconds():,.0f}", f"{(after - before) / count * 1000:,.0f}"]


async def run(dsn: str, smoke: bool) -> None:  # noqa: FBT001 - the lab calls it
    await migrated(dsn)
    plan = {1: 20, 50: 200} if smoke else {1: 3_000, 10: 20_000, 50: 50_000, 200: 50_000}
    rows = [await measure(dsn, concurrency, count) for concurrency, count in plan.items()]
    report("one runner", ["concurrency", "jobs", "jobs/s", "transactions per 1,000 jobs"], rows)


if __name__ == "__main__":
    main(run, __doc__)
