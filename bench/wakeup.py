"""How long does a job wait that another process enqueues while the runner is idle?"""

import asyncio
import sys
import time

from asyncjobs import AsyncJobs, JobRouter
from bench.lab import main, migrated, percentiles, report

router = JobRouter()
waited: list[float] = []
arrived = asyncio.Event()


@router.job("bench.note")
async def note(at: float) -> None:
    waited.append(time.monotonic() - at)
    arrived.set()


async def enqueue(dsn: str, count: int) -> None:
    """The other process: one job at a time, some milliseconds apart."""
    async with AsyncJobs(dsn, routers=[router]):
        for _ in range(count):
            await note.enqueue(at=time.monotonic())
            await asyncio.sleep(0.005)


async def run(dsn: str, smoke: bool) -> None:  # noqa: FBT001 - the lab calls it
    await migrated(dsn)
    count = 20 if smoke else 1_000
    jobs = AsyncJobs(dsn, routers=[router], poll_interval=300)
    async with jobs.runner():
        other = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.wakeup", "enqueue", dsn, str(count))
        while len(waited) < count:
            arrived.clear()
            await asyncio.wait_for(arrived.wait(), 30)
        await other.wait()
    report("from enqueue to start, in another process, poll interval 300 s", ["jobs", "p50", "p95", "p99", "longest (ms)"],
           [[f"{count:,}", *percentiles(waited)]])  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["enqueue"]:
        asyncio.run(enqueue(sys.argv[2], int(sys.argv[3])))
    else:
        main(run, __doc__)
