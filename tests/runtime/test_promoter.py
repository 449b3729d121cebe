import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from asyncjobs.runtime.promoter import Promoter
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import Events, JobsPromoted, RowRefused, ServicePassFailed
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually, patience
from tests.support.factories import insert_job, insert_place
from tests.support.poison import When, heal, poison
from tests.support.services import Woken, running


class Setup:
    """A promoter, whom it wakes here, and what it notifies to others."""

    def __init__(self, database: Database, **options: Any) -> None:
        self.notified: list[str] = []
        self.woken = Woken()
        wakes = Wakes(self._notify)
        wakes.add(self.woken)
        self.link = database.link("duties")
        self.promoter = Promoter(self.link, wakes, events=Events(), **options)

    def _notify(self, payload: str) -> None:
        self.notified.append(payload)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Promoter]:
        """Run until the context is left; it has passed once when it is entered."""
        try:
            async with running(self.promoter):
                await self.promoter.wait_passed()
                yield self.promoter
        finally:
            await self.link.close()


Make = Callable[..., Setup]


@pytest.fixture
def make(database: Database, recorder: Recorder) -> Make:
    return lambda **options: Setup(database, **({"interval_seconds": 3600.0} | options))


async def delayed(connection: Connection, seconds: float, **columns: Any) -> int:
    run_at = await connection.fetchval("SELECT now() + make_interval(secs => $1)", seconds)
    return await insert_job(connection, **({"status": "scheduled", "run_at": run_at} | columns))


async def pending(connection: Connection) -> int:
    return int(await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'pending'"))


async def test_queues_are_woken_here_and_notified_to_others(make: Make, connection: Connection, recorder: Recorder) -> None:
    await delayed(connection, -1, queue="mail")
    await delayed(connection, -1, queue="urgent", priority=1)
    setup = make()
    async with setup.running():
        pass
    assert sorted(setup.woken.queues) == [("mail", False), ("urgent", True)]
    assert sorted(setup.notified) == ["f1:urgent", "q1:mail"]
    assert [event.count for event in recorder.of(JobsPromoted)] == [2]


async def test_what_nobody_gives_a_hint_of_is_found_as_soon_as_the_poll_would(make: Make, connection: Connection) -> None:
    setup = make(poll_seconds=lambda: 0.02)
    async with setup.running():
        for next_due in (600.0, 0.0, 0.0):
            setup.notified.clear()
            await delayed(connection, next_due)
            if not next_due:
                await eventually(lambda: setup.notified == ["q1:default"], description="it was promoted")


async def test_nothing_due_is_one_statement_and_silence(make: Make, connection: Connection, recorder: Recorder) -> None:
    setup = make()
    fetched: list[str] = []
    original = setup.link.fetch

    async def fetch(name: str, *args: Any, **options: Any) -> Any:
        fetched.append(name)
        return await original(name, *args, **options)

    setup.link.fetch = fetch  # type: ignore[method-assign]
    async with setup.running():
        pass
    assert fetched == ["promote"]
    assert setup.notified == []
    assert not recorder.of(JobsPromoted)


async def test_next_pass_is_planned_for_the_moment_when_something_is_due(make: Make) -> None:
    setup = make()
    original = setup.link.fetch

    async def fetch(name: str, *args: Any, **options: Any) -> Any:
        (row,) = await original(name, *args, **options)
        return [{**row, "next_due_seconds": 12.5}]

    setup.link.fetch = fetch  # type: ignore[method-assign]
    assert await setup.promoter.pass_() == 12.5 + 0.001
    await setup.link.close()


async def test_jobs_are_promoted_one_after_another_when_each_is_due(make: Make, connection: Connection) -> None:
    for tenths in (2, 4, 6):
        await delayed(connection, tenths / 10)
    setup = make()
    async with setup.running() as promoter:
        await eventually(lambda: pending_is(connection, 3), description="all of them")
        assert promoter.passes <= 8, "each may be followed by one that starts at the front"


async def test_interval_comes_first_when_the_next_job_is_due_later(make: Make, connection: Connection) -> None:
    await delayed(connection, 3600)
    setup = make(interval_seconds=0.05)
    async with setup.running() as promoter, patience(2):
        await promoter.wait_passed()
        await promoter.wait_passed()
    assert setup.notified == []


async def test_hint_brings_the_pass_forward(make: Make, connection: Connection) -> None:
    setup = make()
    async with setup.running() as promoter:
        await delayed(connection, 0.2)
        promoter.hint(0.2)
        await eventually(lambda: setup.notified == ["q1:default"], description="the promotion")
        assert promoter.passes <= 3


async def test_hints_of_later_times_cost_no_pass(make: Make, connection: Connection) -> None:
    setup = make()
    async with setup.running() as promoter:
        for _ in range(100):
            promoter.hint(1800.0)
        await asyncio.sleep(0.05)
        assert promoter.passes == 1


async def test_full_batch_is_followed_by_another_pass_at_once(make: Make, connection: Connection) -> None:
    for _ in range(25):
        await delayed(connection, -1)
    setup = make(batch=10)
    async with setup.running():
        await eventually(lambda: pending_is(connection, 25), description="all of them", timeout=2.0)


async def pending_is(connection: Connection, count: int) -> bool:
    return await pending(connection) == count


async def test_keyed_jobs_join_their_lines_in_the_same_pass(make: Make, connection: Connection) -> None:
    head = await insert_job(connection, serialization_key="busy")
    await insert_place(connection, "busy", head, is_head=True)
    waiting = await delayed(connection, -1, serialization_key="busy")
    first = await delayed(connection, -1, serialization_key="idle", queue="mail")
    setup = make()
    async with setup.running():
        pass
    rows = await connection.fetch("SELECT id, status FROM asyncjobs.jobs ORDER BY id")
    assert {row["id"]: row["status"] for row in rows} == {head: "pending", waiting: "waiting", first: "pending"}
    assert setup.notified == ["q1:mail"]


async def test_more_keyed_jobs_than_a_batch_all_join_in_the_same_pass(make: Make, connection: Connection) -> None:
    for number in range(23):
        await delayed(connection, -1, serialization_key=f"k{number}")
    for _ in range(12):
        await delayed(connection, -1, serialization_key="k0")
    async with make(batch=5).running():
        pass
    assert await pending(connection) == 23
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'waiting'") == 12


async def test_key_that_a_stranger_holds_delays_no_other(make: Make, connection: Connection) -> None:
    blocked = await delayed(connection, -9, serialization_key="held")
    for number in range(8):
        await delayed(connection, -1, serialization_key=f"k{number}")
    await delayed(connection, -1)
    setup = make(batch=3)
    async with connection.transaction():
        await connection.execute("SELECT asyncjobs.lock_keys('{held}')")
        async with patience(5), setup.running() as promoter:
            await eventually(lambda: pending_is(connection, 9), description="all others")
            assert await connection.fetchval("SELECT status FROM asyncjobs.jobs WHERE id = $1", blocked) == "scheduled"
            assert promoter.failures == 0
    setup = make()
    async with setup.running():
        assert await connection.fetchval("SELECT status FROM asyncjobs.jobs WHERE id = $1", blocked) == "pending"


@pytest.mark.parametrize("key", [None, "k"])
async def test_what_a_stranger_holds_locked_is_promoted_soon_after_and_asked_for_no_more_than_need_be(
    make: Make, connection: Connection, dsn: str, key: str | None
) -> None:
    """The next pass would be an hour away."""
    stranger = await asyncpg.connect(dsn)
    setup = make()
    async with setup.running() as promoter:
        job_id = await delayed(connection, -1, serialization_key=key)
        async with stranger.transaction():
            await stranger.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", job_id)
            before = promoter.passes
            promoter.wake()
            await eventually(lambda: promoter.passes >= before + 3, description="passes that skip it")
        async with patience(1.2):
            await eventually(lambda: pending_is(connection, 1), description="it is promoted", interval=0.005)
    await stranger.close()


async def test_job_that_commits_after_its_time_is_found_at_the_front(make: Make, connection: Connection) -> None:
    setup = make()
    async with setup.running() as promoter:
        now = [0.0]
        promoter._monotonic = lambda: now[0]
        promoter._front_at = 0.3  # as if the scan had taken 15 ms
        await delayed(connection, -60)
        promoter.wake()
        await promoter.wait_passed()
        assert setup.notified == []
        now[0] = 0.3
        await eventually(lambda: setup.notified == ["q1:default"], description="the promotion")


async def test_scans_do_not_start_at_the_front_more_often_than_their_cost_allows(make: Make, connection: Connection) -> None:
    setup = make()
    now = [10.0]
    setup.promoter._monotonic = lambda: now[0]
    scans: list[Any] = []
    original = setup.link.fetch

    async def fetch(name: str, *args: Any, **options: Any) -> Any:
        scans.append(args[1])
        (row,) = await original(name, *args, **options)
        return [{**row, "scan_seconds": 0.02}]

    setup.link.fetch = fetch  # type: ignore[method-assign]
    async with setup.running() as promoter:
        for _ in range(20):
            promoter.wake()
            await promoter.wait_passed()
        assert scans.count(None) == 1
        now[0] = 10.4
        await eventually(lambda: scans[-1] is None, description="a scan from the front")


@pytest.mark.parametrize("when", ["at once", "at the commit"])
async def test_rows_that_can_not_be_written_keep_no_other_job_from_its_time(
    make: Make, connection: Connection, recorder: Recorder, when: When
) -> None:
    ids = [await delayed(connection, number - 100) for number in range(30)]
    bad = [ids[0], ids[7], ids[29]]
    await poison(connection, *bad, when=when)
    setup = make(batch=10)
    async with setup.running():
        await eventually(lambda: _is(connection, 27), description="all others are pending")
        await eventually(lambda: len(recorder.of(RowRefused)) >= 6, description="they are tried again")
        told = recorder.of(RowRefused)
        assert {(event.during, event.row) for event in told} == {("promote", f"job {job_id}") for job_id in bad}
        assert sorted(event.refusals for event in told if event.row == f"job {bad[0]}")[:2] == [1, 2]
        assert recorder.of(ServicePassFailed) == []
        assert setup.promoter.refused == 3
        later = await delayed(connection, -1)
        setup.promoter.hint(0.0)
        await eventually(lambda: _is(connection, 28), description=f"job {later}, too")
        await heal(connection)
        await eventually(lambda: _is(connection, 31), description="they are pending, too")
        await eventually(lambda: setup.promoter.refused == 0, description="none is set aside")


async def _is(connection: Connection, count: int) -> bool:
    return await pending(connection) == count


async def test_a_key_whose_job_can_not_be_written_keeps_no_other_key_from_its_time(
    make: Make, connection: Connection, recorder: Recorder
) -> None:
    ids = [await delayed(connection, number - 100, serialization_key=f"k{number}") for number in range(20)]
    await poison(connection, ids[3])
    setup = make(batch=10)
    async with setup.running():
        await eventually(lambda: _is(connection, 19), description="the heads of all others are pending")
        assert {(event.during, event.row) for event in recorder.of(RowRefused)} == {("promote", 'key "k3"')}
        await heal(connection)
        await eventually(lambda: _is(connection, 20), description="it is pending, too")


async def test_what_fails_without_a_row_to_blame_fails_the_pass(make: Make, connection: Connection, recorder: Recorder) -> None:
    await connection.execute("ALTER FUNCTION asyncjobs.fold_limits RENAME TO gone")
    async with make().running():
        await eventually(lambda: bool(recorder.of(ServicePassFailed)), description="the pass failed")
    await connection.execute("ALTER FUNCTION asyncjobs.gone RENAME TO fold_limits")
    assert recorder.of(RowRefused) == []
