"""A runner in a process of its own whose jobs call a service that may be down: it is up when the file SERVICE is there.

Each call is a line of the file CALLS: when, whose, and whether it was good.
"""

import asyncio
import os
import time
from pathlib import Path

from asyncjobs import AsyncJobs, Backoff, Queue
from asyncjobs.runtime import breakers
from asyncjobs.telemetry.events import RunnerStarted

OPEN_SECONDS = 2.0

breakers._ANSWER_SECONDS = 60.0  # type: ignore[misc]  # a machine that stands still is no silent database

jobs = AsyncJobs(queues=[Queue("default", concurrency=4)], promote_interval=0.5, grace=5)
breaker = jobs.circuit_breaker("post", failure_threshold=3, open_for=OPEN_SECONDS)
soon = Backoff(0.05, maximum=0.05)


def call() -> None:
    """Call the service."""
    at, is_up = time.time(), Path(os.environ["SERVICE"]).exists()
    with Path(os.environ["CALLS"]).open("a", encoding="utf-8") as file:
        file.write(f"{at:.6f} {os.getpid()} {int(is_up)}\n")
    if not is_up:
        raise ConnectionError("the post office is closed")


@jobs.job("letter", breaker="post", max_attempts=50, backoff=soon)
async def letter(number: int) -> int:
    """Not claimed while the breaker is open."""
    async with breaker:
        call()
    return number


@jobs.job("parcel", max_attempts=50, backoff=soon)
async def parcel(number: int) -> int:
    """Claimed, and snoozed while the breaker is open."""
    async with breaker:
        call()
    return number


async def main() -> None:
    """Run until told to stop."""
    jobs.events.subscribe(lambda event: print("started", event.runner_id), RunnerStarted)
    await jobs.run()


if __name__ == "__main__":
    asyncio.run(main())
