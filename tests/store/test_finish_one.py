"""The lean call of a runner: one attempt that completed, and its key's next job in the slot that was freed."""

from collections.abc import AsyncGenerator

import pytest

from asyncjobs.store import serialized
from asyncjobs.store.database import Database
from tests.support.factories import insert, insert_job
from tests.support.holding import pause_key
from tests.support.peers import Peers, peers


@pytest.fixture
async def world(database: Database) -> AsyncGenerator[Peers]:
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


async def test_next_job_of_the_key_is_claimed_with_the_end_of_the_one_before_it(world: Peers) -> None:
    last = await world.a.enqueue(times=3)
    answer = await world.a.complete(await world.a.claim_one())
    [job] = answer.claimed
    assert (job.id, job.attempt, job.queue, job.serialization_key, answer.heads) == (last - 1, 1, "default", "k", [])
    row = await world.admin.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", job.id)
    assert row is not None
    assert (row["status"], row["runner_id"], row["claim_token"], row["attempts"]) == ("processing", 1, job.token, 1)
    assert row["started_at"] is not None
    assert await world.line() == [(job.id, "processing"), (last, "waiting")]


async def test_whole_line_runs_in_order_by_such_calls_alone(world: Peers) -> None:
    last = await world.a.enqueue(times=5)
    ran = [await world.a.claim_one()]
    while claimed := (await world.a.complete(ran[-1])).claimed:
        ran += claimed
    assert [job.id for job in ran] == list(range(last - 4, last + 1))
    assert len({job.token for job in ran}) == 5
    assert await world.line() == []


@pytest.mark.parametrize("queue", [None, "mail"])
async def test_next_job_that_may_not_start_here_is_pending_behind_others_and_announced(world: Peers, queue: str | None) -> None:
    second = await world.a.enqueue(times=2)
    job = await world.a.claim_one()
    other = await insert_job(world.admin, id=10_000)
    answer = await world.a.complete(job, queue=queue)
    assert (answer.claimed, answer.heads, await world.line()) == ([], ["default"], [(second, "pending")])
    assert await world.drain() == [other, second]


async def test_next_job_of_a_type_that_is_not_served_here_is_left_to_others(world: Peers) -> None:
    await world.a.enqueue()
    strange = await world.a.enqueue("k", "strange")
    answer = await world.a.complete(await world.a.claim_one())
    assert (answer.claimed, answer.heads, await world.line()) == ([], ["default"], [(strange, "pending")])
    await world.admin.execute("UPDATE asyncjobs.jobs SET type = 'email' WHERE type = 'strange'")


async def test_next_job_is_not_claimed_by_a_runner_that_is_gone(world: Peers) -> None:
    second = await world.a.enqueue(times=2)
    job = await world.a.claim_one()
    await world.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    answer = await world.a.complete(job)
    assert (answer.gone, answer.claimed, answer.lost, answer.heads) == (True, [], [], ["default"])
    assert (await world.status(job.id), await world.line()) == ("completed", [(second, "pending")])


@pytest.mark.parametrize(("kind", "name", "becomes"), [("queue", "default", "pending"), ("type", "email", "paused")])
async def test_next_job_that_is_paused_does_not_start(world: Peers, kind: str, name: str, becomes: str) -> None:
    second = await world.a.enqueue(times=2)
    job = await world.a.claim_one()
    await insert(world.admin, "pauses", kind=kind, name=name)
    assert (await world.a.complete(job)).claimed == []
    assert await world.a.claim() == []
    assert await world.line() == [(second, becomes)]


async def test_paused_key_stands_still(world: Peers) -> None:
    second = await world.a.enqueue(times=2)
    job = await world.a.claim_one()
    await pause_key(world.a.link, "k", None, None)
    assert (await world.a.complete(job)).claimed == []
    assert await world.line() == [(second, "waiting")]


async def test_next_job_that_was_delayed_before_is_claimed_like_any_other(world: Peers) -> None:
    await world.a.enqueue()
    job = await world.a.claim_one()
    delayed = await world.a.enqueue(delay_seconds=3600.0)
    await world.promote()
    assert await world.line() == [(job.id, "processing"), (delayed, "waiting")]
    answer = await world.a.complete(job)
    assert ([one.id for one in answer.claimed], answer.heads) == ([delayed], [])
    await world.a.complete(answer.claimed[0])


async def test_next_job_that_is_a_suspect_is_pending_first(world: Peers) -> None:
    """Whether a runner may have one is decided by a scan."""
    suspect = await world.a.enqueue(times=2)
    job = await world.a.claim_one()
    await world.admin.execute("UPDATE asyncjobs.jobs SET suspicion = 1 WHERE id = $1", suspect)
    answer = await world.a.complete(job)
    assert (answer.claimed, answer.heads, await world.line()) == ([], ["default"], [(suspect, "pending")])


async def test_lost_claim_lets_nothing_go(world: Peers) -> None:
    second = await world.a.enqueue(times=2)
    job = await world.a.claim_one()
    await world.admin.execute("UPDATE asyncjobs.jobs SET claim_token = 1 WHERE id = $1", job.id)
    answer = await world.a.complete(job)
    assert (answer.lost, answer.claimed, answer.heads) == ([job.token], [], [])
    assert await world.line() == [(job.id, "processing"), (second, "waiting")]


async def test_end_frees_the_dedup_key(world: Peers) -> None:
    await world.a.enqueue(dedup_key="d")
    await world.a.complete(await world.a.claim_one())
    assert await world.admin.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 0


async def test_job_without_a_key_is_completed_and_nothing_claimed(world: Peers) -> None:
    await world.a.enqueue(None)
    job = await world.a.claim_one()
    await world.a.enqueue(None)
    answer = await world.a.complete(job)
    assert (answer.claimed, answer.heads, answer.lost) == ([], [], [])
    row = await world.admin.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", job.id)
    assert row is not None
    assert (row["status"], row["runner_id"], row["claim_token"]) == ("completed", None, job.token)
    assert row["completed_at"] is not None


async def test_line_of_another_key_is_not_touched(world: Peers) -> None:
    await world.a.enqueue("x", times=2)
    before = await world.line("x")
    await world.a.enqueue(times=2)
    jobs = {job.serialization_key: job for job in await world.a.claim()}
    await world.a.complete(jobs["k"])
    assert [state for _, state in before] == ["pending", "waiting"]
    assert [state for _, state in await world.line("x")] == ["processing", "waiting"]
