"""A runner in a process of its own with a duty that leaves traces: one row per pass, written while its lease is held."""

import asyncio
import os

import asyncpg

from asyncjobs import AsyncJobs, DutyContext
from asyncjobs.telemetry.events import Event, LeaseAcquired, LeaseEnded, ListenerConnected, RunnerRegistered

SCALE = float(os.environ.get("SCALE", "1"))
DSN = os.environ["ASYNCJOBS_DSN"]


def say(event: Event) -> None:
    """Print what tests wait for."""
    match event:
        case RunnerRegistered(runner_id=runner_id):
            print("registered", runner_id, flush=True)
        case ListenerConnected():
            print("listens", flush=True)
        case LeaseAcquired(duty=duty, token=token):
            print("acquired", duty, token, flush=True)
        case LeaseEnded(duty=duty, reason=reason):
            print("ended", duty, reason, flush=True)
        case _:
            pass


jobs = AsyncJobs(
    DSN, heartbeat=5 * SCALE, runner_timeout=30 * SCALE, lease_expiry=10 * SCALE, schedule_interval=15 * SCALE,
    strategies={"promote": "lease"}, grace=1,
)  # fmt: skip
jobs.events.subscribe(say)
state: list["asyncpg.Connection[asyncpg.Record]"] = []


@jobs.job("mail")
async def mail() -> None:
    """Ends at once: what counts is when it began."""


jobs.schedule("often", mail.new(), every=0.5, misfire="all")


@jobs.duty("trace", every=0.1)
async def trace(ctx: DutyContext) -> int:
    """Write who did it, and when by the server's clock, before and after a moment of work."""
    if not state or state[0].is_closed():
        state[:] = [await asyncpg.connect(DSN, server_settings={"application_name": "asyncjobs traces"})]
    async with state[0].transaction():
        await ctx.hold(state[0])
        began_at = await state[0].fetchval("SELECT clock_timestamp()")
        await asyncio.sleep(0.02)
        await state[0].execute("INSERT INTO public.traces VALUES ($1, $2, clock_timestamp())", os.getpid(), began_at)
    return 1


if __name__ == "__main__":
    asyncio.run(jobs.run())
