"""Rows that another claim holds for a moment are skipped, not absent: they are looked for once more."""

import asyncio

import asyncpg

from asyncjobs.config import Queue
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import JobsClaimed
from tests.support.acking import acking
from tests.support.eventually import eventually


async def test_row_that_was_let_go_by_another_runner_is_found_without_a_poll(database: Database, connection: Connection) -> None:
    other = await asyncpg.connect(database.dsn)
    async with acking(database, connection, Queue(concurrency=2)) as rig:
        rig.host.other_runners = 1
        [job_id] = await rig.enqueue()
        looks = len(rig.of(JobsClaimed))
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", job_id)
        rig.wake()
        await eventually(lambda: len(rig.of(JobsClaimed)) > looks, description="a look finds the row held", interval=0.001)
        await transaction.rollback()
        assert await rig.wait_running(1) == [job_id]
    await other.close()


async def test_quiet_queue_is_looked_at_twice_for_one_reason_and_no_more(database: Database, connection: Connection) -> None:
    async with acking(database, connection, Queue(concurrency=2)) as rig:
        assert len(rig.of(JobsClaimed)) == 1
        rig.host.other_runners = 1
        for looks in (3, 5):
            rig.wake()
            await eventually(lambda: len(rig.of(JobsClaimed)) >= looks, description="a look and its second")  # noqa: B023
            await eventually(lambda: not rig.coordinators[0].is_hungry, description="it is satisfied")
        await asyncio.sleep(0.05)
        assert len(rig.of(JobsClaimed)) == 5
