"""Outcomes whose rows another transaction holds: one test for each rule of `runtime/locked.py`."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asyncjobs.model.claim import Ack
from asyncjobs.runtime import points
from asyncjobs.settings import Queue
from asyncjobs.store import jobs
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import DatabaseFailed
from tests.support.at_work import AtWork, at_work
from tests.support.eventually import eventually
from tests.support.factories import a_row

ROW = "SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE"


@asynccontextmanager
async def held(database: Database, sql: str, *args: Any) -> AsyncGenerator[None]:
    """A caller's transaction that has these rows, and is left open."""
    link = database.link("holder")
    try:
        connection = await link.connection()
        async with connection.transaction():
            await connection.execute(sql, *args)
            yield
    finally:
        await link.close()


async def status(rig: AtWork, job_id: int) -> str:
    return str((await rig.row(job_id))["status"])


async def goes_on(rig: AtWork, *ended: int, status_: str = "completed") -> None:
    """These are written, and another job is claimed."""

    async def are_written() -> bool:
        return {await status(rig, job_id) for job_id in ended} <= {status_}

    await eventually(are_written, description="the outcomes of the others are written")
    [another] = await rig.enqueue()
    rig.wake()
    await eventually(lambda: another in rig.host.running, description="another job is claimed")
    rig.put(another)
    await eventually(lambda: rig.line.unwritten == 1, description="and written, and the one that is held waits")


@pytest.mark.parametrize("kind", ["completed", "dead"])
@pytest.mark.parametrize("others", [0, 1, 4])
async def test_outcome_whose_row_is_held_holds_no_other_up(
    database: Database, connection: Connection, kind: str, others: int
) -> None:
    async with at_work(database, connection, Queue(concurrency=8)) as rig:
        stuck, *ended = await rig.enqueue(1 + others)
        rig.wake()
        await rig.wait_running(1 + others)
        async with held(database, ROW, stuck):
            for job_id in (stuck, *ended):
                rig.put(job_id, kind)
            await goes_on(rig, *ended, status_=kind)
            assert await status(rig, stuck) == "processing"
            assert not rig.line.is_idle
        await rig.wait_idle()
        assert await status(rig, stuck) == kind
        assert rig.of(DatabaseFailed) == []


async def test_any_number_of_rows_that_are_held_cost_the_others_one_wait(database: Database, connection: Connection) -> None:
    calls: list[str] = []

    async def note(point: str) -> None:
        calls.append(point)

    async with at_work(database, connection, Queue(concurrency=20)) as rig:
        *stuck, free = await rig.enqueue(20)
        rig.wake()
        await rig.wait_running(20)
        async with held(database, "SELECT FROM asyncjobs.jobs WHERE id = ANY ($1) FOR UPDATE", stuck):
            with points.installed(note):
                for job_id in (*stuck, free):
                    rig.put(job_id)
                await eventually(lambda: rig.line.unwritten == 19, description="the free one is written")
            assert await status(rig, free) == "completed"
            assert calls.count("finish.send") <= 4, "the one that waited, the free one, and what the coordinator asks"
        await rig.wait_idle()


async def test_outcome_that_waits_for_something_else_is_found_by_halves_and_sent_alone(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection, Queue(concurrency=8)) as rig:
        link = database.link("enqueue")
        ids = await jobs.reserve_ids(link, 5)
        await jobs.enqueue(link, [a_row(dedup_key=f"d{number}") for number in range(5)], ids, ids)
        await link.close()
        rig.wake()
        await rig.wait_running(5)
        async with held(database, "SELECT FROM asyncjobs.dedup_keys WHERE job_id = $1 FOR UPDATE", ids[2]):
            for job_id in ids:
                rig.put(job_id)
            await goes_on(rig, *ids[:2], *ids[3:])
            assert await status(rig, ids[2]) == "processing"
            await asyncio.sleep(0.6)  # it is tried again meanwhile
            await goes_on(rig)
        await rig.wait_idle()
        assert await status(rig, ids[2]) == "completed"


async def test_job_that_is_gone_when_it_is_looked_at_is_lost(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        [job_id] = await rig.enqueue()
        rig.wake()
        await rig.wait_running(1)
        async with held(database, "DELETE FROM asyncjobs.jobs WHERE id = $1", job_id):
            ack: Ack = rig.put(job_id)
            await eventually(lambda: ack in rig.line._locked, description="it is set aside")
        await rig.wait_idle()
        assert rig.line.claims == {}
