"""What a duty sets aside: keys and gates of which a row cannot be written, and ends that cannot let their keys go."""

import asyncio
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from asyncjobs.runtime.set_aside import SetAside
from asyncjobs.store.database import Database
from asyncjobs.telemetry.events import DatabaseFailed, Events, RowRefused, ServicePassFailed
from asyncjobs.testing import Recorder
from tests.runtime.test_serializer import Make, Setup, has_head, stall
from tests.support import flows
from tests.support.eventually import eventually
from tests.support.peers import Peers, peers
from tests.support.poison import heal, poison


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made


@pytest.fixture
def make(database: Database, recorder: Recorder) -> Make:
    return lambda **options: Setup(database, **options)


class Rows:
    """What is tried, and which of it the database refuses."""

    def __init__(self, *bad: int) -> None:
        self.bad = {*bad}
        self.done: list[int] = []
        self.statements = 0

    async def write(self, rows: list[int]) -> None:
        await asyncio.sleep(0)
        self.statements += 1
        if self.bad & {*rows}:
            raise asyncpg.RaiseError("not this one")
        self.done += rows


async def test_refused_rows_are_found_by_halves_and_the_others_are_written(recorder: Recorder) -> None:
    aside, rows = SetAside[int]("promote", "job", Events()), Rows(3, 70)
    assert sorted(await aside.whole(range(100), rows.write)) == [3, 70]
    assert sorted(rows.done) == [one for one in range(100) if one not in {3, 70}]
    assert rows.statements <= 2 * 2 * 7 + 1
    assert sorted(aside.rows) == [3, 70]
    assert sorted(event.row for event in recorder.of(RowRefused)) == ["job 3", "job 70"]
    await aside.due(rows.write)
    assert len(recorder.of(RowRefused)) == 2, "their time has not come"
    rows.bad.clear()
    assert await aside.whole([3, 70], rows.write) == []
    assert len(aside) == 0


async def test_a_search_is_bounded_and_so_is_what_is_set_aside() -> None:
    aside, rows = SetAside[int]("promote", "job", Events()), Rows(*range(5_000))
    left = await aside.whole(range(5_000), rows.write)
    assert rows.statements == 60
    assert sorted(left) == [*range(5_000)]
    for start in range(0, 1_100, 25):
        await aside.whole(range(start, start + 25), rows.write)
    assert len(aside) == 1_000


async def test_what_passes_by_itself_is_no_refusal() -> None:
    async def write(rows: list[int]) -> None:
        raise asyncpg.DeadlockDetectedError("deadlock")

    aside = SetAside[int]("promote", "job", Events())
    with pytest.raises(asyncpg.DeadlockDetectedError):
        await aside.whole([1, 2], write)
    assert len(aside) == 0


@pytest.mark.unaudited("rows that cannot be written")
async def test_a_key_whose_head_can_not_be_written_keeps_no_other_key(pair: Peers, make: Make, recorder: Recorder) -> None:
    ids = {f"k{number}": await stall(pair, f"k{number}") for number in range(12)}
    await poison(pair.admin, ids["k4"], ids["k11"])
    setup = make(interval_seconds=0.2, partitions=1)
    async with setup.running():
        for key in ids.keys() - {"k4", "k11"}:
            await eventually(lambda key=key: has_head(pair, key), description=f"{key} goes on")  # type: ignore[misc]
        await eventually(lambda: len(recorder.of(RowRefused)) >= 2, description="it is told")
        assert {(event.during, event.row) for event in recorder.of(RowRefused)} == {
            ("advance", 'key "k4"'),
            ("advance", 'key "k11"'),
        }
        assert recorder.of(DatabaseFailed) == []
        await heal(pair.admin)
        await eventually(lambda: has_head(pair, "k4"), description="it goes on, too")
        await eventually(lambda: has_head(pair, "k11"), description="it goes on, too")


@pytest.mark.unaudited("rows that cannot be written")
async def test_an_end_that_can_not_let_its_key_go_keeps_the_sweep_from_no_other(
    pair: Peers, make: Make, recorder: Recorder
) -> None:
    """One head that ended by hand cannot be written to, and its key stays; another's is let go, and requests are carried out."""
    for key in ("k1", "k2"):
        await pair.a.enqueue(key, times=2)
    heads = [job.id for job in await pair.a.claim()]
    await pair.admin.execute(
        "UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now(), runner_id = 4711 WHERE id = ANY ($1)", heads
    )
    stalled = await stall(pair, "k3")
    await poison(pair.admin, min(heads))
    async with make(interval_seconds=0.2).running():
        await eventually(lambda: has_head(pair, "k3"), description=f"job {stalled} goes on")
        left = "SELECT array_agg(id) FROM asyncjobs.serialized_jobs WHERE id = ANY ($1)"
        await eventually(lambda: _equals(pair, left, heads, [min(heads)]), description="the other key is let go")
        assert {(event.during, event.row) for event in recorder.of(RowRefused)} == {("sweep", f"job {min(heads)}")}
        assert recorder.of(ServicePassFailed) == []
        await heal(pair.admin)
        await eventually(lambda: _equals(pair, left, heads, None), description="this one, too")


async def _equals(pair: Peers, query: str, argument: object, expected: object) -> bool:
    return bool(await pair.admin.fetchval(query, argument) == expected)


@pytest.mark.unaudited("a row that cannot be written")
async def test_a_gate_whose_dependent_can_not_be_written_keeps_no_other_from_its_fold(
    pair: Peers, make: Make, recorder: Recorder
) -> None:
    """Arrivals were left at three gates (another had them locked); one of them cannot release."""
    made = [await flows.write(pair, 2, [([0], [1])]) for _ in range(3)]
    jobs = {job.id: job for job in await pair.a.claim()}
    async with pair.admin.transaction():
        await pair.admin.fetch("SELECT asyncjobs.try_lock_gates((SELECT array_agg(id) FROM asyncjobs.gates))")
        for flow in made:
            await pair.a.ack(jobs[flow.ids[0]])
    await poison(pair.admin, made[1].ids[1])
    async with make(interval_seconds=0.2).running() as serializer:
        for flow in (made[0], made[2]):
            await eventually(lambda flow=flow: _released(flow), description="it goes on")  # type: ignore[misc]
        await eventually(lambda: bool(recorder.of(RowRefused)), description="it is told")
        assert {event.during for event in recorder.of(RowRefused)} == {"fold"}
        assert recorder.of(ServicePassFailed) == []
        assert serializer.refused == 1
        await heal(pair.admin)
        await eventually(lambda: _released(made[1]), description="this one, too")


async def _released(flow: flows.Flow) -> bool:
    return (await flow.statuses())[1] == "pending"
