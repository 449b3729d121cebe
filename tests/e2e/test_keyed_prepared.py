"""A keyed enqueue in a prepared transaction: it holds the line of its key until it is ended, and nothing else."""

import asyncio
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from asyncjobs import AsyncJobs
from asyncjobs.store.database import Connection
from tests.support.eventually import eventually


class Shop:
    """An app whose jobs of key `k` wait until they may end."""

    def __init__(self, dsn: str) -> None:
        self.app = AsyncJobs(dsn, poll_interval=0.2)  # the end of a prepared transaction notifies nobody
        self.ran: list[int] = []
        self.may_end = asyncio.Event()

        @self.app.job("work", serialize_by="{key}")
        async def work(key: str, number: int) -> int:
            if key == "k":
                self.ran.append(number)
                await self.may_end.wait()
            return number

        self.work = work


@pytest.fixture
async def shop(dsn: str) -> AsyncGenerator[Shop]:
    made = Shop(dsn)
    async with made.app.runner():
        yield made
        made.may_end.set()


@pytest.fixture
async def held(shop: Shop, dsn: str) -> AsyncGenerator[Connection]:
    """Job 0 of the key runs; job 1 was enqueued in a transaction that is prepared. A connection to end it with."""
    await shop.work.enqueue("k", 0)
    await eventually(lambda: shop.ran == [0], description="the first job of the key runs")
    connection: Connection = await asyncpg.connect(dsn)
    await connection.execute("BEGIN")
    await shop.work.using(connection=connection, notify=False).enqueue("k", 1)
    await connection.execute("PREPARE TRANSACTION 'keyed'")
    yield connection
    if await connection.fetchval("SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"):
        await connection.execute("ROLLBACK PREPARED 'keyed'")  # a test that failed: the database is to be dropped
    await connection.close()


async def test_others_enqueues_and_acks_go_on(shop: Shop, held: Connection) -> None:
    """The enqueue of another job of this key waits; those that were sent with it do not, nor does the end of the key's head."""
    waiting = asyncio.create_task(shop.work.enqueue("k", 2))
    others = await asyncio.gather(*(shop.work.enqueue(f"other {number}", number) for number in range(10)))
    assert [await handle.result(timeout=20) for handle in others] == [*range(10)]
    shop.may_end.set()

    async def has_ended() -> bool:
        status = await held.fetchval("SELECT status FROM asyncjobs.jobs WHERE payload->>'key' = 'k'")
        return bool(status == "completed")

    await eventually(has_ended, description="the head's end is written", timeout=20)
    assert [await (await shop.work.enqueue(f"more {number}", number)).result(timeout=20) for number in range(3)] == [*range(3)]
    assert not waiting.done()
    assert shop.ran == [0]
    await held.execute("COMMIT PREPARED 'keyed'")
    assert await (await waiting).result(timeout=20) == 2
    assert shop.ran == [0, 1, 2]


async def test_job_of_a_prepared_transaction_runs_after_its_commit_without_any_other_call(shop: Shop, held: Connection) -> None:
    shop.may_end.set()
    await held.execute("COMMIT PREPARED 'keyed'")
    await eventually(lambda: shop.ran == [0, 1], description="the job runs", timeout=20)


async def test_prepared_transaction_that_is_rolled_back_leaves_no_trace(shop: Shop, held: Connection) -> None:
    waiting = asyncio.create_task(shop.work.enqueue("k", 2))
    shop.may_end.set()
    await held.execute("ROLLBACK PREPARED 'keyed'")
    assert await (await waiting).result(timeout=20) == 2
    assert shop.ran == [0, 2]
    for table in ("serialized_jobs", "dispatch_requests", "dedup_keys"):

        async def is_empty(table: str = table) -> bool:
            return bool(await held.fetchval(f"SELECT count(*) = 0 FROM asyncjobs.{table}"))

        await eventually(is_empty, description=f"nothing is left in {table}", timeout=20)
    assert await held.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE payload->>'key' = 'k'") == 2
