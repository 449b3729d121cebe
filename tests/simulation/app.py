"""The application of a simulated process: jobs that do as their payload says, a duty, a schedule."""

import asyncio
from collections.abc import Callable
from typing import Final

from asyncjobs import AsyncJobs, Backoff, Dead, DutyContext, Hook, JobContext, Limit, Outcome, Queue, Rate, Snooze, Throttled
from asyncjobs.declare.new_job import named
from tests.simulation.connection import Connection
from tests.simulation.course import Course
from tests.simulation.process import Process

RUNNER_TIMEOUT: Final = 9.0
LEASE_EXPIRY: Final = 6.0


#: What the application lets out where it is unruly.
LEAKED: Final = "leaked"


class HandlerError(Exception):
    """What a handler raises that was told to."""


_RAISES: Final[dict[str, Callable[[str], BaseException]]] = {
    "fail": HandlerError, "leak": asyncio.CancelledError, "exit": SystemExit,
}  # fmt: skip


def make_app(process: Process, passes: list["Pass"], course: Course) -> AsyncJobs:
    """The app of this process; `passes` is where its duty is noted."""
    jobs = AsyncJobs(
        "postgresql://simulated/world",
        queues=[Queue("default", concurrency=course.concurrency, prefetch=course.prefetch), Queue("side", concurrency=2)],
        hooks=[Unruly(process)] if course.is_unruly else [],
        heartbeat=3, runner_timeout=RUNNER_TIMEOUT, lease_expiry=LEASE_EXPIRY, lease_renew=2, lease_trust=4, lease_observe=5,
        metrics_interval=60, grace=3,
        connect_kwargs={"statement_cache_size": 0},  # its connections change their sessions as behind a pooler
        **course.settings,
    )  # fmt: skip

    async def act(ctx: JobContext, plan: list[str], seconds: float, number: int) -> int:
        if "clock" not in course.faults:
            process.world.see_start(ctx.job)
        return await _act(process, ctx, plan[min(ctx.attempt, len(plan)) - 1], seconds, number)

    jobs.job("act", backoff=Backoff(0.5, maximum=1), max_attempts=3)(act)
    jobs.job("halting", backoff=Backoff(0.5, maximum=1), max_attempts=2, on_dead="halt")(act)

    if course.each:  # (programs differ: the newest declaration counts)
        limit = Limit(
            "api", each=process.world.random.choice(course.each), total=course.total, by="{number}",
            rate=Rate(10, per=1, burst=2) if course.has_rate else None,
        )  # fmt: skip
        jobs.job("limited", backoff=Backoff(0.5, maximum=1), max_attempts=3, limit=limit)(act)

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
        if course.is_unruly:
            misbehave(process, 0.3)

    return jobs


def misbehave(process: Process, odds: float) -> None:
    """Perhaps a cancellation that somebody awaited comes out here, or an exit."""
    random = process.world.random
    if process.world.faulty and random.random() < odds:
        leaks: list[Callable[[str], BaseException]] = [asyncio.CancelledError, SystemExit, HandlerError]
        raise random.choice(leaks)(LEAKED)


class Unruly(Hook):
    """A hook that lets out what it likes."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def before_attempt(self, _ctx: JobContext, /) -> None:
        misbehave(self._process, 0.05)

    async def after_attempt(self, _ctx: JobContext, /, outcome: Outcome) -> None:
        misbehave(self._process, 0.05)


async def _act(process: Process, ctx: JobContext, what: str, seconds: float, number: int) -> int:
    """Do as the job's plan says of this attempt."""
    await (_stubbornly(seconds) if what == "stubborn" else asyncio.sleep(seconds))
    if what in {"complete", "forget"}:
        await _complete_here(process, ctx, commits=what == "complete")
    if what.startswith("spawn") and ctx.job.workflow_id is not None:
        payloads = ({"plan": ["ok"], "seconds": 0.0, "number": (number * 10 + at) * 1000} for at in range(2))
        await ctx.spawn(*(named("act", payload, {}, ctx.jobs.handlers, ctx.jobs.settings) for payload in payloads))
    if what == "spawn and fail":
        raise HandlerError(LEAKED)
    if what in _RAISES:
        raise _RAISES[what](LEAKED)
    if what == "die":
        return Dead("it was to die")  # type: ignore[return-value]
    if what == "snooze" and ctx.job.snoozes < 2:
        return Snooze(0.5)  # type: ignore[return-value]
    if what == "throttle" and ctx.job.snoozes < 2:
        raise Throttled(0.5)
    return number


async def _stubbornly(seconds: float) -> None:
    """Sleep, and when it is cancelled, for so long once more that nobody waits for it."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        await asyncio.sleep(5.0)
        raise


async def _complete_here(process: Process, ctx: JobContext, *, commits: bool) -> None:
    """Complete the job in a transaction of the handler's own, with what that is about; perhaps its commit is forgotten."""
    connection = await process.world.connect(process, "application", 5.0)
    try:
        if commits:
            async with connection.transaction():
                await _write(connection, ctx)
        else:
            await connection.execute("BEGIN")
            await _write(connection, ctx)
    finally:
        connection.terminate()


async def _write(connection: Connection, ctx: JobContext) -> None:
    await connection.execute(f"INSERT INTO asyncjobs.simulated_effects (job_id) VALUES ({ctx.job.id})")
    await ctx.complete(connection)


class Pass:
    """A pass of the duty that one runner does at a time."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.began_at = process.world.now
        self.ended_at: float | None = None
