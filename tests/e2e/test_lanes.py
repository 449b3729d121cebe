"""Slots kept for a lane, in a runner that works: what takes which slot, and how soon."""

import asyncio
import json
import time
from collections import Counter

import pytest

from asyncjobs import AsyncJobs, AttemptTimeout, Lane, Queue
from asyncjobs.store.database import Connection
from tests.support.eventually import eventually
from tests.support.factories import insert_job, insert_runner


class Shop:
    """Eight slots, three of them for `fast`; who ran together, and when."""

    def __init__(self, dsn: str) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue(concurrency=8, lanes={"fast": 3})])
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.started: list[float] = []
        self.go_on = asyncio.Event()
        self.slow = self.app.job("slow")(self._slow)
        self.fast = self.app.job("fast", lane="fast")(self._fast)

    async def _slow(self) -> None:
        self._enter("slow")
        await self.go_on.wait()
        self.running["slow"] -= 1

    async def _fast(self, seconds: float) -> None:
        self.started.append(time.monotonic())
        self._enter("fast")
        await asyncio.sleep(seconds)
        self.running["fast"] -= 1

    def _enter(self, lane: str) -> None:
        self.running[lane] += 1
        self.most[lane] = max(self.most[lane], self.running[lane])


async def test_slow_work_leaves_the_kept_slots_free_and_fast_work_has_them_at_once(dsn: str) -> None:
    shop = Shop(dsn)
    async with shop.app.runner():
        await shop.app.enqueue_many([shop.slow.new() for _ in range(200)])
        await eventually(lambda: shop.running["slow"] == 5, description="slow work has its five slots")
        handles = await shop.app.enqueue_many([shop.fast.new(0.01) for _ in range(30)])
        for handle in handles:
            await handle.wait(timeout=20)
        assert (shop.most["slow"], shop.most["fast"]) == (5, 3), "all of it ran while the slow work filled the other slots"
        shop.go_on.set()
        await eventually(lambda: shop.most["slow"] == 5 and shop.running["slow"] == 0, description="it ends", timeout=20)
    assert shop.most["slow"] == 5


async def test_fast_work_alone_takes_every_slot(dsn: str) -> None:
    shop = Shop(dsn)
    async with shop.app.runner():
        handles = await shop.app.enqueue_many([shop.fast.new(0.2) for _ in range(24)])
        for handle in handles:
            await handle.wait(timeout=20)
    assert shop.most["fast"] == 8


@pytest.mark.proof
async def test_the_pth_fast_job_starts_in_time_before_ten_thousand_slow_ones(dsn: str) -> None:
    shop = Shop(dsn)
    async with shop.app.runner():
        await shop.app.enqueue_many([shop.slow.new() for _ in range(10_000)])
        await eventually(lambda: shop.running["slow"] == 5, description="slow work has its five slots")
        began = time.monotonic()
        handles = await shop.app.enqueue_many([shop.fast.new(0.05) for _ in range(100)])
        for handle in handles:
            await handle.wait(timeout=20)
        late = [(place, at - began) for place, at in enumerate(shop.started, 1) if at - began > 0.15 + 0.025 * place]
        assert late == []
        await shop.app.admin.pause(type="slow")
        shop.go_on.set()


async def test_a_lane_has_a_timeout_of_its_own(dsn: str) -> None:
    app = AsyncJobs(dsn, queues=[Queue(lanes={"fast": Lane(2, timeout=0.05)})])

    @app.job("wait", lane="fast", max_attempts=1)
    async def wait() -> None:
        await asyncio.Event().wait()

    @app.job("patient", lane="fast", max_attempts=1, timeout=30)
    async def patient() -> str:
        await asyncio.sleep(0.1)
        return "done"

    async with app.runner():
        handle, other = await wait.enqueue(), await patient.enqueue()
        assert await other.result(timeout=10) == "done"
        job = await handle.wait(timeout=10)
    assert job.status == "dead"
    assert AttemptTimeout.__name__ in (job.error_message or "")


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.proof)])
async def test_a_claim_of_a_lane_costs_the_same_however_much_other_work_is_ahead(connection: Connection, count: int) -> None:
    await insert_runner(connection, id=1)
    for _ in range(20):
        await insert_job(connection, lane="fast")
    alone = min([await _buffers(connection) for _ in range(3)])
    await connection.execute(
        "INSERT INTO asyncjobs.jobs (enqueue_token, queue, type, payload, status, place) "
        "SELECT 0, 'default', 'email', '{}', 'pending', n - 1000000000 FROM generate_series(1, $1) AS n",
        count,
    )
    assert min([await _buffers(connection) for _ in range(3)]) <= 1.3 * alone  # the tree over the ids is a level or two higher


async def _buffers(connection: Connection) -> int:
    transaction = connection.transaction()
    await transaction.start()
    [root] = json.loads(
        await connection.fetchval(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
            "SELECT count(*) FROM asyncjobs.claim(1, 'default', 'fast', 10, -1, -1, '{email}', false, 1, 1)"
        )
    )
    await transaction.rollback()
    return int(root["Plan"]["Shared Hit Blocks"] + root["Plan"]["Shared Read Blocks"])
