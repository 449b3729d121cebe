"""`run_on_start`: a runner that starts makes a job of the schedule; a fleet makes one, and none beside one that is not done."""

import asyncio
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, InvalidSchedule, JobRouter
from asyncjobs.telemetry.events import ScheduleFired
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually


def make(dsn: str, **options: Any) -> AsyncJobs:
    jobs = AsyncJobs(dsn, **options)

    @jobs.cron("warm up", "0 0 1 1 *", run_on_start=True)
    async def warm_up() -> int:
        return 1

    @jobs.job("report")
    async def report(of: str) -> str:
        return of

    jobs.schedule("report", report.new("sales"), every=86_400, run_on_start=True)
    jobs.schedule("not at start", report.new("rest"), every=86_400)
    return jobs


async def made(jobs: AsyncJobs) -> list[tuple[str, str]]:
    found = (await jobs.admin.find()).jobs
    return sorted((str(one.created_by), one.status) for one in found)


async def test_one_job_of_each_when_a_runner_starts(dsn: str) -> None:
    jobs, recorder = make(dsn), Recorder()
    recorder.watch(jobs.events)
    async with jobs.runner():
        fired = await recorder.wait_for(ScheduleFired, lambda one: one.schedule == "report")
        assert await jobs.handle(fired.job_ids[0]).result(timeout=5) == "sales"
        await eventually(lambda: _are(jobs, ["schedule report", "schedule warm up"]), description="both ran")
        before = {one.name: one.last_tick_at for one in await jobs.admin.schedules()}
    async with jobs.runner():  # within a minute: the same deployment
        await asyncio.sleep(0.3)
        assert [name for name, _ in await made(jobs)] == ["schedule report", "schedule warm up"]
        assert {one.name: one.last_tick_at for one in await jobs.admin.schedules()} == before


async def _are(jobs: AsyncJobs, names: list[str]) -> bool:
    return await made(jobs) == [(name, "completed") for name in names]


async def test_a_later_start_makes_another_unless_the_last_is_not_done(dsn: str) -> None:
    jobs = make(dsn)
    async with jobs.runner():
        await eventually(lambda: _are(jobs, ["schedule report", "schedule warm up"]), description="both ran")
    connection = await asyncpg.connect(dsn)
    await connection.execute("UPDATE asyncjobs.jobs SET created_at = created_at - interval '2 minutes'")
    await connection.execute(
        "UPDATE asyncjobs.jobs SET status = 'paused', completed_at = NULL WHERE created_by = 'schedule warm up'"
    )
    await connection.close()
    async with jobs.runner():
        await eventually(lambda: _count(jobs, 3), description="one more")
        await asyncio.sleep(0.3)
        assert [name for name, _ in await made(jobs)] == ["schedule report", "schedule report", "schedule warm up"]


async def _count(jobs: AsyncJobs, count: int) -> bool:
    return len(await made(jobs)) == count


async def test_a_runner_that_stays_makes_no_other_after_the_minute(dsn: str) -> None:
    jobs = make(dsn, schedule_interval=0.1)
    async with jobs.runner():
        await eventually(lambda: _are(jobs, ["schedule report", "schedule warm up"]), description="both ran")
        connection = await asyncpg.connect(dsn)
        await connection.execute("UPDATE asyncjobs.jobs SET created_at = created_at - interval '2 minutes'")
        await connection.close()
        await asyncio.sleep(1)
        assert await _count(jobs, 2)


async def test_one_that_was_locked_when_the_runner_started_is_made_later_and_starts_at_once(dsn: str) -> None:
    jobs = make(dsn, notify="poll", poll_interval=60, schedule_interval=0.2)
    async with jobs.runner():
        await eventually(lambda: _are(jobs, ["schedule report", "schedule warm up"]), description="both ran")
    connection = await asyncpg.connect(dsn)
    await connection.execute("UPDATE asyncjobs.jobs SET created_at = created_at - interval '2 minutes'")
    lock = connection.transaction()
    await lock.start()
    await connection.execute("SELECT FROM asyncjobs.schedules WHERE name = 'report' FOR SHARE")
    async with jobs.runner():
        await eventually(lambda: _count(jobs, 3), description="the other is made")
        await asyncio.sleep(1)
        assert await _count(jobs, 3)
        await lock.commit()
        both = ["schedule report"] * 2 + ["schedule warm up"] * 2
        await eventually(lambda: _are(jobs, both), description="it ran")
    await connection.close()


REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no reports today'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON asyncjobs.jobs FOR EACH ROW WHEN (NEW.type = 'report') EXECUTE FUNCTION public.refuse()
"""


async def test_one_whose_job_the_database_refuses_is_disabled_with_the_reason(dsn: str) -> None:
    jobs = make(dsn)
    connection = await asyncpg.connect(dsn)
    await connection.execute(REFUSE)
    await connection.close()

    async def is_disabled() -> bool:
        reasons = {one.name: str(one.disabled_reason) for one in await jobs.admin.schedules() if not one.enabled}
        return reasons.keys() == {"report"} and "no reports today" in reasons["report"]

    async with jobs.runner():
        await eventually(is_disabled, description="it is disabled")
        await eventually(lambda: _are(jobs, ["schedule warm up"]), description="the other ran")


async def test_many_runners_that_start_together_make_one(dsn: str) -> None:
    fleet = [make(dsn) for _ in range(4)]

    async def start(jobs: AsyncJobs) -> None:
        async with jobs.runner():
            await asyncio.sleep(1)

    await asyncio.gather(*(start(jobs) for jobs in fleet))
    async with fleet[0] as jobs:
        assert [name for name, _ in await made(jobs)] == ["schedule report", "schedule warm up"]


async def test_one_that_an_operator_disabled_is_not_started(dsn: str) -> None:
    jobs = make(dsn)
    async with jobs.runner():
        await eventually(lambda: _are(jobs, ["schedule report", "schedule warm up"]), description="both ran")
        await jobs.admin.disable_schedule("report")
        await jobs.admin.delete_all(type="report")
        await jobs.admin.delete_all(type="warm up")
    async with jobs.runner():
        await eventually(lambda: _are(jobs, ["schedule warm up"]), description="the other ran")
        await jobs.admin.enable_schedule("report")
        await asyncio.sleep(0.3)
        assert [name for name, _ in await made(jobs)] == ["schedule warm up"]


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_what_is_no_flag_is_refused(value: Any) -> None:
    with pytest.raises(InvalidSchedule, match="run_on_start="):
        JobRouter().cron("a", "@daily", run_on_start=value)
