"""What attempts report while they run is written within a second: rules 3 and 4 of `runtime/progress.py`."""

import json
from typing import Any

import asyncpg
import pytest

from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.progress import Progress
from asyncjobs.store import jobs
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Events
from tests.support.attempts import Runs
from tests.support.claims import a_claimed
from tests.support.eventually import eventually
from tests.support.factories import insert_job, insert_runner
from tests.support.services import running

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
async def clean(connection: Connection) -> Any:
    await insert_runner(connection, id=7)
    yield
    await connection.execute("DELETE FROM asyncjobs.jobs; DELETE FROM asyncjobs.runners")


async def reporting(connection: Connection, done: float) -> Attempt:
    """An attempt of a job that runs, and has reported that much."""
    job_id = await insert_job(connection, status="processing", runner_id=7, claim_token=1)
    await connection.execute("UPDATE asyncjobs.jobs SET claim_token = id WHERE id = $1", job_id)
    attempt = Runs().of(a_claimed(id=job_id, token=job_id), lambda: None)
    attempt.reported = done, ""
    return attempt


async def written(connection: Connection, attempt: Attempt) -> float | None:
    text = await connection.fetchval("SELECT progress FROM asyncjobs.jobs WHERE id = $1", attempt.claimed.id)
    return None if text is None else json.loads(text)["done"]


async def test_report_of_a_pass_that_failed_is_written_by_the_next(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, real, calls = Pool(database, 1), jobs.set_progress, list[int]()

    async def flaky(link: Any, rows: Any) -> Any:
        calls.append(len(rows))
        if len(calls) == 1:
            attempt.reported = 0.75, ""  # later than what this pass writes
            progress.report(attempt)
            raise asyncpg.DeadlockDetectedError("once")
        return await real(link, rows)

    monkeypatch.setattr(jobs, "set_progress", flaky)
    progress = Progress(pool, events=Events())
    attempt, other = await reporting(connection, 0.5), await reporting(connection, 0.25)
    progress.report(attempt)
    progress.report(other)
    async with running(progress):
        await eventually(lambda: attempt.reported is other.reported is None, description="both are written")
    await pool.close()
    assert calls == [2, 2]
    assert [await written(connection, one) for one in (attempt, other)] == [0.75, 0.25]


async def test_report_of_a_row_that_is_held_is_skipped_and_written_later(database: Database, connection: Connection) -> None:
    pool, holder = Pool(database, 1), database.link("holder")
    progress = Progress(pool, events=Events())
    stuck, other = await reporting(connection, 0.5), await reporting(connection, 0.25)
    progress.report(stuck)
    progress.report(other)
    theirs = await holder.connection()
    transaction = theirs.transaction()
    await transaction.start()
    await theirs.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", stuck.claimed.id)
    async with running(progress):
        await eventually(lambda: other.reported is None, description="the other is written")
        assert [await written(connection, one) for one in (stuck, other)] == [None, 0.25]
        assert stuck.reported is not None
        await transaction.rollback()
        await eventually(lambda: stuck.reported is None, description="it is written, too")
    await pool.close()
    await holder.close()
    assert await written(connection, stuck) == 0.5
