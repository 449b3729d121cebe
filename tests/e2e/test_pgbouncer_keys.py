"""Serialization keys behind a pooler that shares connections between transactions: all their locks end with the transaction."""

import asyncio
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from asyncjobs import AsyncJobs, Backoff, JobContext
from asyncjobs.store.database import Connection
from tests.e2e.test_pgbouncer import TRANSACTION_POOLING
from tests.support.pgbouncer import pgbouncer

KEYS = ("x", "y", "z")

pytestmark = pytest.mark.system


@pytest.fixture
async def pooled_dsn(dsn: str) -> AsyncGenerator[str]:
    async with pgbouncer(dsn) as through:
        yield through


@pytest.fixture
async def caller(pooled_dsn: str) -> AsyncGenerator[Connection]:
    """An app's own connection, through the pooler."""
    connection: Connection = await asyncpg.connect(pooled_dsn, statement_cache_size=0)
    yield connection
    await connection.close()


class Shop:
    """An app behind the pooler, and the attempts of its jobs in the order of their starts. Each third job fails once."""

    def __init__(self, dsn: str) -> None:
        self.app = AsyncJobs(dsn, poll_interval=0.2, connect_kwargs=TRANSACTION_POOLING)
        self.started: list[tuple[str, int, int]] = []
        self.running: set[str] = set()

        @self.app.job("deliver", serialize_by="{key}", backoff=Backoff(0.05))
        async def deliver(ctx: JobContext, key: str, number: int) -> int:
            assert key not in self.running, f"two jobs of key {key} at once"
            self.running.add(key)
            try:
                self.started.append((key, number, ctx.attempt))
                await asyncio.sleep(0)
                if number % 3 == 0 and ctx.attempt == 1:
                    raise RuntimeError("no")
            finally:
                self.running.remove(key)
            return number

        self.deliver = deliver

    def attempts(self, key: str) -> list[tuple[int, int]]:
        return [(number, attempt) for of, number, attempt in self.started if of == key]


def in_order(count: int) -> list[tuple[int, int]]:
    """What a key's attempts are when every third job is made again."""
    return [(number, attempt) for number in range(count) for attempt in ((1, 2) if number % 3 == 0 else (1,))]


async def test_keys_keep_their_order_however_their_jobs_are_enqueued(pooled_dsn: str, caller: Connection) -> None:
    shop = Shop(pooled_dsn)
    deliver = shop.deliver
    async with shop.app.runner():
        handles = [await deliver.enqueue(key, number) for number in range(3) for key in KEYS]
        handles += await shop.app.enqueue_many([deliver.new(key, number) for number in range(3, 9) for key in KEYS])
        async with caller.transaction():
            here = deliver.using(connection=caller)
            handles += [await here.enqueue(key, number) for number in range(9, 12) for key in KEYS]
        for number in (12, 13):
            async with caller.transaction(isolation="serializable"):
                handles += [await deliver.using(connection=caller).enqueue(key, number) for key in KEYS]
        handles += [await deliver.enqueue(key, 14) for key in KEYS]
        for handle in handles:
            await handle.result(timeout=30)
    assert {key: shop.attempts(key) for key in KEYS} == dict.fromkeys(KEYS, in_order(15))


async def test_callers_transaction_that_is_rolled_back_leaves_no_job_and_no_lock(pooled_dsn: str, caller: Connection) -> None:
    shop = Shop(pooled_dsn)
    async with shop.app.runner():
        transaction = caller.transaction()
        await transaction.start()
        await shop.deliver.using(connection=caller).enqueue("x", 100)
        open_before = await shop.deliver.enqueue("x", 1)
        assert await open_before.result(timeout=30) == 1
        await transaction.rollback()
        assert await (await shop.deliver.enqueue("x", 2)).result(timeout=30) == 2
    assert shop.attempts("x") == [(1, 1), (2, 1)]
    assert await caller.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
