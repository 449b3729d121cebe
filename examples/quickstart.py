"""The shortest use: declare a job, enqueue it, have it run, take its result.

Run it with `python examples/quickstart.py`.
"""

import asyncio

from asyncjobs import AsyncJobs

jobs = AsyncJobs("embedded://")  # a private PostgreSQL; with "postgresql://user:password@host/db" yours


@jobs.job("quickstart.greet")
async def greet(name: str, greeting: str = "Hello") -> str:
    """A handler is an ordinary function. What it takes is the job's payload, what it returns the job's result."""
    return f"{greeting}, {name}!"


async def main() -> None:
    """Enqueue and run in one process; a web app does the same in its lifespan."""
    async with jobs.runner():
        first = await greet.enqueue("Ada")  # committed when the call returns
        second = await greet.enqueue(name="Żaneta", greeting="Cześć")
        results = [await handle.result(timeout=10) for handle in (first, second)]
    print(*results, sep="\n")
    assert results == ["Hello, Ada!", "Cześć, Żaneta!"]


if __name__ == "__main__":
    asyncio.run(main())
