"""A claim in a backlog of 100,000 jobs while a session holds an old snapshot: it stays cheap, and nothing before it is missed."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from asyncjobs.model.claim import Claimed
from asyncjobs.settings import Queue
from asyncjobs.store.database import Connection, Database
from tests.support.at_work import AtWork, at_work
from tests.support.eventually import Stopwatch, eventually
from tests.support.factories import insert_job
from tests.support.snapshots import old_snapshot

BACKLOG = 100_000
#: The rule's own bound is 100 ms, or 20 times the cost of a scan from the front, and one claim; the rest is for a slow machine.
IN_TIME_SECONDS = 1.5


class Drain:
    """Ends every handler as soon as it starts, and notes when."""

    def __init__(self, rig: AtWork) -> None:
        self.rig = rig
        self.started: set[int] = set()
        rig.coordinators[0].start = self.start  # type: ignore[method-assign]

    def start(self, job: Claimed, lane: str | None) -> None:
        self.started.add(job.id)
        self.rig.host.running[job.id] = job, lane
        asyncio.get_running_loop().call_soon(self.rig.put, job.id)

    async def wait_for(self, job_id: int) -> float:
        """How long it takes from now until the job starts."""
        watch = Stopwatch()
        await eventually(lambda: job_id in self.started, description=f"job {job_id} starts", timeout=20)
        return watch.stop()

    async def wait_count(self, count: int) -> None:
        await eventually(lambda: len(self.started) >= count, description=f"{count} have started", timeout=60)


@pytest.fixture
async def drain(database: Database, connection: Connection) -> AsyncGenerator[Drain]:
    """A late job in an open transaction, a backlog behind it, an old snapshot, and a runner that has begun to work it off."""
    async with old_snapshot(database), at_work(database, connection, Queue(concurrency=50)) as rig:
        await connection.execute(
            "INSERT INTO asyncjobs.jobs (enqueue_token, type) SELECT 0, 'email' FROM generate_series(1, $1::integer)", BACKLOG
        )
        made = Drain(rig)
        rig.wake()
        await made.wait_count(2000)
        yield made
        assert len(made.started) < BACKLOG, "the backlog was too short to tell"
        rig.coordinators[0].stop()
        await rig.wait_idle()
    await connection.execute("TRUNCATE asyncjobs.jobs")


async def test_late_commit_better_priority_and_retry_run_in_time(
    database: Database, connection: Connection, drain: Drain
) -> None:
    # Where a scan stands cannot be seen from outside: a place before all others is one that was drawn long ago.
    late = await insert_job(connection, place=0)
    assert await drain.wait_for(late) <= IN_TIME_SECONDS
    urgent = await insert_job(connection, priority=1)
    assert await drain.wait_for(urgent) <= IN_TIME_SECONDS
    retried = await insert_job(connection, priority=50, status="failed", attempts=1)
    await connection.execute(
        "UPDATE asyncjobs.jobs SET status = 'pending', place = nextval('asyncjobs.place_seq') WHERE id = $1", retried
    )
    assert await drain.wait_for(retried) <= IN_TIME_SECONDS


async def test_scans_do_not_read_what_was_claimed_before_again_and_again(connection: Connection, drain: Drain) -> None:
    reads = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'jobs_claim'"
    await drain.wait_count(22_000)
    drain.rig.coordinators[0].stop()
    await drain.rig.wait_idle()
    await drain.rig.link.close()  # what it has counted is told
    count = len(drain.started)
    read = await eventually(lambda: connection.fetchval(reads), description="the statistics are in")
    assert read <= 40 * count
