"""Schedules by the facade, in one process: who fires them, what operators see, and what they can do."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.errors import ScheduleNotFound
from asyncjobs.telemetry.events import Event, LeaseAcquired, ScheduleFired
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually

#: By when what comes at once has come, on a busy machine.
AT_ONCE_SECONDS = 2.5


@pytest.fixture
async def app(dsn: str, schema: str, notify: Any) -> AsyncGenerator[AsyncJobs]:
    jobs = AsyncJobs(dsn, schema=schema, notify=notify)

    @jobs.cron("nightly", "30 2 * * *", timezone="America/New_York", misfire="all", priority=7)
    async def nightly(region: str = "eu") -> str:
        return f"done for {region}"

    @jobs.job("report", serialize_by="report {of}")
    async def report(of: str) -> str:
        return of

    jobs.schedule("often", report.using(priority=3, dedup_key="report").new("sales"), every=timedelta(seconds=0.3))
    async with jobs.runner():
        yield jobs


@pytest.mark.matrix("loop", "notify", "schema")
async def test_operators_see_and_steer_schedules(app: AsyncJobs) -> None:
    nightly, often = await app.admin.schedules()
    assert (nightly.name, nightly.cron, nightly.timezone, nightly.misfire) == ("nightly", "30 2 * * *", "America/New_York", "all")
    assert nightly.next_tick_at is not None
    assert nightly.next_tick_at > nightly.last_tick_at
    assert (often.every, often.payload, often.serialization_key) == (timedelta(seconds=0.3), {"of": "sales"}, "report sales")
    assert (often.dedup_key, often.runners, often.enabled) == ("report", 1, True)

    made = await app.admin.run_schedule("nightly")
    assert await app.handle(made.id).result(timeout=10) == "done for eu"
    job = await app.get(made.id)
    assert job is not None
    assert (job.priority, job.created_by) == (7, "schedule nightly")
    assert (await app.admin.schedule("nightly")).last_job_id == made.id
    for verb in (app.admin.schedule, app.admin.enable_schedule, app.admin.disable_schedule, app.admin.run_schedule):
        with pytest.raises(
            ScheduleNotFound, match=r'^there is no schedule "nigthly" \(nightly, often\)\. Did you mean "nightly"'
        ):
            await verb("nigthly")


@pytest.mark.matrix("notify")
async def test_a_disabled_schedule_rests_until_it_is_enabled(app: AsyncJobs, recorder: Recorder) -> None:
    assert await app.admin.disable_schedule("often", reason="holidays")
    assert not await app.admin.disable_schedule("often")
    job_id = (await app.admin.schedule("often")).last_job_id
    scheduler = app.runners[0].parts.duties.scheduler
    for _ in range(3):
        scheduler.wake()
        await scheduler.wait_passed()
    state = await app.admin.schedule("often")
    assert (state.enabled, state.disabled_because, state.disabled_reason) == (False, "operator", "holidays")
    assert state.last_job_id == job_id
    assert await app.admin.enable_schedule("often")
    assert not await app.admin.enable_schedule("often")

    async def has_ticked() -> bool:
        return (await app.admin.schedule("often")).last_job_id != job_id

    await eventually(has_ticked, description="it ticks again")


# Who fires.


async def test_who_fires_is_shown(app: AsyncJobs) -> None:
    (runner,) = app.runners

    async def shown() -> bool:
        held = {lease.duty: lease for lease in await app.admin.leases()}
        return "cron" in held and held["cron"].runner_id == runner.id and held["cron"].last_pass_at is not None

    await eventually(shown, description="its lease says who, and that it works", timeout=10.0)
    (health,) = app.health().runners
    assert "cron" in health.leases
    assert health.schedules_age_seconds is not None
    assert health.schedules_age_seconds < 15


async def test_a_runner_without_schedules_does_not_hold_their_lease(dsn: str) -> None:
    without = AsyncJobs(dsn)
    async with without.runner() as runner:
        await eventually(lambda: len(runner.duties.leader.held()) == 5, description="it holds the others")
        assert [lease.duty for lease in await without.admin.leases()] == ["pauses", "prune", "rescue", "rollup", "sweep"]
        assert without.health().runners[0].leases == ["pauses", "prune", "rescue", "rollup", "sweep"]


class Side:
    """One app with a schedule, and what it fired."""

    def __init__(self, dsn: str, schema: str, notify: Any, **options: Any) -> None:
        self.fired: list[ScheduleFired] = []
        self.acquired: list[str] = []
        self.jobs = AsyncJobs(dsn, schema=schema, notify=notify, **options)
        self.jobs.events.subscribe(self._note)

        @self.jobs.job("tick")
        async def tick() -> None: ...

        self.jobs.schedule("often", tick.new(), every=0.2, misfire="all")

    def _note(self, event: Event) -> None:
        if isinstance(event, ScheduleFired):
            self.fired.append(event)
        elif isinstance(event, LeaseAcquired):
            self.acquired.append(event.duty)


@pytest.mark.matrix("notify")
async def test_ticks_are_on_time_when_their_lease_is_handed_over(dsn: str, schema: str, notify: Any) -> None:
    first, second = Side(dsn, schema, notify), Side(dsn, schema, notify)
    async with first.jobs.runner() as holder:
        await eventually(lambda: "cron" in first.acquired, description="the first holds it")
        async with second.jobs.runner() as heir:
            await eventually(lambda: heir.listening.mode != "probing", description="the second knows how it hears of things")
            before = len(second.fired)
            await eventually(lambda: len(first.fired) > 5, description="the first fires")
            await holder.stop()
            assert len(second.fired) == before, "what is the holder's is left to it"
            # A lease that was not handed over would expire after twice that time.
            await eventually(lambda: len(second.fired) > before + 5, description="the second fires", timeout=5.0)
            assert "cron" in second.acquired
    made = sorted(event.tick_at for event in (*first.fired, *second.fired))
    assert len(set(made)) == len(made)
