"""A runner in a process of its own, with short times, for tests that kill, freeze or block it. It says what happens to it."""

import asyncio
import os
import time

from asyncjobs import AsyncJobs, JobContext, Queue
from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted, Event, LoopStalled, RunnerLostItself, RunnerRegistered


def say(event: Event) -> None:
    """Print what tests wait for."""
    match event:
        case RunnerRegistered(runner_id=runner_id):
            print("registered", runner_id)
        case RunnerLostItself(reason=reason):
            print("lost itself:", reason)
        case LoopStalled(task=task):
            print("stalled in", task)
        case AttemptStarted(job_id=job_id, attempt=attempt):
            print(f"started job {job_id} attempt {attempt}")
        case AttemptEnded(job_id=job_id, outcome=outcome):
            print(f"ended job {job_id} {outcome}")
        case _:
            pass


jobs = AsyncJobs(
    queues=[Queue("default", concurrency=int(os.environ.get("CONCURRENCY", "5")), prefetch=int(os.environ.get("PREFETCH", "0")))],
    heartbeat=0.2,
    runner_timeout=1.2,
    rescue_interval=0.2,
    promote_interval=0.5,
    stall_after=0.3,
    stall_limit=float(os.environ.get("STALL_LIMIT", "60")),
    poll_interval=float(os.environ.get("POLL_INTERVAL", "5")),
    listener_keepalive=float(os.environ.get("LISTENER_KEEPALIVE", "5")),
    grace=0,
)
jobs.events.subscribe(say)


@jobs.job("quick")
async def quick() -> int:
    """End at once; the answer is who ran it."""
    return os.getpid()


@jobs.job("sleep")
async def sleep(ctx: JobContext, seconds: float) -> int:
    """Let others run meanwhile. Later attempts are quick."""
    await asyncio.sleep(seconds if ctx.attempt == 1 else 0.05)
    return os.getpid()


@jobs.job("nap")
async def nap(seconds: float) -> int:
    """Let others run meanwhile, in each attempt."""
    await asyncio.sleep(seconds)
    return os.getpid()


@jobs.job("block")
async def block(ctx: JobContext, seconds: float) -> int:
    """Let nobody run meanwhile. Later attempts are quick."""
    time.sleep(seconds if ctx.attempt == 1 else 0.05)  # noqa: ASYNC251 - that is what it is for
    return os.getpid()


@jobs.job("block_until")
async def block_until(ctx: JobContext, there: str) -> int:
    """Let nobody run until this file is there. Later attempts are quick."""
    while ctx.attempt == 1 and not os.path.exists(there):  # noqa: ASYNC240, PTH110 - that is what it is for
        time.sleep(0.05)  # noqa: ASYNC251
    return os.getpid()


@jobs.job("die", max_attempts=3)
async def die() -> None:
    """Take the process along."""
    os._exit(1)


if __name__ == "__main__":
    asyncio.run(jobs.run())
