"""Whatever a database has been set to: jobs of every kind run, and operators' verbs work, as anywhere else."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, Backoff, Dead, JobContext, Queue, Snooze
from asyncjobs.handles import JobHandle
from asyncjobs.store.database import Database
from tests.support.eventually import eventually, patience
from tests.support.oddities import ODDITIES, SEQUENCES, make_odd

pytestmark = pytest.mark.usefixtures("recorder", "auditor")

ENDS = ("well", "fails", "snoozes", "dies")
LAST_OF_32_BITS = 2**31 - 1


class Shop:
    """An app with a job of every kind."""

    def __init__(self, database: Database) -> None:
        self.jobs = AsyncJobs(
            database.dsn,
            schema=database.schema,
            queues=[Queue(concurrency=4)],
            promote_interval=0.2,
            rescue_interval=0.2,
            prune_interval=0.2,
            metrics_interval=0.2,
        )
        self.ran: Counter[int] = Counter()

        @self.jobs.job("plain", backoff=Backoff(0.05))
        async def plain(ctx: JobContext, ends: str = "well", text: str = "") -> str | Snooze | Dead:
            self.ran[ctx.job.id] += 1
            ctx.progress(0.5, text)
            if ends == "fails" and ctx.attempt == 1:
                raise RuntimeError(text)
            if ends == "snoozes" and self.ran[ctx.job.id] == 1:
                return Snooze(timedelta(milliseconds=50))
            return Dead(text) if ends == "dies" else text

        @self.jobs.job("keyed", serialize_by="key {key}")
        async def keyed(ctx: JobContext, key: str) -> None:
            self.ran[ctx.job.id] += 1

        self.plain, self.keyed = plain, keyed
        self.jobs.schedule("tick", keyed.new(key="tick"), every=timedelta(seconds=1))


@pytest.mark.direct("transactions begin at another level there: refused where a pooler keeps us from saying so")
@pytest.mark.parametrize("how", ["all", *(pytest.param(name, marks=pytest.mark.proof) for name in [*ODDITIES, SEQUENCES])])
async def test_everything_works_as_anywhere_else(database: Database, how: str) -> None:
    make_odd(database.dsn, how)
    shop = Shop(database)
    text = 'it\'s \\ "ä" 30.02.2001 {NULL}'
    async with shop.jobs.runner(grace=1):
        handles: list[JobHandle[Any]] = [
            await shop.plain.enqueue(ends=ends, text=text) for ends in ("well", "fails", "snoozes", "dies")
        ]
        handles += [await shop.keyed.enqueue(key=text) for _ in range(3)]
        handles += [await shop.plain.using(delay=0.2, dedup_key=text).enqueue(text=text)]
        handles += await shop.jobs.enqueue_many([shop.plain.new(text=text), shop.plain.new()])
        handles += await within_a_transaction(database.dsn, shop)
        async with patience(20):
            jobs = [await handle.wait() for handle in handles]
        assert [job.status for job in jobs[:4]] == ["completed", "completed", "completed", "dead"]
        assert {job.status for job in jobs[4:]} == {"completed"}
        assert [job.attempts for job in jobs[:4]] == [1, 2, 1, 1]
        assert jobs[0].result == text
        assert [shop.ran[job.id] for job in jobs[1:3]] == [2, 2]
        await verbs_work(shop, text)
        await eventually(lambda: ticked(shop), description="its schedule ticks")
    if how in {"all", SEQUENCES}:
        assert all(job.id > LAST_OF_32_BITS for job in jobs)


async def within_a_transaction(dsn: str, shop: Shop) -> list[JobHandle[Any]]:
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=10)
    try:
        async with connection.transaction():
            return [
                await shop.plain.using(connection=connection).enqueue(),
                await shop.keyed.using(connection=connection).enqueue(key="in a transaction"),
                await shop.plain.using(connection=connection, dedup_key="in a transaction").enqueue(),
            ]
    finally:
        await connection.close(timeout=5)


async def verbs_work(shop: Shop, text: str) -> None:
    admin = shop.jobs.admin
    [dead_letter] = (await admin.dead_letters()).dead_letters
    await admin.requeue(dead_letter.id, by=text)
    assert (await admin.pause(type="keyed", reason=text, by=text)).is_new
    paused = await shop.keyed.enqueue(key="paused")
    assert (await admin.explain(paused.id)).status == "paused"
    await admin.cancel(paused.id, text)
    assert await admin.resume(type="keyed")
    assert [job.id for job in (await admin.find(type="keyed", status="cancelled")).jobs] == [paused.id]
    await asyncio.gather(
        admin.stats(), admin.metrics(), admin.largest(), admin.leases(), admin.runners(), admin.schedules(),
        admin.keys(), admin.pauses(), admin.prune(), admin.doctor(), admin.series(), admin.history(),
    )  # fmt: skip


async def ticked(shop: Shop) -> bool:
    found = await shop.jobs.admin.find(type="keyed", status="completed")
    return any(job.created_by == "schedule tick" for job in found.jobs)
