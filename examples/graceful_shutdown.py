"""What happens to running jobs when a runner stops: short ones finish, long ones are given back and run again elsewhere.

Run it with `python examples/graceful_shutdown.py`.
"""

import asyncio

from asyncjobs import AsyncJobs, JobContext

jobs = AsyncJobs("embedded://")
log: list[str] = []
started = asyncio.Semaphore(0)
again = asyncio.Event()


@jobs.job("shutdown.short")
async def short() -> str:
    """Ends within the grace time: nothing special happens to it."""
    started.release()
    await asyncio.sleep(0.2)
    log.append("short finished")
    return "finished"


@jobs.job("shutdown.long", max_attempts=1)
async def long(ctx: JobContext) -> str:
    """Would run for an hour. At the end of the grace time it is cancelled and goes back, with its only attempt."""
    started.release()
    if again.is_set():
        return f"finished in attempt {ctx.attempt}"
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        log.append("long cleaned up")
        raise
    return "finished the first time"


async def main() -> None:
    """Stop a runner in the middle of both jobs, then start another."""
    async with jobs:
        async with jobs.runner(grace=0.5):
            first, second = await short.enqueue(), await long.enqueue()
            await started.acquire()
            await started.acquire()
        for event in log:
            print("at the stop:", event)

        given_back = await jobs.get(second.id)
        assert given_back is not None
        print("long is", given_back.status, "with", given_back.attempts, "attempts spent")

        again.set()
        async with jobs.runner():
            print("next runner:", await second.result(timeout=10))
        assert await first.result() == "finished"
        assert log == ["short finished", "long cleaned up"]


if __name__ == "__main__":
    asyncio.run(main())
