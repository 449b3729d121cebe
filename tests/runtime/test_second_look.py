"""Rows that somebody holds are skipped, not absent: they are looked for again as long as there are such."""

import asyncio
from typing import Any

import asyncpg
import pytest

from asyncjobs.model.claim import FRONT
from asyncjobs.settings import Lane, Queue
from asyncjobs.store import jobs
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import JobsClaimed
from tests.support.at_work import at_work
from tests.support.eventually import eventually, patience


async def test_row_that_was_let_go_by_another_runner_is_found_without_a_poll(database: Database, connection: Connection) -> None:
    other = await asyncpg.connect(database.dsn)
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
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


@pytest.mark.parametrize("others", [0, 1])
async def test_a_row_that_a_stranger_holds_for_a_while_is_found_within_a_second_after(
    database: Database, connection: Connection, others: int
) -> None:
    """It polls every five minutes here."""
    other = await asyncpg.connect(database.dsn)
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        rig.host.other_runners = others
        [job_id] = await rig.enqueue()
        async with other.transaction():
            await other.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", job_id)
            looks = len(rig.of(JobsClaimed))
            rig.wake()
            await eventually(lambda: len(rig.of(JobsClaimed)) >= looks + 3, description="three scans that skip it")
        async with patience(1.2):
            await eventually(lambda: rig.host.running, description="it is found", interval=0.005)
        assert list(rig.host.running) == [job_id]
    await other.close()


async def test_a_locked_row_of_a_lane_and_of_a_full_queue_is_found(database: Database, connection: Connection) -> None:
    other = await asyncpg.connect(database.dsn)
    async with at_work(database, connection, Queue(concurrency=2, lanes={"fast": Lane(slots=1)})) as rig:
        [job_id] = await rig.enqueue(lane="fast")
        async with other.transaction():
            await other.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", job_id)
            rig.wake()
            await eventually(lambda: not rig.coordinators[0].is_hungry, description="it was skipped")
        assert await rig.wait_running(1) == [job_id]
    await other.close()


async def test_quiet_queue_is_scanned_once_for_a_reason_and_looked_at_once(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    skipped = jobs.skipped

    async def look(*args: Any, **options: Any) -> Any:
        found = await skipped(*args, **options)
        looks.append(len(found))
        return found

    monkeypatch.setattr(jobs, "skipped", look)
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        rig.host.other_runners = 1
        await eventually(lambda: looks, description="the look after the first scan")
        for scans in (2, 3):
            rig.wake()
            await eventually(lambda: len(looks) >= scans, description="a scan and its look")  # noqa: B023
            assert len(rig.of(JobsClaimed)) == scans
        await asyncio.sleep(0.05)
        assert (len(rig.of(JobsClaimed)), looks) == (3, [0, 0, 0])


async def test_what_it_may_not_claim_is_no_reason_to_scan(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        link = rig.link.database.link("look")
        await rig.enqueue(type="another")
        await rig.enqueue(version=2)
        await rig.enqueue(losses=2, suspicion=1)
        await rig.enqueue(queue="mail")
        await connection.execute("UPDATE asyncjobs.jobs SET updated_at = now() - interval '15.1 ms'")
        scans: dict[tuple[str, str | None], tuple[int, int]] = dict.fromkeys(
            [("default", None), ("mail", None), ("default", "fast")], FRONT
        )

        async def looked(*, suspects: bool = False) -> list[str]:
            found = await jobs.skipped(link, 1, scans, ["email"], suspects=suspects)
            return sorted(f"{queue} {lane}" for queue, lane in found)

        assert await looked() == ["mail None"]
        assert await looked(suspects=True) == ["default None", "mail None"]
        await rig.enqueue(lane="fast", updated_at=await connection.fetchval("SELECT now() + interval '1 hour'"))
        assert await looked() == ["default None", "default fast", "mail None"]
        await connection.execute("INSERT INTO asyncjobs.pauses (kind, name) VALUES ('queue', 'default')")
        assert await looked() == ["mail None"]
        await connection.execute("INSERT INTO asyncjobs.pauses (kind, name) VALUES ('type', 'email')")
        assert await looked() == []
        await connection.execute("DELETE FROM asyncjobs.pauses")
        await connection.execute("DELETE FROM asyncjobs.jobs")
        await link.close()
