"""Who gets the slots when some keys have a backlog, and what keys cost that were seen only once."""

import asyncio
import gc
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.store.database import Connection


class Shop:
    """An app that notes which keys ran, in order."""

    def __init__(self, dsn: str, concurrency: int) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue("default", concurrency=concurrency)])
        self.ran: list[str] = []
        self.count = 0
        self._reached: tuple[int, asyncio.Event] | None = None

        @self.app.job("work", serialize_by="{key}")
        async def work(key: str) -> None:
            await asyncio.sleep(0.005 if key.startswith("hot") else 0)
            self.ran.append(key)
            self.count += 1
            if self._reached is not None and self.count >= self._reached[0]:
                self._reached[1].set()

        self.work = work

    async def wait_ran(self, count: int, *, timeout: float) -> None:
        """Until so many have run."""
        event = asyncio.Event()
        self._reached = (count, event)
        if self.count >= count:
            event.set()
        await asyncio.wait_for(event.wait(), timeout)

    async def enqueue(self, keys: Iterator[str]) -> int:
        """One job for each of these; returns how many."""
        jobs = [self.work.new(key) for key in keys]
        await self.app.enqueue_many(jobs)
        return len(jobs)


@pytest.mark.parametrize(
    ("hot", "backlog", "cold", "spare"),
    [
        (10, 60, 100, 0),
        (10, 60, 100, 2),  # the hot keys' next jobs start without a scan
        pytest.param(50, 1_000, 1_000, 0, marks=pytest.mark.proof),
        pytest.param(50, 1_000, 1_000, 2, marks=pytest.mark.proof),
    ],
)
async def test_keys_with_a_backlog_starve_no_others(dsn: str, hot: int, backlog: int, cold: int, spare: int) -> None:
    """One-job keys that come later are done before the hot keys ran 5,000 more; a better priority starts within 100 jobs."""
    shop = Shop(dsn, concurrency=hot + spare)
    async with shop.app.runner():
        total = await shop.enqueue(islice(cycle(f"hot {number}" for number in range(hot)), hot * backlog))
        await shop.wait_ran(hot, timeout=60)
        since = len(shop.ran)
        total += await shop.enqueue(f"cold {number}" for number in range(cold))
        await shop.work.using(priority=1).enqueue("urgent")
        urgent_since = len(shop.ran)  # from when it is in the database
        await shop.wait_ran(total + 1, timeout=170)
    after = shop.ran[since:]
    last = max(at for at, key in enumerate(after) if key.startswith("cold"))
    assert sum(key.startswith("hot") for key in after[:last]) <= min(5_000, hot * backlog / 2)
    assert shop.ran.index("urgent") <= urgent_since + 100


@pytest.mark.unaudited("the recorder keeps every event")
@pytest.mark.parametrize("rounds", [3, pytest.param(1_000, marks=pytest.mark.proof)])
async def test_keys_that_were_seen_once_cost_no_memory(dsn: str, connection: Connection, rounds: int) -> None:
    """Ever new keys, 1,000 a round: the runner is as big as before, and nothing of them is left in the line."""
    shop = Shop(dsn, concurrency=50)
    async with shop.app.runner():
        await _round(shop, -1)
        before = _resident_bytes()
        for number in range(rounds):
            await _round(shop, number)
        assert _resident_bytes() - before < 20 * 2**20
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs") == 0
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.dispatch_requests") == 0


async def _round(shop: Shop, number: int) -> None:
    shop.count = 0
    shop.ran.clear()
    await shop.enqueue(f"key {number} {each}" for each in range(1_000))
    await shop.wait_ran(1_000, timeout=60)


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
