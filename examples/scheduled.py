"""Jobs that run later: after a delay, or at an instant.

Run it with `python examples/scheduled.py`.
"""

import asyncio
from datetime import UTC, datetime, timedelta

from asyncjobs import AsyncJobs, InvalidOption

jobs = AsyncJobs("embedded://")


@jobs.job("scheduled.remind")
async def remind(what: str) -> str:
    """Runs when its time has come, on whatever runner is up then."""
    return f"do not forget {what}"


async def main() -> None:
    """Enqueue three reminders and see when each started."""
    async with jobs.runner():
        handles = {
            "now": await remind.enqueue("the tea"),
            "delay": await remind.using(delay=timedelta(seconds=0.4)).enqueue("the cake"),  # plain numbers are seconds
            "run_at": await remind.using(run_at=datetime.now(UTC) + timedelta(seconds=0.8)).enqueue("the milk"),
        }
        waiting = await jobs.get(handles["run_at"].id)
        assert waiting is not None
        print("run_at is", waiting.status, "until its time comes")

        for name, handle in handles.items():
            job = await handle.wait(timeout=10)
            assert job.started_at is not None
            late = (job.started_at - job.scheduled_at).total_seconds()
            print(f"{name}: {job.result}, {'on time' if 0 <= late < 0.5 else f'{late:.3f} s late'}")
            assert 0 <= late < 5

        try:
            await remind.using(run_at=datetime(2030, 1, 1)).enqueue("the party")  # noqa: DTZ001 - refused: whose midnight?
        except InvalidOption as error:
            print("refused:", error)


if __name__ == "__main__":
    asyncio.run(main())
