"""The application of a simulated process: jobs that do as their payload says, a duty, a schedule."""

import asyncio
from typing import Final

from asyncjobs import AsyncJobs, Backoff, Dead, DutyContext, JobContext, Queue, Snooze
from tests.simulation.course import Course
from tests.simulation.process import Process

RUNNER_TIMEOUT: Final = 9.0
LEASE_EXPIRY: Final = 6.0


class HandlerError(Exception):
    """What a handler raises that was told to."""


def make_app(process: Process, passes: list["Pass"], course: Course) -> AsyncJobs:
    """The app of this process; `passes` is where its duty is noted."""
    jobs = AsyncJobs(
        "postgresql://simulated/world", queues=[Queue("default", concurrency=course.concurrency), Queue("side", concurrency=2)],
        heartbeat=3, runner_timeout=RUNNER_TIMEOUT, lease_expiry=LEASE_EXPIRY, lease_renew=2, lease_trust=4, lease_observe=5,
        metrics_interval=60, grace=3,
        connect_kwargs={"statement_cache_size": 0},  # its connections change their sessions as behind a pooler
        **course.settings,
    )  # fmt: skip

    async def act(ctx: JobContext, plan: list[str], seconds: float, number: int) -> int:
        what = plan[min(ctx.attempt, len(plan)) - 1]
        await (_stubbornly(seconds) if what == "stubborn" else asyncio.sleep(seconds))
        if what == "fail":
            raise HandlerError(number)
        if what == "die":
            return Dead("it was to die")  # type: ignore[return-value]
        if what == "complete":
            await _complete_here(process, ctx)
        if what == "snooze" and ctx.job.snoozes < 2:
            return Snooze(0.5)  # type: ignore[return-value]
        return number

    jobs.job("act", backoff=Backoff(0.5, maximum=1), max_attempts=3)(act)
    jobs.job("halting", backoff=Backoff(0.5, maximum=1), max_attempts=2, on_dead="halt")(act)

    if course.has_schedule:

        @jobs.job("tick")
        async def tick() -> None:
            await asyncio.sleep(0.1)

        jobs.schedule("ticks", tick.new(), every=5)

    @jobs.duty("single", every=1.0)
    async def single(_ctx: DutyContext) -> None:
        done = Pass(process)
        passes.append(done)
        try:
            await asyncio.sleep(0.4)
        finally:
            if process.is_alive:
                done.ended_at = process.world.now

    return jobs


async def _stubbornly(seconds: float) -> None:
    """Sleep, and when it is cancelled, for so long once more that nobody waits for it."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        await asyncio.sleep(5.0)
        raise


async def _complete_here(process: Process, ctx: JobContext) -> None:
    """Complete the job in a transaction of the handler's own."""
    connection = await process.world.connect(process, "application", 5.0)
    try:
        async with connection.transaction():
            await ctx.complete(connection)
    finally:
        connection.terminate()


class Pass:
    """A pass of the duty that one runner does at a time."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.began_at = process.world.now
        self.ended_at: float | None = None
