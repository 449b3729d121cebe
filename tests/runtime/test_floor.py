"""Where scans and looks start while nothing waits (`model/scan.py`): what that saves beside a held snapshot, and what comes late.

A second is none here, and nobody polls but the test.
"""

import json
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg
import pytest

from asyncjobs.model import scan
from asyncjobs.model.claim import FRONT
from asyncjobs.settings import Lane, Queue
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import JobsClaimed
from tests.support.at_work import AtWork, at_work
from tests.support.claims import SUSPECT
from tests.support.eventually import eventually
from tests.support.snapshots import old_snapshot

QUEUE = Queue(concurrency=10, lanes={"fast": Lane(slots=2)})


@pytest.fixture
async def rig(database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[AtWork]:
    """It has run jobs of each scan, so that each has a floor."""
    monkeypatch.setattr(scan, "LATE_SECONDS", 0.0)
    async with at_work(database, connection, QUEUE) as made:
        made.host.other_runners = 1
        starts = [lane.start for lane in made.coordinators[0].lanes.values()]
        while any(start.floor == FRONT for start in starts):  # a look that comes in between may find what is about to be claimed
            await run(made, 1)
            await run(made, 1, lane="fast")
            await rest(made)
        yield made


async def run(rig: AtWork, count: int, **columns: Any) -> None:
    """So many jobs, one after the other."""
    for _ in range(count):
        [job_id] = await rig.enqueue(**columns)
        rig.wake()
        await starts(rig, job_id)


async def starts(rig: AtWork, job_id: int) -> None:
    await eventually(lambda: job_id in rig.host.running, description=f"job {job_id} starts", interval=0.001)
    rig.put(job_id)
    await rig.wait_idle()


async def rest(rig: AtWork) -> None:
    await eventually(lambda: rig.is_satisfied, description="it has looked", interval=0.001)


def scans(rig: AtWork) -> int:
    """How often both were scanned."""
    return len(rig.of(JobsClaimed)) // 2


async def pages(connection: Connection, function: str, arguments: str) -> int:
    """Of a call that is rolled back; the first reads the catalogs, too."""
    read = 0
    for _ in range(3):
        transaction = connection.transaction()
        await transaction.start()
        [root] = json.loads(
            await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM asyncjobs.{function}({arguments})")
        )
        await transaction.rollback()
        read = root["Plan"]["Shared Hit Blocks"] + root["Plan"]["Shared Read Blocks"]
    return read


@pytest.mark.parametrize("lane", [None, "fast"])
async def test_a_claim_and_a_look_read_the_same_however_many_were_run_since_a_snapshot_that_is_held(
    database: Database, connection: Connection, rig: AtWork, lane: str | None
) -> None:
    name = "NULL" if lane is None else f"'{lane}'"
    async with old_snapshot(database):
        for _ in range(30):
            for job_id in await rig.enqueue(10, lane=lane, payload=json.dumps("x" * 1500)):
                rig.wake()
                await starts(rig, job_id)
        [job_id] = await rig.enqueue(lane=lane)
        read: list[tuple[int, int]] = []
        for priority, place in (rig.coordinators[0].lanes[lane].start.floor, FRONT):
            claim = f"1, 'default', {name}, 10, {priority}, {place}, '{{email}}', false, 5, 0"
            look = f"1, '{{default}}', ARRAY[{name}], '{{another}}', true, '{{{priority}}}', '{{{place}}}'"
            read.append((await pages(connection, "claim", claim), await pages(connection, "skipped", look)))
        rig.wake()
        await starts(rig, job_id)
    [floor, front] = read
    assert max(floor) <= 40, "some are read in any case"
    assert min(front) >= 150, "what is saved: a page for each second job that was run, and more with each"


@pytest.mark.parametrize("lane", [None, "fast"])
async def test_late_commit_waits_for_the_look_behind_the_scan_that_found_nothing(rig: AtWork, lane: str | None) -> None:
    [late] = await rig.enqueue(place=0, lane=lane)
    made = scans(rig)
    rig.wake()
    await starts(rig, late)
    assert scans(rig) - made >= 2, "the scan, and the one that the look was the reason for"


async def test_late_commit_that_another_job_hides_waits_for_the_poll_at_most(rig: AtWork) -> None:
    [late, other] = [*await rig.enqueue(place=0), *await rig.enqueue()]
    rig.wake()
    await starts(rig, other)
    await rest(rig)
    assert late not in rig.host.running
    rig.coordinators[0]._time_out()
    await starts(rig, late)


async def test_better_priority_with_a_hint_waits_for_nothing(rig: AtWork) -> None:
    [urgent] = await rig.enqueue(priority=10, place=0)
    made = scans(rig)
    rig.wake(front=True)
    await starts(rig, urgent)
    assert scans(rig) == made + 1


async def test_better_priority_without_a_hint_waits_for_a_look_once(rig: AtWork) -> None:
    for expected in (2, 1):
        [urgent] = await rig.enqueue(priority=10)
        made = scans(rig)
        rig.wake()
        await starts(rig, urgent)
        assert scans(rig) - made >= expected
        await rest(rig)
        await run(rig, 2)
        assert rig.coordinators[0].general.start.floor[0] == 10
    [urgent] = await rig.enqueue(priority=10)
    made = scans(rig)
    rig.wake()
    await starts(rig, urgent)
    assert scans(rig) == made + 1


async def test_worse_priority_waits_for_nothing(rig: AtWork) -> None:
    await run(rig, 3, priority=200)
    made = scans(rig)
    await run(rig, 1)
    await run(rig, 1, priority=150)
    assert scans(rig) == made + 2
    assert rig.coordinators[0].general.start.floor[0] == 100, "places of worse ones say that nothing ordinary waited then"


async def test_released_member_of_a_workflow_waits_for_nothing_once_the_scan_has_brought_a_member(rig: AtWork) -> None:
    await run(rig, 3, workflow_id=1)
    await rest(rig)
    await run(rig, 2)
    [released] = await rig.enqueue(place=0, workflow_id=1)
    made = scans(rig)
    rig.wake()
    assert await rig.wait_running(1) == [released]
    assert scans(rig) == made + 1


async def test_suspect_waits_for_nothing(rig: AtWork) -> None:
    [suspect] = await rig.enqueue(place=0, **SUSPECT)
    made = scans(rig)
    rig.wake()
    assert await rig.wait_running(1) == [suspect]
    assert scans(rig) == made + 1


async def test_row_that_is_locked_keeps_the_floor_at_the_front_and_is_found_when_it_is_let_go(
    database: Database, rig: AtWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "LATE_SECONDS", 1.0)
    other = await asyncpg.connect(database.dsn)
    [locked] = await rig.enqueue()
    async with other.transaction():
        await other.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", locked)
        await run(rig, 1)
        start = rig.coordinators[0].general.start
        await eventually(lambda: start.floor == FRONT, description="a look has found it", interval=0.001)
    await starts(rig, locked)
    await other.close()


async def test_any_number_with_old_places_is_found_after_a_hint(connection: Connection, rig: AtWork) -> None:
    old = await rig.enqueue(30)
    await connection.execute("UPDATE asyncjobs.jobs SET place = id - 1000000 WHERE status = 'pending'")
    rig.wake(front=True)
    for job_id in old:
        await starts(rig, job_id)
