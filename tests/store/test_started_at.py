"""When an attempt started: never before its job was there, even where the claim's transaction had begun before that."""

from collections.abc import AsyncGenerator

import pytest

from asyncjobs.model.claim import Claimed
from asyncjobs.store.database import Database
from tests.support.peers import Peers, peers


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made
        await made.drain(made.a)


async def started_as_it_came(pair: Peers, job: Claimed) -> bool:
    row = await pair.admin.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", job.id)
    assert row is not None
    return bool(row["started_at"] == max(row["run_at"], row["created_at"]))


async def test_job_that_came_after_a_claim_had_begun_did_not_start_before_it(pair: Peers) -> None:
    await pair.a.begin()
    await pair.b.enqueue(None)
    [job] = await pair.a.claim()
    await pair.a.commit()
    assert await started_as_it_came(pair, job)
    await pair.a.ack(job)


async def test_job_that_came_after_a_lean_call_had_begun_did_not_start_before_it(pair: Peers) -> None:
    await pair.b.enqueue(None)
    done = await pair.a.claim()
    await pair.a.begin()
    await pair.b.enqueue(None)
    [job] = (await pair.a.complete_all(done, limit=1)).claimed
    await pair.a.commit()
    assert await started_as_it_came(pair, job)
    await pair.a.ack(job)


async def test_next_job_of_a_key_that_came_after_the_call_had_begun_did_not_start_before_it(pair: Peers) -> None:
    await pair.b.enqueue()
    done = await pair.a.claim_one()
    await pair.a.begin()
    await pair.b.enqueue()
    [job] = (await pair.a.complete(done)).claimed
    await pair.a.commit()
    assert await started_as_it_came(pair, job)
    await pair.a.ack(job)
