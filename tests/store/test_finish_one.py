"""The lean call of a runner: one attempt that completed, and its key's next job in the slot that was freed."""

from collections.abc import AsyncGenerator

import pytest

from asyncjobs.store import serialized
from asyncjobs.store.database import Database
from tests.support.factories import insert, insert_job
from tests.support.peers import Peers, peers


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made
        await made.admin.execute("DELETE FROM asyncjobs.pauses")
        await made.admin.execute("UPDATE asyncjobs.jobs SET status = 'pending' WHERE status = 'paused'")
        await made.admin.execute("UPDATE asyncjobs.jobs SET status = 'pending', runner_id = NULL WHERE status = 'processing'")
        for key in ("k", "x"):
            await serialized.resume_key(made.a.link, key)
            await serialized.advance(made.a.link, [key], [])
        await made.drain()
        assert await made.admin.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs") == 0


async def test_next_job_of_the_key_is_claimed_with_the_end_of_the_one_before_it(pair: Peers) -> None:
    last = await pair.a.enqueue(times=3)
    answer = await pair.a.complete(await pair.a.claim_one())
    [job] = answer.claimed
    assert (job.id, job.attempt, job.queue, job.serialization_key, answer.heads) == (last - 1, 1, "default", "k", [])
    row = await pair.admin.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", job.id)
    assert row is not None
    assert (row["status"], row["runner_id"], row["claim_token"], row["attempts"]) == ("processing", 1, job.token, 1)
    assert row["started_at"] is not None
    assert await pair.line() == [(job.id, "processing"), (last, "waiting")]


async def test_whole_line_runs_in_order_by_such_calls_alone(pair: Peers) -> None:
    last = await pair.a.enqueue(times=5)
    ran = [await pair.a.claim_one()]
    while claimed := (await pair.a.complete(ran[-1])).claimed:
        ran += claimed
    assert [job.id for job in ran] == list(range(last - 4, last + 1))
    assert len({job.token for job in ran}) == 5
    assert await pair.line() == []


@pytest.mark.parametrize("queue", [None, "mail"])
async def test_next_job_that_may_not_start_here_is_pending_behind_others_and_announced(pair: Peers, queue: str | None) -> None:
    second = await pair.a.enqueue(times=2)
    job = await pair.a.claim_one()
    other = await insert_job(pair.admin, id=10_000)
    answer = await pair.a.complete(job, queue=queue)
    assert (answer.claimed, answer.heads, await pair.line()) == ([], ["default"], [(second, "pending")])
    assert await pair.drain() == [other, second]


async def test_next_job_of_a_type_that_is_not_served_here_is_left_to_others(pair: Peers) -> None:
    await pair.a.enqueue()
    strange = await pair.a.enqueue("k", "strange")
    answer = await pair.a.complete(await pair.a.claim_one())
    assert (answer.claimed, answer.heads, await pair.line()) == ([], ["default"], [(strange, "pending")])
    await pair.admin.execute("UPDATE asyncjobs.jobs SET type = 'email' WHERE type = 'strange'")


async def test_next_job_is_not_claimed_by_a_runner_that_is_gone(pair: Peers) -> None:
    second = await pair.a.enqueue(times=2)
    job = await pair.a.claim_one()
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    answer = await pair.a.complete(job)
    assert (answer.gone, answer.claimed, answer.lost, answer.heads) == (True, [], [], ["default"])
    assert (await pair.status(job.id), await pair.line()) == ("completed", [(second, "pending")])


@pytest.mark.parametrize(("kind", "name", "becomes"), [("queue", "default", "pending"), ("type", "email", "paused")])
async def test_next_job_that_is_paused_does_not_start(pair: Peers, kind: str, name: str, becomes: str) -> None:
    second = await pair.a.enqueue(times=2)
    job = await pair.a.claim_one()
    await insert(pair.admin, "pauses", kind=kind, name=name)
    assert (await pair.a.complete(job)).claimed == []
    assert await pair.a.claim() == []
    assert await pair.line() == [(second, becomes)]


async def test_next_job_that_was_delayed_before_is_claimed_like_any_other(pair: Peers) -> None:
    await pair.a.enqueue()
    job = await pair.a.claim_one()
    delayed = await pair.a.enqueue(delay_seconds=3600.0)
    await pair.promote()
    assert await pair.line() == [(job.id, "processing"), (delayed, "waiting")]
    answer = await pair.a.complete(job)
    assert ([one.id for one in answer.claimed], answer.heads) == ([delayed], [])
    await pair.a.complete(answer.claimed[0])


async def test_next_job_that_is_a_suspect_is_pending_first(pair: Peers) -> None:
    """Whether a runner may have one is decided by a scan."""
    suspect = await pair.a.enqueue(times=2)
    job = await pair.a.claim_one()
    await pair.admin.execute("UPDATE asyncjobs.jobs SET suspicion = 1 WHERE id = $1", suspect)
    answer = await pair.a.complete(job)
    assert (answer.claimed, answer.heads, await pair.line()) == ([], ["default"], [(suspect, "pending")])


async def test_job_without_a_key_is_completed_and_nothing_claimed(pair: Peers) -> None:
    await pair.a.enqueue(None)
    job = await pair.a.claim_one()
    await pair.a.enqueue(None)
    answer = await pair.a.complete(job)
    assert (answer.claimed, answer.heads, answer.lost) == ([], [], [])
    assert await pair.status(job.id) == "completed"
