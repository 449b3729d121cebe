"""A runner in a process of its own with a schedule that ticks each second, for tests that kill it."""

import asyncio
import os

from asyncjobs import AsyncJobs
from asyncjobs.telemetry.events import Event, RunnerRegistered, ScheduleFired


def say(event: Event) -> None:
    """Print what tests wait for."""
    match event:
        case RunnerRegistered(runner_id=runner_id):
            print("registered", runner_id)
        case ScheduleFired(schedule=name, job_ids=ids):
            print("fired", name, len(ids))
        case _:
            pass


jobs = AsyncJobs(heartbeat=0.5, runner_timeout=3, rescue_interval=0.5, grace=0)
jobs.events.subscribe(say)


@jobs.job("tick", max_attempts=10)
async def tick() -> int:
    """End at once; the answer is who ran it."""
    return os.getpid()


jobs.schedule("all", tick.new(), every=1, misfire="all")
jobs.schedule("one", tick.using(priority=50).new(), every=1, misfire="one")
jobs.schedule("skip", tick.new(), every=1, misfire="skip", overlap="skip")
jobs.schedule("queue", tick.new(), every=1, overlap="queue")


if __name__ == "__main__":
    asyncio.run(jobs.run())
