"""Jobs that come by themselves: by a cron expression, or every so often. Any number of runners; each tick makes one job.

Run it with `python examples/schedules.py`.
"""

import asyncio
from datetime import timedelta

from asyncjobs import AsyncJobs, JobContext

jobs = AsyncJobs("embedded://")
ticked = asyncio.Event()


@jobs.cron("schedules.nightly", "30 2 * * *", timezone="Europe/Helsinki")
async def nightly() -> str:
    """Runs at half past two in Helsinki, at three on the day in spring that has no half past two."""
    return "cleaned up"


@jobs.job("schedules.report")
async def report(ctx: JobContext, of: str) -> str:
    """Knows for which tick it runs, also when it starts late."""
    assert ctx.job.scheduled_at <= ctx.job.run_at
    ticked.set()
    return f"report of {of}"


# While an hour's report is not done, the next one waits for it; what was missed while nothing ran is made up for once.
jobs.schedule("schedules.hourly", report.new("sales"), cron="@hourly", overlap="queue")
# A tick while the last job is not done makes none.
jobs.schedule("schedules.often", report.using(priority=200).new("visits"), every=timedelta(seconds=0.5), overlap="skip")


async def main() -> None:
    """Wait for a tick, look at the schedules, and steer them."""
    async with jobs.runner():
        await asyncio.wait_for(ticked.wait(), timeout=10)
        often = await jobs.admin.schedule("schedules.often")
        assert often.last_job_id is not None
        print("often:", await jobs.handle(often.last_job_id).result(timeout=10))

        for schedule in await jobs.admin.schedules():
            if schedule.name.startswith("schedules."):
                print(f"{schedule.name}: {schedule.cron or schedule.every}, {schedule.timezone}, {schedule.overlap}")

        made = await jobs.admin.run_schedule("schedules.nightly")  # now, and again at its time
        print("now:", await jobs.handle(made.id).result(timeout=10))

        await jobs.admin.disable_schedule("schedules.hourly", reason="stocktaking")  # also after restarts
        print("disabled:", (await jobs.admin.schedule("schedules.hourly")).disabled_reason)
        await jobs.admin.enable_schedule("schedules.hourly")


if __name__ == "__main__":
    asyncio.run(main())
