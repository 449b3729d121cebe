"""Calls that waited for a lock: they look again when they have it, and keep no lock of a job that has moved on meanwhile."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeAlias

import asyncpg
import pytest

from asyncjobs.model.claim import Claimed, Finished
from asyncjobs.model.request import Wanted
from asyncjobs.store import callers, due, finding, jobs, pauses, pruning, serialized
from asyncjobs.store.database import Database, Link
from tests.support.backends import waits_for_lock
from tests.support.factories import insert
from tests.support.holding import pause_key
from tests.support.peers import Peers, peers, spawn

_ROW = "SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE"


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
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
    pair: Peers, kind: str, name: str
) -> None:
    await pair.a.enqueue(times=2)
    job = await pair.a.claim_one()
    await _hold_row(pair, job.id)
    ending = spawn(pair.a.complete(job))
    await pair.waits_for_lock(pair.a)
    await insert(pair.admin, "pauses", kind=kind, name=name)
    await pair.b.commit()
    assert (await ending).claimed == []


async def test_job_that_is_given_back_under_a_key_that_was_paused_meanwhile_is_held_back(pair: Peers) -> None:
    await pair.a.enqueue()
    job = await pair.a.claim_one()
    await _hold_row(pair, job.id)
    ending = spawn(pair.a.ack(job, "interrupted"))
    await pair.waits_for_lock(pair.a)
    await insert(pair.admin, "pauses", kind="key", name="k")
    await pair.b.commit()
    await ending
    assert await pair.line() == [(job.id, "paused")]


async def test_stray_claim_whose_row_is_held_is_passed_over_and_looks_at_pauses_later(
    pair: Peers,
) -> None:
    await pair.a.enqueue()
    job = await pair.a.claim_one()
    await _hold_row(pair, job.id)
    assert await jobs.give_back(pair.a.link, pair.a.runner_id, [], last_token=job.token + 9) == []
    await insert(pair.admin, "pauses", kind="key", name="k")
    await pair.b.commit()
    assert await jobs.give_back(pair.a.link, pair.a.runner_id, [], last_token=job.token + 9) == [(job.id, "default")]
    assert await pair.line() == [(job.id, "paused")]


async def _hold_row(pair: Peers, job_id: int) -> None:
    await pair.b.begin()
    await (await pair.b.link.connection()).execute(_ROW, job_id)


async def test_pause_of_a_key_is_not_answered_while_the_end_of_its_head_is_being_committed(pair: Peers, operator: Link) -> None:
    """However long that takes: it may be starting the next one."""
    second = await pair.a.enqueue(times=2)
    job = await pair.a.claim_one()
    await pair.admin.execute("ALTER FUNCTION asyncjobs.hold_key(text) SET lock_timeout = '10ms'")
    await pair.a.begin()
    await pair.a.ack(job, "interrupted")
    with pytest.raises(asyncpg.LockNotAvailableError):
        await pause_key(operator, "k")
    await pair.a.commit()
    assert await pause_key(operator, "k") is False
    assert await pair.line() == [(job.id, "paused"), (second, "waiting")]


async def test_pause_of_a_key_does_not_wait_for_the_transaction_of_a_handler_that_has_completed_its_job(
    pair: Peers, operator: Link
) -> None:
    second = await pair.a.enqueue(times=2)
    job = await pair.a.claim_one()
    await pair.a.begin()
    await callers.complete(await pair.a.link.connection(), pair.database, callers.Completion(job.id, job.token))
    assert await pause_key(operator, "k") is True
    await pair.a.commit()
    assert await jobs.verify_completed(pair.a.link, job.id, job.token) == []
    assert await pair.line() == [(second, "waiting")]


async def test_pause_waits_for_the_claims_that_are_under_way_and_for_no_others(pair: Peers, operator: Link) -> None:
    await pair.a.enqueue(None, times=2)
    await pair.a.begin()
    assert len(await pair.a.claim(1)) == 1
    waiting = spawn(pauses.wait_for_claims(operator))
    await pair.b.begin()
    async with asyncio.timeout(5):
        while await pair.admin.fetchval("SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"):
            pass
    assert len(await pair.b.claim(1)) == 1
    assert not waiting.done()
    await pair.a.commit()
    await waiting
    await pair.b.commit()


async def test_pause_gives_up_when_a_claim_does_not_end(pair: Peers, operator: Link) -> None:
    await pair.a.begin()
    await pair.a.claim(1)
    with pytest.raises(asyncpg.LockNotAvailableError, match="still under way"):
        await pauses.wait_for_claims(operator)
    await pair.a.commit()


CLAIMS: dict[str, Callable[[Peers, Claimed], Awaitable[Finished]]] = {
    "finish": lambda pair, _: pair.a.finish(limit=1),
    "finish_completed": lambda pair, _: pair.a.complete_all([], limit=1),
    "finish_one": lambda pair, job: pair.a.complete(job),
}


@pytest.mark.parametrize(("kind", "name"), PAUSES[1:])
@pytest.mark.parametrize("claim", CLAIMS)
async def test_claim_that_has_not_locked_the_runners_yet_sees_what_was_paused(
    pair: Peers, claim: str, kind: str, name: str
) -> None:
    """So who waits for those that have locked them, and only for those, waits for all that do not see the pause."""
    await pair.a.enqueue(times=2)
    job = await pair.a.claim_one()
    await pair.a.enqueue(None)
    await pair.b.begin()
    await (await pair.b.link.connection()).execute("LOCK TABLE asyncjobs.runners IN ACCESS EXCLUSIVE MODE")
    claiming = spawn(CLAIMS[claim](pair, job))
    await pair.waits_for_lock(pair.a)
    await insert(pair.admin, "pauses", kind=kind, name=name)
    await pair.b.commit()
    assert (await claiming).claimed == []


# Rows whose status changes while they are waited for.

Verb: TypeAlias = Callable[[Peers, int], Awaitable[Any]]


async def _replace(pair: Peers, job_id: int) -> None:
    assert await pair.b.enqueue(dedup_key="d", on_duplicate="replace") == job_id


async def _replace_at_commit(pair: Peers, job_id: int) -> None:
    await pair.b.begin()
    assert await pair.b.enqueue_in_transaction(dedup_key="d", on_duplicate="replace") == job_id
    await pair.b.commit()


async def _end(pair: Peers, job_id: int) -> None:
    await finding.end_many(pair.b.link, [job_id], "cancel", "no", 10)


VERBS: dict[str, Verb] = {"replace": _replace, "replace at the commit": _replace_at_commit, "cancel of many": _end}


async def _retry(pair: Peers, job_id: int) -> None:
    assert (await serialized.retry(pair.a.link, job_id, "ada")).outcome == "retried"


async def _promotion(pair: Peers, _job_id: int) -> None:
    promoted, _ = await due.promote(pair.a.link, 1000)
    assert list(promoted.keys) == ["k"]
    await due.promote_keyed(pair.a.link, promoted.keys, 1000)


WAYS: dict[str, Verb] = {"retry": _retry, "promotion": _promotion}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("verb", VERBS)
async def test_no_lock_is_kept_of_a_job_that_came_into_its_line_while_it_was_waited_for(
    pair: Peers, operator: Link, verb: str, way: str
) -> None:
    """Who dispatches it needs its row, and may be in front of somebody who has the key: a circle of three."""
    await pair.a.enqueue()
    delayed = await pair.a.enqueue(delay_seconds=3600.0, dedup_key="d")
    await pair.admin.execute("ALTER FUNCTION asyncjobs.end_jobs SET lock_timeout = '30s'")
    if way == "promotion":
        await pair.admin.execute("UPDATE asyncjobs.jobs SET run_at = now() WHERE id = $1", delayed)
    await pair.a.begin()
    await WAYS[way](pair, delayed)
    doing = spawn(VERBS[verb](pair, delayed))
    await pair.waits_for_lock(pair.b)
    holder = await operator.connection()
    async with holder.transaction():
        taking = spawn(holder.execute("SELECT asyncjobs.lock_keys('{k}')"))
        await waits_for_lock(operator, pair.admin)
        await pair.a.commit()
        await taking
        await pair.waits_for_lock(pair.b)  # for the key
        await pair.admin.execute(f"{_ROW} NOWAIT", delayed)
    await doing


# A job that ends while it is waited for, to be replaced.


@pytest.mark.parametrize(("key", "by"), [(None, "us"), ("k", "us"), (None, "caller")])
@pytest.mark.parametrize("wanted", ["cancel", "dead"])
async def test_replacing_a_job_that_ends_meanwhile_makes_a_new_one(
    pair: Peers, operator: Link, key: str | None, by: str, wanted: Wanted
) -> None:
    """It had the dedup key when that was looked at, and is ended by somebody who was in front of us at its row."""
    old = await pair.a.enqueue(key, dedup_key="d", payload='{"n": 1}')
    await pair.admin.execute("ALTER FUNCTION asyncjobs.end_job SET lock_timeout = '30s'")
    holder = await operator.connection()
    async with holder.transaction():
        await holder.execute(_ROW, old)
        ending = spawn(serialized.end(pair.a.link, old, wanted, "no"))
        await pair.waits_for_lock(pair.a)
        if by == "caller":
            await pair.b.begin()
        enqueue = pair.b.enqueue_in_transaction if by == "caller" else pair.b.enqueue
        replacing = spawn(enqueue(key, dedup_key="d", on_duplicate="replace", payload='{"n": 2}'))
        await pair.waits_for_lock(pair.b)
    await ending
    new = await replacing
    if by == "caller":
        await pair.b.commit()
    assert (new != old, await _payload(pair, old), await _payload(pair, new)) == (True, {"n": 1}, {"n": 2})
    assert await pair.status(new) == "pending"


@pytest.mark.parametrize("wanted", ["cancel", "dead"])
async def test_keyed_job_that_ends_before_the_commit_that_replaces_it_has_the_new_payload(pair: Peers, wanted: Wanted) -> None:
    """As if it had been replaced first: the answer had named it already."""
    old = await pair.a.enqueue(dedup_key="d", payload='{"n": 1}')
    await pair.b.begin()
    assert await pair.b.enqueue_in_transaction(dedup_key="d", on_duplicate="replace", payload='{"n": 2}') == old
    await serialized.end(pair.a.link, old, wanted, "no")
    await pair.b.commit()
    assert await _payload(pair, old) == {"n": 2}
    if wanted == "dead":
        dead_letters = await pair.admin.fetch("SELECT original_job -> 'payload' AS payload FROM asyncjobs.dead_letter_jobs")
        assert [json.loads(row["payload"]) for row in dead_letters] == [{"n": 2}]
    assert (await serialized.retry(pair.a.link, old, "ada")).outcome == "retried"
    assert json.loads((await pair.a.claim_one()).payload) == {"n": 2}


async def _payload(pair: Peers, job_id: int) -> Any:
    return json.loads(await pair.admin.fetchval("SELECT payload FROM asyncjobs.jobs WHERE id = $1", job_id))


async def test_retry_of_a_job_that_is_pruned_while_its_dedup_key_is_waited_for_is_made_again(pair: Peers, operator: Link) -> None:
    """Not: another job has its key. That one could have it only since this one was gone."""
    old = await pair.a.enqueue(None, dedup_key="d", dedup_for_seconds=3600.0)
    await serialized.cancel(pair.a.link, old, "no")
    await pair.admin.execute("UPDATE asyncjobs.dedup_keys SET expires_at = now() - interval '1 s'")
    await pair.a.begin()
    keep = pruning.Keep(completed=0, cancelled=-1, dead_letters=0, runners=0, types={})
    await pruning.prune(pair.a.link, keep, batch=10)
    new = spawn(pair.b.enqueue(None, dedup_key="d"))
    await pair.waits_for_lock(pair.b)
    retrying = spawn(serialized.retry(operator, old, "ada"))
    await waits_for_lock(operator, pair.admin)
    await pair.a.commit()
    assert (await new) != old
    with pytest.raises(asyncpg.SerializationError):
        await retrying
    assert (await serialized.retry(operator, old, "ada")).outcome == "unknown"
