"""What a retry by hand makes of a row: nothing of its former life is left, and nothing is changed that moved on meanwhile."""

import asyncpg
import pytest

from asyncjobs.store import requests, serialized
from tests.support.factories import insert, insert_job
from tests.support.peers import Peers, spawn


async def test_job_that_starts_over_has_no_progress_and_is_no_suspect_of_killing_its_runner(pair: Peers) -> None:
    job_id = await insert_job(pair.admin, status="dead", attempts=3, rescues=2, losses=2, suspicion=1, progress='{"done": 0.5}')
    await insert(pair.admin, "dead_letter_jobs", job_id=job_id, original_job="{}")
    await serialized.retry(pair.a.link, job_id, "me")
    row = await pair.admin.fetchrow(
        "SELECT attempts, rescues, losses, suspicion, progress FROM asyncjobs.jobs WHERE id = $1", job_id
    )
    assert tuple(row or ()) == (0, 0, 0, 0, None)
    assert await pair.drain() == [job_id]


async def test_job_that_was_cancelled_while_it_ran_is_not_asked_to_end_again(pair: Peers) -> None:
    job_id = await pair.a.enqueue(None)
    job = await pair.a.claim_one()
    await serialized.cancel(pair.b.link, job_id, "no")
    await pair.a.ack(job, "interrupted")
    assert (await serialized.retry(pair.b.link, job_id, "me")).was == "cancelled"
    again = await pair.a.claim_one()
    assert await requests.look(pair.a.link, pair.a.runner_id) == []
    await pair.a.ack(again)


async def test_job_that_is_run_now_goes_behind_what_is_pending(pair: Peers) -> None:
    late = await insert_job(pair.admin, status="scheduled")
    first = await insert_job(pair.admin)
    await serialized.retry(pair.a.link, late, "me")
    assert await pair.drain(pair.a) == [first, late]


async def test_job_that_moves_on_while_a_retry_waits_for_it_is_looked_at_anew(pair: Peers) -> None:
    job_id = await insert_job(pair.admin, status="failed", attempts=1)
    await pair.a.begin()
    await (await pair.a.link.connection()).execute("UPDATE asyncjobs.jobs SET status = 'pending' WHERE id = $1", job_id)
    retrying = spawn(serialized.retry(pair.b.link, job_id, "me"))
    await pair.waits_for_lock(pair.b)
    await pair.a.commit()
    with pytest.raises(asyncpg.SerializationError, match="moved on"):
        await retrying
    assert (await serialized.retry(pair.b.link, job_id, "me")).outcome == "pending"
    await pair.drain()
