"""Interleavings of the key protocol, each with what must come of it: run as they are, and to catch mutants."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg

from asyncjobs.model.claim import Ack
from asyncjobs.model.outcome import Outcome
from asyncjobs.store import jobs, runners, serialized
from tests.support.factories import insert_waiting
from tests.support.holding import pause_key
from tests.support.peers import Peers, spawn

Scenario: TypeAlias = Callable[[Peers], Awaitable[None]]


async def enqueue_races_with_the_ack_of_the_last_job(pair: Peers) -> None:
    """The enqueue is first: it saw the head dispatched. The ack waits for it, and looks again."""
    a, b = pair.a, pair.b
    await a.enqueue()
    head = await b.claim_one()
    await a.begin()
    second = await a.enqueue()
    ack = spawn(b.ack(head))
    await pair.waits_for_lock(b)
    await a.commit()
    await ack
    assert await pair.line() == [(second, "pending")]


async def ack_of_the_last_job_races_with_an_enqueue(pair: Peers) -> None:
    """The ack is first: it found the key empty. The enqueue waits for it, and finds the key idle."""
    a, b = pair.a, pair.b
    await a.enqueue()
    head = await b.claim_one()
    await b.begin()
    await b.ack(head)
    enqueue = spawn(a.enqueue())
    await pair.waits_for_lock(a)
    await b.commit()
    second = await enqueue
    assert await pair.line() == [(second, "pending")]


async def join_at_a_commit_races_with_the_ack_of_the_last_job(pair: Peers) -> None:
    a, b = pair.a, pair.b
    await a.enqueue()
    head = await b.claim_one()
    await b.begin()
    await b.ack(head)
    await a.begin()
    second = await a.enqueue_in_transaction()
    commit = spawn(a.commit())
    await pair.waits_for_lock(a)
    await b.commit()
    await commit
    assert await pair.line() == [(second, "pending")]


async def two_enqueues_race_for_an_idle_key(pair: Peers) -> None:
    await pair.a.begin()
    first = await pair.a.enqueue()
    enqueue = spawn(pair.b.enqueue())
    await pair.waits_for_lock(pair.b)
    await pair.a.commit()
    second = await enqueue
    assert await pair.line() == [(first, "pending"), (second, "waiting")]


async def a_dispatch_of_a_busy_key_does_nothing(pair: Peers) -> None:
    first = await pair.a.enqueue(times=2) - 1
    done = await serialized.advance(pair.b.link, ["k"], [])
    assert (done.count, done.blocked) == (0, [])
    assert await pair.line() == [(first, "pending"), (first + 1, "waiting")]


async def a_dispatch_does_not_wait_for_the_ack_of_the_head(pair: Peers) -> None:
    """Without the filter of idle keys the dispatch locks the row that the ack has just dispatched, and waits for it."""
    await pair.a.enqueue(times=3)
    head = await pair.a.claim_one()
    await pair.a.begin()
    await pair.a.ack(head)
    link = await pair.b.link.connection()
    await link.execute("SET lock_timeout = '200ms'")
    assert (await serialized.advance(pair.b.link, ["k"], [])).count == 0
    await pair.a.commit()
    assert [state for _, state in await pair.line()] == ["pending", "waiting"]


async def a_dispatch_under_an_old_snapshot_makes_no_second_head(pair: Peers) -> None:
    """What a process believes does not matter: the database has one dispatched row per key."""
    await pair.b.begin("repeatable_read")
    await (await pair.b.link.connection()).fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs")
    first = await pair.a.enqueue()
    await insert_waiting(await pair.b.link.connection(), "k")
    try:
        await (await pair.b.link.connection()).fetch("SELECT asyncjobs.dispatch_keys(ARRAY['k'])")
        await pair.b.commit()
    except asyncpg.UniqueViolationError:
        await pair.b.rollback()
    assert await pair.drain() == [first]


async def jobs_run_in_the_order_of_the_commits(pair: Peers) -> None:
    """Not in the order in which the transactions began, nor in that of their inserts."""
    a, b = pair.a, pair.b
    head = await a.enqueue()
    await a.begin()
    early = await a.enqueue_in_transaction()
    await b.begin()
    late = await b.enqueue_in_transaction()
    await b.commit()
    own = await b.enqueue()
    await a.commit()
    assert await pair.drain() == [head, late, own, early]


async def a_late_ack_touches_nothing(pair: Peers) -> None:
    """The attempt's runner was taken for dead, the job was claimed anew: the former owner has nothing to say any more."""
    await pair.a.enqueue(times=2)
    stale = await pair.a.claim_one()
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await runners.rescue(pair.b.link, 100, max_errors=10)
    again = await pair.b.claim_one()
    assert again.id == stale.id
    assert (await pair.a.ack(stale)).lost == [stale.token]
    assert await pair.status(stale.id) == "processing"
    assert (await pair.b.ack(again)).lost == []


async def a_late_ack_is_read_back_as_lost(pair: Peers) -> None:
    """The answer of an ack did not come, and meanwhile the job was rescued: that ack was not written."""
    await pair.a.enqueue()
    stale = await pair.a.claim_one()
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await runners.rescue(pair.b.link, 100, max_errors=10)
    assert await jobs.still_processing(pair.a.link, [Ack(stale.id, stale.token, Outcome(kind="completed"))]) == {}


async def a_request_is_carried_out_by_the_sweep_when_nobody_did(pair: Peers) -> None:
    await pair.a.begin("repeatable_read")
    job_id = await pair.a.enqueue_in_transaction()
    await pair.a.commit()
    assert await pair.line() == [(job_id, "waiting")]
    await pair.admin.execute("DELETE FROM asyncjobs.dispatch_requests")  # its serializer died with it
    await sweep(pair)
    assert await pair.line() == [(job_id, "pending")]


async def a_key_whose_head_is_gone_goes_on_with_the_sweep(pair: Peers) -> None:
    second = await pair.a.enqueue(times=2)
    await pair.admin.execute("DELETE FROM asyncjobs.jobs WHERE id <> $1", second)
    await sweep(pair)
    assert await pair.line() == [(second, "pending")]


async def a_job_that_was_taken_out_of_its_line_joins_it_again_with_the_sweep(pair: Peers) -> None:
    """It had been delayed: its row in `jobs` waits for a dispatch that nobody would make."""
    await pair.a.enqueue()
    delayed = await pair.a.enqueue(delay_seconds=3600.0)
    await pair.promote()
    last = await pair.a.enqueue()
    await pair.admin.execute("DELETE FROM asyncjobs.serialized_jobs WHERE id = $1", delayed)
    await sweep(pair)
    await pair.promote()
    assert await pair.line() == [(delayed - 1, "pending"), (last, "waiting"), (delayed, "waiting")]


async def a_released_key_has_a_head(pair: Peers) -> None:
    second = await pair.a.enqueue(times=2, on_dead="halt")
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    assert await pair.line() == [(second - 1, "halted"), (second, "waiting")]
    await serialized.release_key(pair.a.link, "k")
    assert await pair.line() == [(second, "pending")]


async def a_resumed_key_has_a_head(pair: Peers) -> None:
    await pause_key(pair.a.link, "k", None, None)
    job_id = await pair.a.enqueue()
    assert await pair.line() == [(job_id, "waiting")]
    await serialized.resume_key(pair.a.link, "k")
    assert await pair.line() == [(job_id, "pending")]


async def a_key_whose_head_was_cancelled_has_another(pair: Peers) -> None:
    second = await pair.a.enqueue(times=2)
    assert (await serialized.cancel(pair.b.link, second - 1, "no")).outcome == "cancelled"
    assert await pair.line() == [(second, "pending")]


async def a_retried_job_of_an_idle_key_is_its_head(pair: Peers) -> None:
    job_id = await pair.a.enqueue()
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    await serialized.retry(pair.a.link, job_id, "me")
    assert await pair.line() == [(job_id, "pending")]


async def a_job_that_became_pending_again_stands_behind_others(pair: Peers) -> None:
    """Else the heads of keys that fail for ever would be claimed before everybody else's."""
    failing = await pair.a.enqueue("hot")
    await pair.a.ack(await pair.a.claim_one(), "retry", error={"message": "no"})
    other = await pair.a.enqueue("cold")
    await pair.promote()
    assert await pair.drain() == [other, failing]


async def a_key_goes_on_when_a_stranger_held_its_lock(pair: Peers) -> None:
    """The ack does not wait for a transaction that may stay open for hours: it leaves the key to a serializer."""
    a, b = pair.a, pair.b
    await a.enqueue()
    head = await b.claim_one()
    await a.begin()
    second = await a.enqueue()
    await pair.wait_for_keys("50ms")
    await b.ack(head)  # gives up
    assert await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.dispatch_requests") == 1
    await a.commit()
    assert await pair.line() == [(second, "waiting")]
    found = await serialized.sweep(b.link, "", 0)
    await serialized.advance(b.link, list(found.requests), [number for ids in found.requests.values() for number in ids])
    assert await pair.line() == [(second, "pending")]
    assert await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.dispatch_requests") == 0


async def sweep(pair: Peers) -> None:
    """One round of a serializer."""
    found = await serialized.sweep(pair.b.link, "", 1000)
    for job_id in found.ended:
        await serialized.release_ended(pair.b.link, job_id)
    await serialized.rejoin(pair.b.link, found.lost)
    await serialized.advance(pair.b.link, [*found.stalled, *found.requests], [])


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        enqueue_races_with_the_ack_of_the_last_job,
        ack_of_the_last_job_races_with_an_enqueue,
        join_at_a_commit_races_with_the_ack_of_the_last_job,
        two_enqueues_race_for_an_idle_key,
        a_dispatch_of_a_busy_key_does_nothing,
        a_dispatch_does_not_wait_for_the_ack_of_the_head,
        a_dispatch_under_an_old_snapshot_makes_no_second_head,
        jobs_run_in_the_order_of_the_commits,
        a_late_ack_touches_nothing,
        a_late_ack_is_read_back_as_lost,
        a_request_is_carried_out_by_the_sweep_when_nobody_did,
        a_key_whose_head_is_gone_goes_on_with_the_sweep,
        a_job_that_was_taken_out_of_its_line_joins_it_again_with_the_sweep,
        a_released_key_has_a_head,
        a_resumed_key_has_a_head,
        a_key_whose_head_was_cancelled_has_another,
        a_retried_job_of_an_idle_key_is_its_head,
        a_job_that_became_pending_again_stands_behind_others,
        a_key_goes_on_when_a_stranger_held_its_lock,
    )
}
