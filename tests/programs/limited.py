"""A runner of jobs with a rate, in a process whose own clock is wrong by as much as it is told."""

import asyncio
import datetime as dt
import os
import time
from typing import Any

SHIFT = float(os.environ["CLOCK_SHIFT"])
_real = time.time


class _Shifted(dt.datetime):
    """What `datetime.now` says here."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return super().now(tz) + dt.timedelta(seconds=SHIFT)


time.time = lambda: _real() + SHIFT
dt.datetime = _Shifted  # type: ignore[misc]

from asyncjobs import AsyncJobs, Limit, Rate  # noqa: E402 - with the clock as it is here
from asyncjobs.telemetry.events import RunnerStarted  # noqa: E402

jobs = AsyncJobs(poll_interval=0.2, promote_interval=0.2)


@jobs.job("limited", limit=Limit("api", rate=Rate(20, per=1, burst=20)))
async def limited() -> None:
    """Start, and end."""


async def main() -> None:
    """Run until told to stop."""
    jobs.events.subscribe(lambda event: print("started", event.runner_id), RunnerStarted)
    await jobs.run()


if __name__ == "__main__":
    asyncio.run(main())
