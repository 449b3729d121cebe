import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs
from asyncjobs.runtime.machine import machine
from asyncjobs.runtime.rescuer import Rescuer
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import runners
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import Events, JobsRescued, RowRefused, RunnerDied, ServicePassFailed
from asyncjobs.testing import MovableClock, Proxy, Recorder
from tests.support.eventually import eventually, patience
from tests.support.factories import insert, insert_job, insert_runner
from tests.support.poison import When, heal, poison
from tests.support.services import Woken, running


class Setup:
    """A rescuer with a clock of its own, whom it wakes here, and what it notifies to others."""

    def __init__(self, database: Database, **options: Any) -> None:
        self.now = 1000.0
        self.notified: list[str] = []
        self.woken = Woken()
        wakes = Wakes(self.notified.append)
        wakes.add(self.woken)
        self.link = database.link("duties", command_timeout=0.5)
        defaults: dict[str, Any] = {"interval_seconds": 5.0, "runner_timeout_seconds": 30.0, "clock": lambda: self.now}
        self.rescuer = Rescuer(self.link, wakes, events=Events(), **(defaults | options))

    async def look(self, *, after: float = 5.0) -> None:
        """One pass, so many seconds after the last."""
        self.now += after
        await self.rescuer.pass_()

    async def observe(self, seconds: float) -> None:
        """Passes every 5 s, over so many seconds."""
        for _ in range(int(seconds / 5)):
            await self.look()


Make = Callable[..., Setup]


@pytest.fixture
async def make(database: Database, recorder: Recorder) -> AsyncGenerator[Make]:
    made: list[Setup] = []

    def make(where: Database = database, **options: Any) -> Setup:
        made.append(Setup(where, **options))
        return made[-1]

    yield make
    for setup in made:
        await setup.link.close()


@asynccontextmanager
async def fetches(setup: Setup) -> AsyncGenerator[list[str]]:
    """The names of the statements, in order."""
    names: list[str] = []
    original = setup.link.fetch

    async def fetch(name: str, *args: Any, **options: Any) -> Any:
        names.append(name)
        return await original(name, *args, **options)

    setup.link.fetch = fetch  # type: ignore[method-assign]
    yield names


async def status(connection: Connection, job_id: int) -> str:
    return str(await connection.fetchval("SELECT status FROM asyncjobs.jobs WHERE id = $1", job_id))


async def alive(connection: Connection) -> list[int]:
    return [row["id"] for row in await connection.fetch("SELECT id FROM asyncjobs.runners ORDER BY id")]


async def test_suspects_are_told_of_to_all_since_each_runner_takes_one(make: Make, connection: Connection) -> None:
    for queue, losses in (("mail", 0), ("mail", 0), ("default", 1), ("default", 1)):
        await insert_job(connection, status="processing", runner_id=9, queue=queue, losses=losses)
    setup = make()
    await setup.look()
    assert sorted(setup.notified) == ["f2:mail", "f:default"]


async def test_silent_runner_is_buried_and_its_jobs_run_elsewhere(make: Make, connection: Connection, recorder: Recorder) -> None:
    await insert_runner(connection, id=9)
    job_id = await insert_job(connection, status="processing", runner_id=9, queue="mail")
    setup = make()
    await setup.look()
    await setup.observe(25)
    assert await status(connection, job_id) == "processing"
    await setup.look()
    assert await status(connection, job_id) == "pending"
    assert await alive(connection) == []
    assert await connection.fetchval("SELECT died_at IS NOT NULL FROM asyncjobs.former_runners WHERE id = 9")
    assert [(event.runner_id, event.unchanged_seconds) for event in recorder.of(RunnerDied)] == [(9, 30.0)]
    assert [event.job_ids for event in recorder.of(JobsRescued)] == [[job_id]]
    assert setup.woken.queues == [("mail", True)], "a suspect that was cleared has an old place"
    assert setup.notified == ["f1:mail"]


async def test_beating_runner_is_never_buried(make: Make, connection: Connection) -> None:
    await insert_runner(connection, id=9)
    setup = make()
    for _ in range(20):
        await setup.look()
        await connection.execute("UPDATE asyncjobs.runners SET beat = beat + 1")
    assert await alive(connection) == [9]


async def test_step_of_the_servers_clock_kills_nobody(make: Make, connection: Connection, database: Database) -> None:
    for id in range(1, 21):
        await insert_runner(connection, id=id)
    setup = make()
    async with MovableClock(database) as clock:
        await setup.look()
        await clock.advance(3600)
        await setup.look()
        await clock.advance(-7200)
        await setup.look()
    assert len(await alive(connection)) == 20


async def test_age_on_the_server_alone_kills_nobody(make: Make, connection: Connection) -> None:
    for id in range(1, 21):
        await insert_runner(connection, id=id)
    await connection.execute("UPDATE asyncjobs.runners SET beat_at = now() - interval '1 day'")
    setup = make()
    await setup.look()
    await setup.look()
    assert len(await alive(connection)) == 20


async def test_outage_of_the_database_kills_nobody(make: Make, connection: Connection, dsn: str, recorder: Recorder) -> None:
    await insert_runner(connection, id=9)
    async with Proxy(dsn) as proxy:
        setup = make(Database(proxy.dsn))
        await setup.look()
        await setup.observe(25)
        proxy.refuse()
        proxy.reset()
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await setup.look()
        proxy.heal()
        await setup.look()
        await setup.observe(25)
        assert await alive(connection) == [9]
        await setup.look()
        assert await alive(connection) == []
        await setup.link.close()


async def test_rescuer_that_slept_kills_nobody(make: Make, connection: Connection) -> None:
    await insert_runner(connection, id=9)
    setup = make()
    await setup.look()
    await setup.look(after=3600.0)
    await setup.look()
    assert await alive(connection) == [9]


async def test_nothing_to_do_is_one_statement(make: Make, connection: Connection) -> None:
    await insert_runner(connection, id=9)
    setup = make()
    async with fetches(setup) as names:
        await setup.look()
        await setup.look()
    assert names == ["look_at_runners", "look_at_runners"]


async def test_runner_that_is_alone_looks_at_every_third_pass(make: Make, connection: Connection) -> None:
    await insert_runner(connection, id=1)
    setup = make(is_only_runner=lambda: True)
    async with fetches(setup) as names:
        await setup.observe(30)
    assert names == ["look_at_runners"] * 2


async def test_runner_that_is_not_alone_any_more_looks_at_once(make: Make, connection: Connection) -> None:
    alone = True
    await insert_runner(connection, id=1)
    setup = make(is_only_runner=lambda: alone)
    await setup.look()
    async with fetches(setup) as names:
        alone = False
        await setup.look()
        alone = True  # and looks once more, for what the other may have left
        await setup.look()
        await setup.look()
    assert names == ["look_at_runners"] * 2


async def test_runner_that_is_alone_looks_again_at_once_while_there_was_something(make: Make, connection: Connection) -> None:
    await insert_runner(connection, id=1)
    await insert_job(connection, status="processing", runner_id=9)
    setup = make(is_only_runner=lambda: True)
    async with fetches(setup) as names:
        await setup.observe(15)
    assert names == ["look_at_runners", "rescue", "look_at_runners"]


async def test_jobs_are_taken_back_in_a_statement_after_the_one_that_buries(make: Make, connection: Connection) -> None:
    await insert_runner(connection, id=9)
    setup = make()
    await setup.look()
    await setup.observe(25)
    async with fetches(setup) as names:
        await setup.look()
    assert names == ["look_at_runners", "bury_runners", "rescue"]


async def test_claim_that_commits_while_its_runner_is_being_buried_is_taken_back(make: Make, connection: Connection) -> None:
    """The claim began before the burial and holds the runner's row; it commits after the rescuer looked."""
    await insert_runner(connection, id=9)
    job_id = await insert_job(connection)
    setup = make()
    await setup.look()
    await setup.observe(25)
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.runners WHERE id = 9 FOR KEY SHARE")
        await connection.execute(
            "UPDATE asyncjobs.jobs SET status = 'processing', runner_id = 9, claim_token = 1, started_at = now(), attempts = 1"
        )
        async with patience(2):
            await setup.look()
    await setup.look()
    assert await alive(connection) == []
    assert await status(connection, job_id) == "pending"


async def test_orphans_that_a_rescuer_left_when_it_died_are_found_by_the_next(make: Make, connection: Connection) -> None:
    await insert_runner(connection, id=9)
    job_id = await insert_job(connection, status="processing", runner_id=9)
    dying = make()
    assert await runners.bury(dying.link, {9: 0}) == {9: True}
    await make().look()
    assert await status(connection, job_id) == "pending"


async def test_runner_that_left_with_jobs_unfinished_leaves_orphans(make: Make, connection: Connection) -> None:
    await insert_runner(connection, id=9)
    job_id = await insert_job(connection, status="processing", runner_id=9)
    setup = make()
    await setup.look()
    await runners.leave(setup.link, 9)
    await setup.look()
    assert await status(connection, job_id) == "pending"


async def test_many_orphans_are_taken_back_without_pause(make: Make, connection: Connection) -> None:
    for token in range(25):
        await insert_job(connection, status="processing", runner_id=9, claim_token=token)
    setup = make(interval_seconds=3600.0, batch=10)
    async with running(setup.rescuer):
        await eventually(lambda: none_processing(connection), description="all of them", timeout=2.0)


async def none_processing(connection: Connection) -> bool:
    return not await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'processing'")


async def test_of_two_rescuers_one_buries_and_both_stay_calm(make: Make, connection: Connection, recorder: Recorder) -> None:
    await insert_runner(connection, id=9)
    job_ids = [await insert_job(connection, status="processing", runner_id=9, claim_token=n) for n in range(10)]
    first, second = make(), make()
    for setup in (first, second):
        await setup.look()
        await setup.observe(25)
    await asyncio.gather(first.look(), second.look())
    await asyncio.gather(first.look(), second.look())
    assert len(recorder.of(RunnerDied)) == 1
    assert sorted(id for event in recorder.of(JobsRescued) for id in event.job_ids) == job_ids


async def test_real_clock_finds_a_dead_runner(database: Database, connection: Connection, recorder: Recorder) -> None:
    await insert_runner(connection, id=9)
    job_id = await insert_job(connection, status="processing", runner_id=9)
    link = database.link("duties")
    rescuer = Rescuer(link, Wakes(lambda _: None), events=Events(), interval_seconds=0.05, runner_timeout_seconds=0.4)
    async with running(rescuer):
        died = await recorder.wait_for(RunnerDied)
        await recorder.wait_for(JobsRescued)
    assert died.unchanged_seconds >= 0.4
    assert await status(connection, job_id) == "pending"
    assert not recorder.of(ServicePassFailed)
    await link.close()


# A process that is gone from this machine.


async def gone() -> int:
    """The number of a process that was."""
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    return process.pid


async def test_runner_whose_process_is_gone_here_is_dead_at_the_first_look(
    make: Make, connection: Connection, recorder: Recorder
) -> None:
    del recorder
    await insert_runner(connection, id=9, machine=machine(), pid=await gone(), session=await gone())
    await insert_runner(connection, id=5, machine=machine(), pid=await gone(), session=connection.get_server_pid())
    await insert_runner(connection, id=8, machine=machine(), pid=os.getpid())
    await insert_runner(connection, id=7, machine="another boot pid:[1]", pid=await gone())
    await insert_runner(connection, id=6, pid=await gone())
    job_id = await insert_job(connection, status="processing", runner_id=9)
    await make().look()
    assert await alive(connection) == [5, 6, 7, 8], "5 is of a machine that was started from the same memory image, and beats"
    assert await status(connection, job_id) == "pending"


async def test_whoever_is_there_tells_that_a_process_is_gone_and_the_one_whose_turn_it_is_takes_its_jobs_back(
    make: Make, connection: Connection
) -> None:
    await insert_runner(connection, id=9, machine=machine(), pid=await gone(), session=await gone())
    job_id = await insert_job(connection, status="processing", runner_id=9)
    observer = make()
    await insert(connection, "background_job_leases", job_name="rescue", held_by_worker_id="9")
    await insert(connection, "background_job_leases", job_name="prune", held_by_worker_id="8")
    await observer.rescuer.aside()
    assert await alive(connection) == []
    holders = await connection.fetch("SELECT held_by_worker_id FROM asyncjobs.background_job_leases ORDER BY job_name")
    assert [row["held_by_worker_id"] for row in holders] == ["8", "none"], "nobody waits for the leases of the dead one to expire"
    assert await status(connection, job_id) == "processing"
    await make().look()
    assert await status(connection, job_id) == "pending"


async def test_runner_that_only_lost_its_sessions_is_not_dead_and_people_are_told(
    make: Make, connection: Connection, dsn: str
) -> None:
    long_ago = await connection.fetchval("SELECT now() - interval '6 seconds'")
    theirs = await asyncpg.connect(dsn)
    session = theirs.get_server_pid()
    await insert_runner(connection, id=9, beat_at=long_ago, session=session)
    setup = make()
    async with AsyncJobs(dsn) as jobs:
        assert "a runner may be gone" not in [one.what for one in await jobs.admin.worries()]
        await theirs.close()

        async def is_told() -> bool:
            return "a runner may be gone" in [one.what for one in await jobs.admin.worries()]

        await eventually(is_told, description="people are told")
        assert [one.is_cut_off for one in await jobs.admin.runners(former=0)] == [True]
    await setup.observe(25)
    assert await alive(connection) == [9]
    await setup.observe(10)
    assert await alive(connection) == []


@pytest.mark.direct("a pooler's session is nobody's in particular")
async def test_beat_says_which_session_it_came_by(database: Database, connection: Connection) -> None:
    link = database.link("test")
    await insert_runner(connection, id=9)
    await runners.beat(link, 9)
    session = await connection.fetchval("SELECT session FROM asyncjobs.runners")
    assert session == (await link.connection()).get_server_pid()
    await link.close()


@pytest.mark.unaudited("a row that cannot be written")
@pytest.mark.parametrize("when", ["at once", "at the commit"])
async def test_rows_that_can_not_be_written_keep_no_other_from_its_rescue(
    make: Make, connection: Connection, recorder: Recorder, when: When
) -> None:
    dead = [await insert_job(connection, status="processing", runner_id=9) for _ in range(25)]
    ended = [await insert_job(connection, status="completed", runner_id=9, claim_token=1) for _ in range(3)]
    await poison(connection, dead[0], dead[12], ended[0], when=when)
    await insert_runner(connection, id=1)
    setup = make(batch=10)
    for _ in range(12):
        await setup.look()
    left = await connection.fetch("SELECT id FROM asyncjobs.jobs WHERE runner_id = 9 ORDER BY id")
    assert [row["id"] for row in left] == sorted([dead[0], dead[12], ended[0]])
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'pending'") == 23
    told = {event.row for event in recorder.of(RowRefused)}
    assert told == {f"job {one}" for one in (dead[0], dead[12], ended[0])}
    assert setup.rescuer.refused == 3
    await heal(connection)

    async def done() -> bool:
        await setup.look(after=0.1)
        return not await connection.fetchval("SELECT EXISTS (SELECT FROM asyncjobs.jobs WHERE runner_id = 9)")

    await eventually(done, description="they are rescued, too")
    assert setup.rescuer.refused == 0
