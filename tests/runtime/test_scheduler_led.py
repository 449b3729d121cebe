"""Who fires schedules when one runner does it for all: the holder at once, the others what the holder does not."""

import asyncio
from typing import Any

import pytest

from asyncjobs.model.lease import LeaseTimes
from asyncjobs.model.schedule import Misfire, Schedule
from asyncjobs.runtime.duties import Advisory, ByLease
from asyncjobs.runtime.leader import Leader
from asyncjobs.runtime.scheduler import LATE
from asyncjobs.store import schedules as store
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import Events, ScheduleFired
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually, patience
from tests.support.factories import insert
from tests.support.scheduling import Make, Setup, a_schedule, count

HOLDER = 9

pytestmark = pytest.mark.matrix("loop")


class Aside:
    """Runner 1, which is not the holder; runner 9 is, as the tables have it."""

    def __init__(self, make: Make, connection: Connection, database: Database) -> None:
        self.connection = connection
        self._make = make
        self._database = database

    def make(self, *schedules: Schedule, **options: Any) -> Setup:
        setup: Setup = self._make(*schedules, **options)
        leader = Leader(["cron"], LeaseTimes(), events=Events(), fresh_seconds=5.0)
        setup.scheduler.strategy, setup.scheduler.leader = ByLease(leader), leader
        return setup

    async def hold(self, *declared: Schedule, runner_id: int | None = HOLDER) -> None:
        """The holder's row, and what it declares."""
        await insert(
            self.connection, "background_job_leases", job_name="cron", held_by_worker_id=str(runner_id or "none"), token=5
        )
        link = self._database.link("holder")
        await store.declare(link, HOLDER, declared)
        await link.close()

    async def owe(self, seconds: float, name: str = "s") -> None:
        """Let the next tick, an hour after the last one, be so late."""
        await self.connection.execute(
            "UPDATE asyncjobs.schedules SET last_tick = now() - interval '1 hour' - make_interval(secs => $2) WHERE name = $1",
            name, seconds,
        )  # fmt: skip


@pytest.fixture
def aside(make_scheduler: Make, connection: Connection, database: Database) -> Aside:
    return Aside(make_scheduler, connection, database)


async def test_a_tick_is_left_to_the_holder(aside: Aside, connection: Connection) -> None:
    await aside.hold(a_schedule())
    setup = aside.make(a_schedule())
    async with setup.running():
        await aside.owe(0.5)
        await setup.look()
    assert await count(connection) == 0


async def test_a_tick_that_the_holder_lets_pass_is_not_lost(aside: Aside, connection: Connection, recorder: Recorder) -> None:
    await aside.hold(a_schedule())
    setup = aside.make(a_schedule())
    async with setup.running():
        await aside.owe(LATE.total_seconds() + 0.5)
        await setup.look()
    assert await count(connection) == 1
    assert recorder.of(ScheduleFired)[0].late_seconds >= LATE.total_seconds()


async def test_ticks_of_a_holder_that_died_are_seen_to_however_often_they_come(aside: Aside, recorder: Recorder) -> None:
    misfires: tuple[Misfire, ...] = ("one", "all", "skip")
    often = [a_schedule(misfire, every=0.5, misfire=misfire) for misfire in misfires]
    await aside.hold(*often)

    def fired() -> set[str]:
        return {event.schedule for event in recorder.of(ScheduleFired)}

    async with aside.make(*often, interval_seconds=0.2).running():
        await eventually(lambda: fired() == set(misfires), description="a job of each", timeout=10.0)


@pytest.mark.parametrize("declared", [[], [a_schedule(priority=5)], [a_schedule("another")]])
async def test_what_the_holder_would_not_fire_is_fired_on_time(
    aside: Aside, connection: Connection, recorder: Recorder, declared: list[Schedule]
) -> None:
    setup = aside.make(a_schedule(every=0.2), a_schedule("t"))
    async with setup.running():
        await aside.hold(*declared)
        if declared:
            await connection.execute(
                "UPDATE asyncjobs.schedules SET definition = d.definition FROM "
                "asyncjobs.schedule_declarations AS d WHERE d.runner_id = 1 AND d.name = schedules.name"
            )
        await setup.look()
        before = len(recorder.of(ScheduleFired))
        await eventually(lambda: len(recorder.of(ScheduleFired)) >= before + 3, description="three ticks")


async def test_everybody_fires_while_nobody_holds_the_lease(aside: Aside, recorder: Recorder) -> None:
    await aside.hold(runner_id=None)
    async with aside.make(a_schedule(every=0.2)).running():
        await eventually(lambda: len(recorder.of(ScheduleFired)) >= 3, description="three ticks")


async def test_everybody_fires_when_the_holders_row_is_gone(aside: Aside, connection: Connection, recorder: Recorder) -> None:
    await aside.hold(a_schedule(every=0.2))
    setup = aside.make(a_schedule(every=0.2))
    async with setup.running():
        assert recorder.of(ScheduleFired) == []
        await connection.execute("DELETE FROM asyncjobs.runners WHERE id = $1", HOLDER)
        await setup.look()
        await eventually(lambda: len(recorder.of(ScheduleFired)) >= 3, description="three ticks")


async def test_a_runner_that_is_not_the_holder_asks_once_per_interval_whatever_the_ticks(aside: Aside) -> None:
    await aside.hold(a_schedule(every=0.1))
    async with aside.make(a_schedule(every=0.1)).running() as scheduler:
        await asyncio.sleep(0.5)
        assert scheduler.passes == 1


async def test_a_hand_over_is_followed_by_a_look_within_a_second(aside: Aside) -> None:
    await aside.hold(a_schedule())
    async with aside.make(a_schedule()).running() as scheduler:
        scheduler.handed_over()
        async with patience(5):
            await scheduler.wait_passed()


async def test_under_an_advisory_lock_ticks_are_left_to_whoever_has_it(
    make_scheduler: Make, database: Database, connection: Connection
) -> None:
    locked, free = Advisory(database), Advisory(database)
    assert await locked.begin("cron") is not None
    setup = make_scheduler(a_schedule(every=0.2))
    setup.scheduler.strategy = free
    async with setup.running():
        await setup.look()
        assert await count(connection) == 0
        await connection.execute("UPDATE asyncjobs.schedules SET last_tick = last_tick - interval '3 seconds'")
        await setup.look()
        assert await count(connection) == 1
    await locked.close()
    await free.close()
