"""Calls that waited for a lock: they look again when they have it, and keep no lock of a job that has moved on meanwhile."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeAlias

import asyncpg
import pytest

from asyncjobs.model.claim import Claimed, Finished
from asyncjobs.model.request import Wanted
from asyncjobs.store import callers, finding, jobs, pauses, pruning, serialized
from asyncjobs.store.database import Database, Link
from tests.support.backends import waits_for_lock
from tests.support.factories import insert
from tests.support.holding import pause_key
from tests.support.peers import Peers, peers, spawn

_ROW = "SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE"


@pytest.fixture
async def world(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made
        await made.admin.execute("DELETE FROM asyncjobs.pauses")
        await made.admin.execute(
            "UPDATE asyncjobs.jobs SET status = 'pending', runner_id = NULL WHERE status IN ('paused', 'processing')"
        )
        await serialized.advance(made.a.link, ["k"], [])
        await made.promote()
        await made.drain()


@pytest.fixture
async def operator(database: Database) -> AsyncGenerator[Link]:
    link = database.link("operator", command_timeout=30)
    yield link
    await link.close()


# What an answered pause promises.

PAUSES = [("key", "k"), ("type", "email"), ("queue", "default")]


@pytest.mark.parametrize(("kind", "name"), PAUSES)
async def test_lean_call_that_waited_for_its_jobs_row_starts_nothing_that_was_paused_meanwhile(
    world: Peers, kind: str, name: str
) -> None:
    await world.a.enqueue(times=2)
    job = await world.a.claim_one()
    await _hold_row(world, job.id)
    ending = spawn(world.a.complete(job))
    await world.waits_for_lock(world.a)
    await insert(world.admin, "pauses", kind=kind, name=name)
    await world.b.commit()
    assert (await ending).claimed == []


async def test_job_that_is_given_back_under_a_key_that_was_paused_meanwhile_is_held_back(world: Peers) -> None:
    await world.a.enqueue()
    job = await world.a.claim_one()
    await _hold_row(world, job.id)
    ending = spawn(world.a.ack(job, "interrupted"))
    await world.waits_for_lock(world.a)
    await insert(world.admin, "pauses", kind="key", name="k")
    await world.b.commit()
    await ending
    assert await world.line() == [(job.id, "paused")]


async def test_stray_claim_of_a_key_that_was_paused_meanwhile_is_held_back(world: Peers) -> None:
    await world.a.enqueue()
    job = await world.a.claim_one()
    await _hold_row(world, job.id)
    giving = spawn(jobs.give_back(world.a.link, world.a.runner_id, [], last_token=job.token + 9))
    await world.waits_for_lock(world.a)
    await insert(world.admin, "pauses", kind="key", name="k")
    await world.b.commit()
    await giving
    assert await world.line() == [(job.id, "paused")]


async def _hold_row(world: Peers, job_id: int) -> None:
    await world.b.begin()
    await (await world.b.link.connection()).execute(_ROW, job_id)


async def test_pause_of_a_key_is_not_answered_while_the_end_of_its_head_is_being_committed(world: Peers, operator: Link) -> None:
    """However long that takes: it may be starting the next one."""
    second = await world.a.enqueue(times=2)
    job = await world.a.claim_one()
    await world.admin.execute("ALTER FUNCTION asyncjobs.hold_key(text) SET lock_timeout = '10ms'")
    await world.a.begin()
    await world.a.ack(job, "interrupted")
    with pytest.raises(asyncpg.LockNotAvailableError):
        await pause_key(operator, "k")
    await world.a.commit()
    assert await pause_key(operator, "k") is False
    assert await world.line() == [(job.id, "paused"), (second, "waiting")]


async def test_pause_of_a_key_does_not_wait_for_the_transaction_of_a_handler_that_has_completed_its_job(
    world: Peers, operator: Link
) -> None:
    second = await world.a.enqueue(times=2)
    job = await world.a.claim_one()
    await world.a.begin()
    await callers.complete(await world.a.link.connection(), world.database, job.id, job.token, result=None, dropped=None)
    assert await pause_key(operator, "k") is True
    await world.a.commit()
    assert await jobs.verify_completed(world.a.link, job.id, job.token) == []
    assert await world.line() == [(second, "waiting")]


async def test_pause_waits_for_the_claims_that_are_under_way_and_for_no_others(world: Peers, operator: Link) -> None:
    await world.a.enqueue(None, times=2)
    await world.a.begin()
    assert len(await world.a.claim(1)) == 1
    waiting = spawn(pauses.wait_for_claims(operator))
    await world.b.begin()
    async with asyncio.timeout(5):
        while await world.admin.fetchval("SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"):
            pass
    assert len(await world.b.claim(1)) == 1
    assert not waiting.done()
    await world.a.commit()
    await waiting
    await world.b.commit()


async def test_pause_gives_up_when_a_claim_does_not_end(world: Peers, operator: Link) -> None:
    await world.a.begin()
    await world.a.claim(1)
    with pytest.raises(asyncpg.LockNotAvailableError, match="still under way"):
        await pauses.wait_for_claims(operator)
    await world.a.commit()


CLAIMS: dict[str, Callable[[Peers, Claimed], Awaitable[Finished]]] = {
    "finish": lambda world, _: world.a.finish(limit=1),
    "finish_completed": lambda world, _: world.a.complete_all([], limit=1),
    "finish_one": lambda world, job: world.a.complete(job),
}


@pytest.mark.parametrize(("kind", "name"), PAUSES[1:])
@pytest.mark.parametrize("claim", CLAIMS)
async def test_claim_that_has_not_locked_the_runners_yet_sees_what_was_paused(
    world: Peers, claim: str, kind: str, name: str
) -> None:
    """So who waits for those that have locked them, and only for those, waits for all that do not see the pause."""
    await world.a.enqueue(times=2)
    job = await world.a.claim_one()
    await world.a.enqueue(None)
    await world.b.begin()
    await (await world.b.link.connection()).execute("LOCK TABLE asyncjobs.runners IN ACCESS EXCLUSIVE MODE")
    claiming = spawn(CLAIMS[claim](world, job))
    await world.waits_for_lock(world.a)
    await insert(world.admin, "pauses", kind=kind, name=name)
    await world.b.commit()
    assert (await claiming).claimed == []


# Rows whose status changes while they are waited for.

Verb: TypeAlias = Callable[[Peers, int], Awaitable[Any]]


async def _replace(world: Peers, job_id: int) -> None:
    assert await world.b.enqueue(dedup_key="d", on_duplicate="replace") == job_id


async def _replace_at_commit(world: Peers, job_id: int) -> None:
    await world.b.begin()
    assert await world.b.enqueue_in_transaction(dedup_key="d", on_duplicate="replace") == job_id
    await world.b.commit()


async def _end(world: Peers, job_id: int) -> None:
    await finding.end_many(world.b.link, [job_id], "cancel", "no", 10)


VERBS: dict[str, Verb] = {"replace": _replace, "replace at the commit": _replace_at_commit, "cancel of many": _end}


@pytest.mark.parametrize("verb", VERBS)
async def test_no_lock_is_kept_of_a_job_that_came_into_its_line_while_it_was_waited_for(
    world: Peers, operator: Link, verb: str
) -> None:
    """Who dispatches it needs its row, and may be in front of somebody who has the key: a circle of three."""
    await world.a.enqueue()
    delayed = await world.a.enqueue(delay_seconds=3600.0, dedup_key="d")
    await world.admin.execute("ALTER FUNCTION asyncjobs.end_jobs SET lock_timeout = '30s'")
    await world.a.begin()
    assert (await serialized.retry(world.a.link, delayed, "ada")).outcome == "retried"
    doing = spawn(VERBS[verb](world, delayed))
    await world.waits_for_lock(world.b)
    holder = await operator.connection()
    async with holder.transaction():
        taking = spawn(holder.execute("SELECT asyncjobs.lock_keys('{k}')"))
        await waits_for_lock(operator, world.admin)
        await world.a.commit()
        await taking
        await world.waits_for_lock(world.b)  # for the key
        await world.admin.execute(f"{_ROW} NOWAIT", delayed)
    await doing


# A job that ends while it is waited for, to be replaced.


@pytest.mark.parametrize(("key", "by"), [(None, "us"), ("k", "us"), (None, "caller")])
@pytest.mark.parametrize("wanted", ["cancel", "dead"])
async def test_replacing_a_job_that_ends_meanwhile_makes_a_new_one(
    world: Peers, operator: Link, key: str | None, by: str, wanted: Wanted
) -> None:
    """It had the dedup key when that was looked at, and is ended by somebody who was in front of us at its row."""
    old = await world.a.enqueue(key, dedup_key="d", payload='{"n": 1}')
    await world.admin.execute("ALTER FUNCTION asyncjobs.end_job SET lock_timeout = '30s'")
    holder = await operator.connection()
    async with holder.transaction():
        await holder.execute(_ROW, old)
        ending = spawn(serialized.end(world.a.link, old, wanted, "no"))
        await world.waits_for_lock(world.a)
        if by == "caller":
            await world.b.begin()
        enqueue = world.b.enqueue_in_transaction if by == "caller" else world.b.enqueue
        replacing = spawn(enqueue(key, dedup_key="d", on_duplicate="replace", payload='{"n": 2}'))
        await world.waits_for_lock(world.b)
    await ending
    new = await replacing
    if by == "caller":
        await world.b.commit()
    assert (new != old, await _payload(world, old), await _payload(world, new)) == (True, {"n": 1}, {"n": 2})
    assert await world.status(new) == "pending"


@pytest.mark.parametrize("wanted", ["cancel", "dead"])
async def test_keyed_job_that_ends_before_the_commit_that_replaces_it_has_the_new_payload(world: Peers, wanted: Wanted) -> None:
    """As if it had been replaced first: the answer had named it already."""
    old = await world.a.enqueue(dedup_key="d", payload='{"n": 1}')
    await world.b.begin()
    assert await world.b.enqueue_in_transaction(dedup_key="d", on_duplicate="replace", payload='{"n": 2}') == old
    await serialized.end(world.a.link, old, wanted, "no")
    await world.b.commit()
    assert await _payload(world, old) == {"n": 2}
    if wanted == "dead":
        dead_letters = await world.admin.fetch("SELECT original_job -> 'payload' AS payload FROM asyncjobs.dead_letter_jobs")
        assert [json.loads(row["payload"]) for row in dead_letters] == [{"n": 2}]
    assert (await serialized.retry(world.a.link, old, "ada")).outcome == "retried"
    assert json.loads((await world.a.claim_one()).payload) == {"n": 2}


async def _payload(world: Peers, job_id: int) -> Any:
    return json.loads(await world.admin.fetchval("SELECT payload FROM asyncjobs.jobs WHERE id = $1", job_id))


async def test_retry_of_a_job_that_is_pruned_while_its_dedup_key_is_waited_for_is_made_again(
    world: Peers, operator: Link
) -> None:
    """Not: another job has its key. That one could have it only since this one was gone."""
    old = await world.a.enqueue(None, dedup_key="d", dedup_for_seconds=3600.0)
    await serialized.cancel(world.a.link, old, "no")
    await world.admin.execute("UPDATE asyncjobs.dedup_keys SET expires_at = now() - interval '1 s'")
    await world.a.begin()
    keep = pruning.Keep(completed=0, cancelled=-1, dead_letters=0, runners=0, types={})
    await pruning.prune(world.a.link, keep, batch=10)
    new = spawn(world.b.enqueue(None, dedup_key="d"))
    await world.waits_for_lock(world.b)
    retrying = spawn(serialized.retry(operator, old, "ada"))
    await waits_for_lock(operator, world.admin)
    await world.a.commit()
    assert (await new) != old
    with pytest.raises(asyncpg.SerializationError):
        await retrying
    assert (await serialized.retry(operator, old, "ada")).outcome == "unknown"
