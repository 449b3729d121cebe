"""A runner in a process of its own, with short times, for tests that kill, freeze or block it. It says what happens to it."""

import asyncio
import os
import sys
import time

from asyncjobs import AsyncJobs, Hook, JobContext, Queue
from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted, Event, LoopStalled, RunnerLostItself, RunnerRegistered


def tell(line: str) -> None:
    """Print it at once and in one piece, whatever other threads print."""
    sys.stdout.write(line + "\n")


def say(event: Event) -> None:
    """Print what tests wait for."""
    match event:
        case RunnerRegistered(runner_id=runner_id):
            tell(f"registered {runner_id}")
        case RunnerLostItself(reason=reason):
            tell(f"lost itself: {reason}")
        case LoopStalled(task=task, stop_asked=stop_asked):
            tell(f"stalled in {task}" + (" although a stop was asked for" if stop_asked else ""))
        case AttemptStarted(job_id=job_id, attempt=attempt):
            tell(f"started job {job_id} attempt {attempt}")
        case AttemptEnded(job_id=job_id, outcome=outcome):
            tell(f"ended job {job_id} {outcome}")
        case _:
            pass


class Waits(Hook):
    """Let others run before each attempt's handler is called."""

    async def before_attempt(self, _ctx: JobContext, /) -> None:
        await asyncio.sleep(float(os.environ["HOOK_SECONDS"]))


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
    hooks=[Waits()] if "HOOK_SECONDS" in os.environ else [],
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


@jobs.job("step")
async def step(ctx: JobContext, seconds: float) -> int:
    """Say when, and let others run meanwhile."""
    at = time.monotonic()
    tell(f"began job {ctx.job.id} at {at}")
    await asyncio.sleep(seconds)
    return os.getpid()


@jobs.job("block_step")
async def block_step(ctx: JobContext, seconds: float) -> int:
    """Say when, and let nobody run meanwhile."""
    at = time.monotonic()
    tell(f"began job {ctx.job.id} at {at}")
    time.sleep(seconds)  # noqa: ASYNC251 - that is what it is for
    return os.getpid()


@jobs.job("plain_step")
def plain_step(ctx: JobContext, seconds: float) -> int:
    """Say when, and wait in a thread."""
    at = time.monotonic()
    tell(f"began job {ctx.job.id} at {at}")
    time.sleep(seconds)
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
