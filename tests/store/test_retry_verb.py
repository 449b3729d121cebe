"""What a retry by hand makes of a row: nothing of its former life is left, and nothing is changed that moved on meanwhile."""

from collections.abc import AsyncGenerator

import asyncpg
import pytest

from asyncjobs.store import requests, serialized
from asyncjobs.store.database import Database
from tests.support.factories import insert, insert_job
from tests.support.peers import Peers, peers, spawn


@pytest.fixture
async def world(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made


async def test_job_that_starts_over_has_no_progress_and_is_no_suspect_of_killing_its_runner(world: Peers) -> None:
    job_id = await insert_job(world.admin, status="dead", attempts=3, rescues=2, losses=2, suspicion=1, progress='{"done": 0.5}')
    await insert(world.admin, "dead_letter_jobs", job_id=job_id, original_job="{}")
    await serialized.retry(world.a.link, job_id, "me")
    row = await world.admin.fetchrow(
        "SELECT attempts, rescues, losses, suspicion, progress FROM asyncjobs.jobs WHERE id = $1", job_id
    )
    assert tuple(row or ()) == (0, 0, 0, 0, None)
    assert await world.drain() == [job_id]


async def test_job_that_was_cancelled_while_it_ran_is_not_asked_to_end_again(world: Peers) -> None:
    job_id = await world.a.enqueue(None)
    job = await world.a.claim_one()
    await serialized.cancel(world.b.link, job_id, "no")
    await world.a.ack(job, "interrupted")
    assert (await serialized.retry(world.b.link, job_id, "me")).was == "cancelled"
    again = await world.a.claim_one()
    assert await requests.look(world.a.link, world.a.runner_id) == []
    await world.a.ack(again)


async def test_job_that_is_run_now_goes_behind_what_is_pending(world: Peers) -> None:
    late = await insert_job(world.admin, status="scheduled")
    first = await insert_job(world.admin)
    await serialized.retry(world.a.link, late, "me")
    assert await world.drain(world.a) == [first, late]


async def test_job_that_moves_on_while_a_retry_waits_for_it_is_looked_at_anew(world: Peers) -> None:
    job_id = await insert_job(world.admin, status="failed", attempts=1)
    await world.a.begin()
    await (await world.a.link.connection()).execute("UPDATE asyncjobs.jobs SET status = 'pending' WHERE id = $1", job_id)
    retrying = spawn(serialized.retry(world.b.link, job_id, "me"))
    await world.waits_for_lock(world.b)
    await world.a.commit()
    with pytest.raises(asyncpg.SerializationError, match="moved on"):
        await retrying
    assert (await serialized.retry(world.b.link, job_id, "me")).outcome == "pending"
    await world.drain()
