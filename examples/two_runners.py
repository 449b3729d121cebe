"""Two runners in processes of their own: one does what is to be done once, and the other takes over when it is gone.

Run it with `python examples/two_runners.py`. Times are a tenth of the defaults, so that nobody has to wait.
"""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from asyncjobs import AsyncJobs

# A runner that fell silent is replaced after lease_expiry, a third of runner_timeout: with the defaults 10 to 15 s.
jobs = AsyncJobs("embedded://", heartbeat=0.5, runner_timeout=3)


@jobs.duty("two_runners.report", every=0.1)
async def report() -> int:
    """Is done by one of the runners."""
    return 1


@asynccontextmanager
async def two_runners() -> AsyncGenerator[dict[int, Process]]:
    """Two processes that run `jobs.run()`, by their ids, killed at the end."""
    made = [await asyncio.create_subprocess_exec(sys.executable, __file__, "run") for _ in range(2)]
    try:
        yield {process.pid: process for process in made}
    finally:
        for process in made:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def leader(*, other_than: int = 0) -> int:
    """The process that holds the duty's lease, as soon as there is one: what operators ask for."""
    while True:
        for lease in await jobs.admin.leases():
            if lease.duty == "two_runners.report" and lease.pid not in {None, other_than}:
                return lease.pid or 0
        await asyncio.sleep(0.02)


async def both_live() -> None:
    """Wait until both are registered."""
    while len(await jobs.admin.runners(former=0)) < 2:  # noqa: ASYNC110 - a table has no event to await
        await asyncio.sleep(0.02)


async def lose_the_leader(how: signal.Signals) -> None:
    """Send the leader a signal, and see who does the duty next."""
    async with two_runners() as processes:
        await both_live()
        first = await leader()
        began = time.monotonic()
        os.kill(first, how)
        second = await leader(other_than=first)
        seconds = time.monotonic() - began
        assert {first, second} == processes.keys()
        print(f"{how.name}: the other one took over")
        print(f"  after {seconds:.2f} s")
        if how is signal.SIGTERM:
            assert await processes[first].wait() == 0  # it ended in good order, and gave up its lease at once
        os.kill(second, signal.SIGTERM)
        await processes[second].wait()


async def main() -> None:
    """Stop the leader in good order; then kill it."""
    async with jobs:
        await lose_the_leader(signal.SIGTERM)
        await lose_the_leader(signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(jobs.run() if sys.argv[1:] == ["run"] else main())
