"""What a runner does with schedules: it declares them, fires what is due, and leaves one bad row alone."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from asyncjobs.model.schedule import Misfire, Overlap, Schedule, Timing
from asyncjobs.model.symptom import diagnose
from asyncjobs.store import doctoring, overview
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import (
    ScheduleDiffers,
    ScheduleDisabled,
    ScheduleFired,
    ScheduleReanchored,
    ScheduleRecovered,
    SchedulesDeclared,
    ScheduleTicksSkipped,
    ServicePassFailed,
)
from asyncjobs.testing import MovableClock, Recorder
from tests.support.eventually import eventually, patience
from tests.support.factories import a_row
from tests.support.scheduling import Make, Setup, a_schedule, count

HOUR = timedelta(hours=1)


@pytest.fixture
def make(make_scheduler: Make) -> Make:
    return make_scheduler


async def test_a_tick_makes_a_job_and_wakes_its_queue(make: Make, connection: Connection, recorder: Recorder) -> None:
    setup = make(a_schedule(every=0.2, queue="mail", priority=1))
    async with setup.running(), patience(10):
        await eventually(lambda: len(recorder.of(ScheduleFired)) >= 2, description="two ticks")
    assert setup.woken.queues[:2] == [("mail", True)] * 2
    assert setup.notified[:2] == ["f1:mail"] * 2
    fired = recorder.of(ScheduleFired)
    assert fired[1].tick_at > fired[0].tick_at
    rows = await connection.fetch("SELECT id FROM asyncjobs.jobs ORDER BY id")
    assert [row["id"] for row in rows] == [job_id for event in fired for job_id in event.job_ids]


async def test_eight_runners_make_one_job_of_each_tick(make: Make, connection: Connection, recorder: Recorder) -> None:
    schedule = a_schedule(every=0.1, misfire="all")
    setups = [make(schedule, runner_id=number) for number in range(1, 9)]
    async with AsyncExitStack() as stack:
        for setup in setups:
            await stack.enter_async_context(setup.running())
        async with patience(60):
            while await count(connection) < 60:
                await asyncio.sleep(0.2)
    ticks = [
        row["scheduled_at"] for row in await connection.fetch("SELECT scheduled_at FROM asyncjobs.jobs ORDER BY scheduled_at")
    ]
    step = timedelta(seconds=0.1)
    assert ticks == [ticks[0] + step * number for number in range(len(ticks))]
    assert recorder.of(ServicePassFailed) == []


class Step(NamedTuple):
    """What a step of the server's clock brings, after a first tick."""

    misfire: Misfire
    overlap: Overlap
    hours: float
    jobs: int
    is_skipping: bool  # some ticks are reported as skipped


STEPS = [
    Step("one", "allow", 3.5, 1, True),
    Step("skip", "allow", 3.5, 0, True),
    Step("skip", "allow", 3.0, 1, True),
    Step("all", "allow", 3.5, 3, False),
    Step("all", "skip", 3.5, 0, True),
    Step("all", "queue", 3.5, 0, True),
    Step("one", "allow", 1.0, 1, False),
    Step("one", "allow", -1.0, 0, False),
    Step("all", "allow", -1.0, 0, False),
    Step("skip", "allow", -1.0, 0, False),
]


@pytest.mark.parametrize("step", STEPS)
async def test_the_servers_clock_steps(
    make: Make, database: Database, connection: Connection, recorder: Recorder, *, step: Step
) -> None:
    key = "s" if step.overlap == "queue" else None
    setup = make(a_schedule(misfire=step.misfire, overlap=step.overlap, serialization_key=key))
    async with MovableClock(database) as clock, setup.running():
        await clock.advance(HOUR)
        await setup.look()
        assert await count(connection) == 1
        await clock.advance(HOUR * step.hours)
        await setup.look()
        await setup.look()
        assert await count(connection) == 1 + step.jobs
        assert bool(recorder.of(ScheduleTicksSkipped)) == step.is_skipping


async def test_a_clock_put_back_makes_no_tick_twice_and_loses_none(
    make: Make, database: Database, connection: Connection
) -> None:
    setup = make(a_schedule(every=600.0, misfire="all"))
    async with MovableClock(database) as clock, setup.running():
        await clock.advance(HOUR + timedelta(seconds=30))
        await setup.look()
        assert await count(connection) == 6
        await clock.advance(-HOUR)
        for _ in range(12):  # an hour goes by again, and then another
            await clock.advance(timedelta(seconds=600))
            await setup.look()
        ticks = [row["scheduled_at"] for row in await connection.fetch("SELECT scheduled_at FROM asyncjobs.jobs ORDER BY 1")]
    assert [after - before for before, after in pairwise(ticks)] == [timedelta(seconds=600)] * 11


class Jumps(NamedTuple):
    """How the server's clock is moved, in hours, and how many jobs there are after each move."""

    misfire: Misfire
    hours: list[float]
    jobs: list[int]
    reanchored: int


JUMPS = {
    "far ahead and back": Jumps("one", [1, 2400.5, -2400.5, 1, 1], [1, 2, 2, 3, 4], 1),
    "missed ticks are skipped": Jumps("skip", [1, 2400.5, -2400.5, 1, 1], [1, 1, 1, 2, 3], 1),
    "to ticks that had their turn again": Jumps("one", [1, 3.5, -3.5, 1, 1, 1, 1, 1], [1, 2, 2, 3, 4, 4, 5, 6], 1),
    "all ticks had their turn": Jumps("all", [1, 3.5, -3.5, 1, 1, 1, 1, 1], [1, 4, 4, 4, 4, 4, 5, 6], 0),
    "more than are made up for": Jumps("all", [1, 2400.5, -2400.5, 1, 1], [1, 1001, 1001, 1002, 1003], 1),
    "twice": Jumps("one", [1, 2400.5, -2400.5, 1, 48.5, -48.5, 1, 1], [1, 2, 2, 3, 4, 4, 5, 6], 2),
    "an hour back": Jumps("one", [1, 0.9, -1, 1, 0.5], [1, 1, 1, 1, 2], 0),
    "ahead by a single tick": Jumps("one", [1, 1.2, -1.2, 1, 1], [1, 2, 2, 2, 3], 0),
    "and ahead again for good": Jumps("one", [1, 10.5, -10.5, 1, 10, 1], [1, 2, 2, 3, 4, 5], 1),
}


@pytest.mark.parametrize("jumps", JUMPS.values(), ids=JUMPS)
async def test_no_schedule_rests_because_the_clock_was_wrong_and_no_tick_comes_twice(
    make: Make, database: Database, connection: Connection, recorder: Recorder, *, jumps: Jumps
) -> None:
    cron = Schedule(name="c", timing=Timing(cron="0 * * * *"), misfire=jumps.misfire, overlap="allow", row=a_row("email"))
    setup, made = make(cron), list[int]()
    async with MovableClock(database) as clock:
        await clock.set(datetime(2027, 1, 1, 9, 0, 5, tzinfo=UTC))
        async with setup.running():
            for hours in jumps.hours:
                await clock.advance(HOUR * hours)
                await setup.look()
                made.append(await count(connection))
    assert made == jumps.jobs
    ticks = [row["scheduled_at"] for row in await connection.fetch("SELECT scheduled_at FROM asyncjobs.jobs")]
    assert len(set(ticks)) == len(ticks)
    assert len(recorder.of(ScheduleReanchored)) == jumps.reanchored


async def test_of_runners_that_find_the_clock_put_back_one_lets_a_schedule_begin_anew(
    make: Make, database: Database, connection: Connection, recorder: Recorder
) -> None:
    setups = [make(a_schedule(), runner_id=number) for number in range(1, 5)]
    async with MovableClock(database) as clock, AsyncExitStack() as stack:
        for setup in setups:
            await stack.enter_async_context(setup.running())
        await clock.advance(HOUR * 100.5)
        await asyncio.gather(*(setup.look() for setup in setups))
        await clock.advance(HOUR * -100.5)
        await asyncio.gather(*(setup.look() for setup in setups))
        assert len(recorder.of(ScheduleReanchored)) == 1
        await clock.advance(HOUR * 1.1)
        await asyncio.gather(*(setup.look() for setup in setups))
        assert await count(connection) == 2


async def test_a_schedule_that_was_added_in_the_past_does_not_make_up_for_the_time_before(
    make: Make, database: Database, connection: Connection
) -> None:
    cron = Schedule(name="c", timing=Timing(cron="* * * * *"), misfire="all", overlap="allow", row=a_row("email"))
    setup = make(cron, a_schedule(misfire="all"))
    async with setup.running():
        await setup.look()
        assert await count(connection) <= 1  # a minute may begin meanwhile


async def test_one_bad_row_disables_itself_and_the_others_tick(make: Make, connection: Connection, recorder: Recorder) -> None:
    await connection.execute("ALTER TABLE asyncjobs.jobs ADD CONSTRAINT not_bad CHECK (type <> 'bad')")
    bad = Schedule(name="a", timing=Timing(every=0.2), misfire="one", overlap="allow", row=a_row("bad"))
    nowhere = Timing(cron="* * * * *", timezone="Europe/Atlantis")  # known where it was declared, not on this host
    lost = Schedule(name="b", timing=nowhere, misfire="one", overlap="allow", row=a_row("email"))
    setup = make(bad, lost, a_schedule("c", every=0.2))
    async with setup.running(), patience(10):
        await eventually(lambda: len(recorder.of(ScheduleFired)) >= 3, description="three ticks of the good one")
        await eventually(lambda: len(recorder.of(ScheduleDisabled)) == 2, description="both bad ones are disabled")
    reasons = {event.schedule: event.reason for event in recorder.of(ScheduleDisabled)}
    assert "not_bad" in reasons["a"]
    assert "Europe/Atlantis" in reasons["b"]
    rows = await connection.fetch(
        "SELECT name, enabled, disabled_because, disabled_reason FROM asyncjobs.schedules ORDER BY name"
    )
    assert [tuple(row) for row in rows] == [
        ("a", False, "failed", reasons["a"]),
        ("b", False, "failed", reasons["b"]),
        ("c", True, None, None),
    ]


async def _failed_by_the_doctor(database: Database) -> list[tuple[str, str]]:
    """The schedules that the doctor tells of, as many as the metric has."""
    seen = await doctoring.signs(database, silent_after=30.0)
    told = [one for one in diagnose(seen) if one.what == "a schedule makes no jobs"]
    link = database.link("sampler")
    sampled = await overview.sample(link)
    await link.close()
    assert len(told) == len(seen.failed_schedules) == sampled.failed_schedules
    assert all("not_bad" in one.evidence for one in told)
    return list(seen.failed_schedules)


async def test_schedule_that_failed_ticks_again_when_the_cause_is_gone(
    make: Make, database: Database, connection: Connection, recorder: Recorder
) -> None:
    await connection.execute("ALTER TABLE asyncjobs.jobs ADD CONSTRAINT not_bad CHECK (type <> 'bad')")
    bad = Schedule(name="a", timing=Timing(every=0.2), misfire="one", overlap="allow", row=a_row("bad"))
    setup = make(bad, interval_seconds=0.3)
    async with setup.running(), patience(20):
        await recorder.wait_for(ScheduleDisabled)
        await setup.look()
        await setup.look()
        assert len(recorder.of(ScheduleDisabled)) == 1  # told once, tried again and again
        assert setup.scheduler.failed == {"a"}
        assert [name for name, _ in await _failed_by_the_doctor(database)] == ["a"]
        await connection.execute("ALTER TABLE asyncjobs.jobs DROP CONSTRAINT not_bad")
        await recorder.wait_for(ScheduleRecovered)
        await recorder.wait_for(ScheduleFired)
        assert setup.scheduler.failed == frozenset()
        assert await _failed_by_the_doctor(database) == []
    row = await connection.fetchrow("SELECT enabled, disabled_because, disabled_reason FROM asyncjobs.schedules")
    assert tuple(row or ()) == (True, None, None)


async def test_schedule_that_an_operator_disabled_is_not_tried(make: Make, connection: Connection) -> None:
    setup = make(a_schedule("a", every=0.2), interval_seconds=0.3)
    async with setup.running(), patience(20):
        await connection.execute("UPDATE asyncjobs.schedules SET enabled = false, disabled_because = 'operator'")
        await setup.look()
        before = await count(connection)
        await setup.look()
        await setup.look()
        assert await count(connection) == before


@pytest.mark.parametrize(
    "broken", ["last_tick = 'infinity'", "last_tick = '-infinity'", "definition = '{}'", "definition = '[]'"]
)
async def test_a_row_that_somebody_broke_stops_no_other(
    make: Make, connection: Connection, recorder: Recorder, broken: str
) -> None:
    setup = make(a_schedule("a", every=0.2), a_schedule("b", every=0.2), interval_seconds=0.5)
    async with setup.running(), patience(10):
        await connection.execute(f"UPDATE asyncjobs.schedules SET {broken} WHERE name = 'a'")
        before = len(recorder.of(ScheduleFired))
        await eventually(
            lambda: sum(event.schedule == "b" for event in recorder.of(ScheduleFired)[before:]) >= 3,
            description="the other one ticks",
        )
    assert recorder.of(ServicePassFailed) == []


async def test_a_key_that_a_stranger_holds_delays_its_schedule_only(
    make: Make, connection: Connection, recorder: Recorder
) -> None:
    setup = make(a_schedule("a", every=0.2, serialization_key="k"), a_schedule("b", every=0.2))

    def fired(name: str) -> int:
        return sum(event.schedule == name for event in recorder.of(ScheduleFired))

    async with patience(30):
        async with connection.transaction():
            await connection.execute("SELECT asyncjobs.lock_keys(ARRAY['k'])")
            async with setup.running():
                await eventually(lambda: fired("b") >= 2, description="the other one ticks", timeout=15)
        assert fired("a") == 0
        async with Setup(setup.pool._free[0].database, 1, a_schedule("a", every=0.2, serialization_key="k")).running():
            await eventually(lambda: fired("a") >= 1, description="it ticks when the key is free", timeout=15)
    assert recorder.of(ServicePassFailed) == []


async def test_a_row_that_an_operator_holds_delays_no_tick_longer_than_that(
    make: Make, connection: Connection, recorder: Recorder
) -> None:
    setup = make(a_schedule(every=3600.0), a_schedule("t", every=0.2))
    async with setup.running(), patience(10):
        async with connection.transaction():
            await connection.execute("UPDATE asyncjobs.schedules SET last_tick = now() - interval '1 hour' WHERE name = 's'")
        async with connection.transaction():
            await connection.execute("SELECT FROM asyncjobs.schedules WHERE name = 's' FOR UPDATE")
            await setup.look()
            before = len(recorder.of(ScheduleFired))
            await eventually(lambda: len(recorder.of(ScheduleFired)) > before, description="the other one ticks")
        await eventually(lambda: any(event.schedule == "s" for event in recorder.of(ScheduleFired)), description="it ticks")


async def test_a_program_that_differs_says_so_once_and_fires_nothing(
    make: Make, connection: Connection, recorder: Recorder
) -> None:
    old = make(a_schedule(every=0.2, max_attempts=7), interval_seconds=0.2)
    new = make(a_schedule(every=0.2, max_attempts=8), runner_id=2, interval_seconds=0.2)
    async with old.running(), new.running(), patience(10):
        await connection.execute("TRUNCATE asyncjobs.jobs")
        await eventually(lambda: len(recorder.of(ScheduleDiffers)) == 1, description="the old one notices")
        before = old.scheduler.passes
        await eventually(lambda: old.scheduler.passes > before + 5, description="it goes on looking")
        rows = await connection.fetch("SELECT DISTINCT max_attempts FROM asyncjobs.jobs")
    assert [row["max_attempts"] for row in rows] == [8]
    assert len(recorder.of(ScheduleDiffers)) == 1


async def test_a_runner_that_registered_anew_declares_under_its_new_id(
    make: Make, connection: Connection, recorder: Recorder
) -> None:
    setup = make(a_schedule(every=0.2))
    async with setup.running(), patience(10):
        await connection.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
        setup.runner_id = 2
        await setup.look()
        before = len(recorder.of(ScheduleFired))
        await eventually(lambda: len(recorder.of(ScheduleFired)) > before, description="it ticks on")
    assert await connection.fetchval("SELECT array_agg(runner_id) FROM asyncjobs.schedule_declarations") == [2]
    assert [event.added for event in recorder.of(SchedulesDeclared)] == [["s"]]


async def test_nothing_to_do_is_one_statement(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = make(a_schedule())
    async with setup.running():
        fetched: list[str] = []
        [link] = setup.pool._free
        original = link.fetch

        async def fetch(name: str, *args: Any, **options: Any) -> Any:
            fetched.append(name)
            return await original(name, *args, **options)

        monkeypatch.setattr(link, "fetch", fetch)
        await setup.look()
    assert fetched == ["look_at_schedules"]
