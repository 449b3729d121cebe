"""Very short jobs: claim some ahead of the free slots, and few calls of the database serve many jobs.

Run it with `python examples/prefetch.py`.
"""

import asyncio

from asyncjobs import AsyncJobs, Queue

COUNT = 1_000

# Ten slots. `eager` claims up to 500 jobs ahead of them; `careful` has a job only when it has a slot for it.
jobs = AsyncJobs("embedded://", queues=[Queue("careful"), Queue("eager", prefetch=500)])
clicks = {"careful": 0, "eager": 0}


@jobs.job("prefetch.click", queue="careful")
async def click(queue: str) -> None:
    """Work that is over before a round trip to the database would be."""
    clicks[queue] += 1


async def main() -> None:
    """Run a thousand clicks in each of the two queues, one queue after the other."""
    for queue in ("careful", "eager"):
        async with jobs:
            handles = await jobs.enqueue_many([click.using(queue=queue).new(queue) for _ in range(COUNT)])
            async with jobs.runner(queues=[queue]):
                for handle in handles:
                    await handle.wait(timeout=60)
        print(f"{queue}: {clicks[queue]} clicks")


if __name__ == "__main__":
    asyncio.run(main())
