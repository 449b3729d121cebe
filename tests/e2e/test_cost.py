"""What a job costs, in counts that do not depend on the machine: whoever makes it dearer hears of it here.

The bounds are what was counted (in the comments), and some more for the versions of PostgreSQL and Python.
"""

import asyncio

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.runtime import sender
from asyncjobs.store.database import Connection
from asyncjobs.testing import Proxy
from tests.support.costs import Calls, Memory, Meter

FINISH = r"\.finish(_\w+)?\("
ENQUEUE = r"\.enqueue\(|INSERT INTO \S*\.jobs"
COUNT = 1_000


class Mill:
    """An app whose jobs do nothing, and an event that says that so many have ended."""

    def __init__(self, dsn: str, concurrency: int, prefetch: int = 0) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue(concurrency=concurrency, prefetch=prefetch)])
        self.left = 0
        self.drained = asyncio.Event()
        self.nothing = self.app.job("nothing")(self._nothing)

    async def _nothing(self) -> None:
        self.left -= 1
        if not self.left:
            self.drained.set()

    async def fill(self, count: int) -> None:
        await self.app.enqueue_many([self.nothing.new() for _ in range(count)])
        self.left = count
        self.drained.clear()

    async def drain(self, count: int) -> None:
        """Run so many jobs to their end: the runner is gone when it returns, and all it had to write is written."""
        await self.fill(count)
        async with self.app.runner():
            await self.drained.wait()


#: Slots and prefetch; statements per job and pages per job that a drain may take.
DRAINS = [
    # Behind a pooler each of its sessions plans anew, and parses each time: 36 to 49 pages, of jobs that share nothing.
    # 1.001 and 31.2: an ack alone, and a claim of one
    pytest.param((1, 0, 1.01, 36), marks=pytest.mark.direct("kept sessions cost so much")),
    (10, 0, 0.105, 28),  # 0.101 and 24.0
    (50, 0, 0.025, 28),  # 0.021 and 23.9
    (10, 500, 0.010, 28),  # 0.006 and 23.3
    (50, 500, 0.010, 28),  # 0.005 and 23.7
]


@pytest.mark.parametrize("drain", DRAINS, ids=str)
async def test_drain(dsn: str, connection: Connection, drain: tuple[int, int, float, float]) -> None:
    concurrency, prefetch, statements, buffers = drain
    count = min(COUNT, 200 * concurrency)
    meter = Meter(connection, FINISH)
    async with Proxy(dsn) as proxy:
        mill = Mill(proxy.dsn, concurrency, prefetch)
        async with mill.app:
            await mill.fill(count)
            await meter.set()
            async with mill.app.runner():
                await mill.drained.wait()
                [finishing] = proxy.having("finish")
            total = await meter.read()
    assert finishing.round_trips <= statements * count + 5  # and a few to prepare the statements
    assert total.transactions <= statements * count + 15, total  # and those of starting and stopping
    cost = total.per(count)
    assert cost["statements"] <= statements, cost
    assert cost["buffers"] <= buffers, cost
    assert cost["dirtied"] <= 0.2, cost  # 0.03 to 0.1
    assert cost["wal_bytes"] <= 1_000, cost  # 790 to 888


@pytest.fixture
def lasting_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, ids that were reserved are used."""
    monkeypatch.setattr(sender, "_FRESH_SECONDS", 600.0)


@pytest.mark.usefixtures("lasting_ids")
async def test_enqueue_alone(dsn: str, connection: Connection) -> None:
    meter = Meter(connection, ENQUEUE)
    async with Proxy(dsn) as proxy:
        mill = Mill(proxy.dsn, 1)
        async with mill.app:
            await mill.nothing.enqueue()
            [enqueueing] = proxy.having("enqueue plain")
            before = enqueueing.round_trips
            await meter.set()
            for _ in range(100):
                await mill.nothing.enqueue()
            cost = (await meter.read()).per(100)
            assert enqueueing.round_trips - before == 100
    assert cost["statements"] == 1, cost
    assert cost["transactions"] <= 2.1, cost  # its own, and that of its notification, which fewer have on a faster machine
    assert cost["buffers"] <= 16, cost  # 12.7
    assert cost["wal_bytes"] <= 500, cost  # 405


@pytest.mark.parametrize("together", [True, False])
async def test_enqueues_that_share_a_statement(dsn: str, connection: Connection, *, together: bool) -> None:
    meter = Meter(connection, ENQUEUE)
    mill = Mill(dsn, 1)
    async with mill.app:
        await mill.nothing.enqueue()
        await meter.set()
        if together:
            await asyncio.gather(*[mill.nothing.enqueue() for _ in range(COUNT)])
        else:
            await mill.fill(COUNT)
        cost = await meter.read()
    assert cost.statements <= 3
    assert cost.buffers / COUNT <= 16, cost
    assert cost.wal_bytes / COUNT <= 500, cost


@pytest.mark.unaudited("the recorder's work would be counted")
@pytest.mark.parametrize(("together", "most"), [(True, 90), (False, 19)])  # 80.7, 27 of them of asyncio, and 15.3
async def test_calls_in_python_of_an_enqueue(dsn: str, *, together: bool, most: int) -> None:
    mill = Mill(dsn, 1)
    counts: list[int] = []
    async with mill.app:
        for count in (COUNT, COUNT, 2 * COUNT):  # the first opens connections
            calls = Calls()
            with calls.counted():
                if together:
                    await asyncio.gather(*[mill.nothing.enqueue() for _ in range(count)])
                else:
                    await mill.fill(count)
            counts.append(calls.count)
    assert (counts[2] - counts[1]) / COUNT <= most, counts


@pytest.mark.direct("counts the calls of an enqueue whose statement is kept")
@pytest.mark.unaudited("the recorder's work would be counted")
@pytest.mark.usefixtures("lasting_ids")
async def test_calls_in_python_of_an_enqueue_alone(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mill = Mill(dsn, 1)
    async with mill.app:
        assert mill.app.lifecycle.opened is not None
        monkeypatch.setattr(
            mill.app.lifecycle.opened.wakes, "_notify", lambda _: None
        )  # how many go together depends on the time
        for _ in range(5):
            await mill.nothing.enqueue()
        calls = Calls()
        with calls.counted():
            for _ in range(100):
                await mill.nothing.enqueue()
    assert calls.count / 100 <= 130  # 116, 50 of them of asyncio and asyncpg


@pytest.mark.usefixtures("lasting_ids")
async def test_calls_with_lists_reserve_ids_for_each_other(dsn: str, connection: Connection) -> None:
    meter = Meter(connection, ENQUEUE)
    async with Proxy(dsn) as proxy:
        mill = Mill(proxy.dsn, 1)
        async with mill.app:
            for _ in range(3):
                await mill.fill(100)
            [pooled] = [one for one in proxy.having("pool") if one.round_trips]
            before = pooled.round_trips
            await meter.set()
            for _ in range(10):
                await mill.fill(100)
            cost = await meter.read()
            assert pooled.round_trips - before == 10
    assert cost.statements == 10


async def calls_of(mill: Mill, count: int) -> int:
    """Python functions called by a drain of so many jobs, which are there before."""
    calls = Calls()
    await mill.fill(count)
    with calls.counted():
        async with mill.app.runner():
            await mill.drained.wait()
    return calls.count


@pytest.mark.unaudited("the recorder's work would be counted")
@pytest.mark.parametrize(("prefetch", "most"), [(0, 55), (500, 80)])
async def test_calls_in_python(dsn: str, prefetch: int, most: int) -> None:
    mill = Mill(dsn, 50, prefetch)
    async with mill.app:
        await mill.drain(200)
        few, many = [await calls_of(mill, count) for count in (500, 1_000)]
    assert (many - few) / 500 <= most  # 45 and 67


@pytest.mark.unaudited("what the recorder keeps would be counted")
async def test_memory(dsn: str) -> None:
    mill = Mill(dsn, 50, 450)
    memory = Memory()
    async with mill.app:
        await mill.drain(COUNT)
        await mill.fill(2 * COUNT)
        with memory.traced():
            async with mill.app.runner():
                await mill.drained.wait()
    assert memory.left / (2 * COUNT) <= 250  # at most 130, of the runner: nothing of a job stays
    assert memory.peak / 500 <= 20_000  # 7,000 to 12,000 for each that is here at a time: when the collector comes differs
