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


async def enqueue_races_with_the_ack_of_the_last_job(world: Peers) -> None:
    """The enqueue is first: it saw the head dispatched. The ack waits for it, and looks again."""
    a, b = world.a, world.b
    await a.enqueue()
    head = await b.claim_one()
    await a.begin()
    second = await a.enqueue()
    ack = spawn(b.ack(head))
    await world.waits_for_lock(b)
    await a.commit()
    await ack
    assert await world.line() == [(second, "pending")]


async def ack_of_the_last_job_races_with_an_enqueue(world: Peers) -> None:
    """The ack is first: it found the key empty. The enqueue waits for it, and finds the key idle."""
    a, b = world.a, world.b
    await a.enqueue()
    head = await b.claim_one()
    await b.begin()
    await b.ack(head)
    enqueue = spawn(a.enqueue())
    await world.waits_for_lock(a)
    await b.commit()
    second = await enqueue
    assert await world.line() == [(second, "pending")]


async def join_at_a_commit_races_with_the_ack_of_the_last_job(world: Peers) -> None:
    a, b = world.a, world.b
    await a.enqueue()
    head = await b.claim_one()
    await b.begin()
    await b.ack(head)
    await a.begin()
    second = await a.enqueue_in_transaction()
    commit = spawn(a.commit())
    await world.waits_for_lock(a)
    await b.commit()
    await commit
    assert await world.line() == [(second, "pending")]


async def two_enqueues_race_for_an_idle_key(world: Peers) -> None:
    await world.a.begin()
    first = await world.a.enqueue()
    enqueue = spawn(world.b.enqueue())
    await world.waits_for_lock(world.b)
    await world.a.commit()
    second = await enqueue
    assert await world.line() == [(first, "pending"), (second, "waiting")]


async def a_dispatch_of_a_busy_key_does_nothing(world: Peers) -> None:
    first = await world.a.enqueue(times=2) - 1
    done = await serialized.advance(world.b.link, ["k"], [])
    assert (done.count, done.blocked) == (0, [])
    assert await world.line() == [(first, "pending"), (first + 1, "waiting")]


async def a_dispatch_does_not_wait_for_the_ack_of_the_head(world: Peers) -> None:
    """Without the filter of idle keys the dispatch locks the row that the ack has just dispatched, and waits for it."""
    await world.a.enqueue(times=3)
    head = await world.a.claim_one()
    await world.a.begin()
    await world.a.ack(head)
    link = await world.b.link.connection()
    await link.execute("SET lock_timeout = '200ms'")
    assert (await serialized.advance(world.b.link, ["k"], [])).count == 0
    await world.a.commit()
    assert [state for _, state in await world.line()] == ["pending", "waiting"]


async def a_dispatch_under_an_old_snapshot_makes_no_second_head(world: Peers) -> None:
    """What a process believes does not matter: the database has one dispatched row per key."""
    await world.b.begin("repeatable_read")
    await (await world.b.link.connection()).fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs")
    first = await world.a.enqueue()
    await insert_waiting(await world.b.link.connection(), "k")
    try:
        await (await world.b.link.connection()).fetch("SELECT asyncjobs.dispatch_keys(ARRAY['k'])")
        await world.b.commit()
    except asyncpg.UniqueViolationError:
        await world.b.rollback()
    assert await world.drain() == [first]


async def jobs_run_in_the_order_of_the_commits(world: Peers) -> None:
    """Not in the order in which the transactions began, nor in that of their inserts."""
    a, b = world.a, world.b
    head = await a.enqueue()
    await a.begin()
    early = await a.enqueue_in_transaction()
    await b.begin()
    late = await b.enqueue_in_transaction()
    await b.commit()
    own = await b.enqueue()
    await a.commit()
    assert await world.drain() == [head, late, own, early]


async def a_late_ack_touches_nothing(world: Peers) -> None:
    """The attempt's runner was taken for dead, the job was claimed anew: the former owner has nothing to say any more."""
    await world.a.enqueue(times=2)
    stale = await world.a.claim_one()
    await world.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await runners.rescue(world.b.link, 100, max_errors=10)
    again = await world.b.claim_one()
    assert again.id == stale.id
    assert (await world.a.ack(stale)).lost == [stale.token]
    assert await world.status(stale.id) == "processing"
    assert (await world.b.ack(again)).lost == []


async def a_late_ack_is_read_back_as_lost(world: Peers) -> None:
    """The answer of an ack did not come, and meanwhile the job was rescued: that ack was not written."""
    await world.a.enqueue()
    stale = await world.a.claim_one()
    await world.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await runners.rescue(world.b.link, 100, max_errors=10)
    assert await jobs.still_processing(world.a.link, [Ack(stale.id, stale.token, Outcome(kind="completed"))]) == {}


async def a_request_is_carried_out_by_the_sweep_when_nobody_did(world: Peers) -> None:
    await world.a.begin("repeatable_read")
    job_id = await world.a.enqueue_in_transaction()
    await world.a.commit()
    assert await world.line() == [(job_id, "waiting")]
    await world.admin.execute("DELETE FROM asyncjobs.dispatch_requests")  # its serializer died with it
    await sweep(world)
    assert await world.line() == [(job_id, "pending")]


async def a_key_whose_head_is_gone_goes_on_with_the_sweep(world: Peers) -> None:
    second = await world.a.enqueue(times=2)
    await world.admin.execute("DELETE FROM asyncjobs.jobs WHERE id <> $1", second)
    await sweep(world)
    assert await world.line() == [(second, "pending")]


async def a_job_that_was_taken_out_of_its_line_joins_it_again_with_the_sweep(world: Peers) -> None:
    """It had been delayed: its row in `jobs` waits for a dispatch that nobody would make."""
    await world.a.enqueue()
    delayed = await world.a.enqueue(delay_seconds=3600.0)
    await world.promote()
    last = await world.a.enqueue()
    await world.admin.execute("DELETE FROM asyncjobs.serialized_jobs WHERE id = $1", delayed)
    await sweep(world)
    await world.promote()
    assert await world.line() == [(delayed - 1, "pending"), (last, "waiting"), (delayed, "waiting")]


async def a_released_key_has_a_head(world: Peers) -> None:
    second = await world.a.enqueue(times=2, on_dead="halt")
    await world.a.ack(await world.a.claim_one(), "dead", message="no")
    assert await world.line() == [(second - 1, "halted"), (second, "waiting")]
    await serialized.release_key(world.a.link, "k")
    assert await world.line() == [(second, "pending")]


async def a_resumed_key_has_a_head(world: Peers) -> None:
    await pause_key(world.a.link, "k", None, None)
    job_id = await world.a.enqueue()
    assert await world.line() == [(job_id, "waiting")]
    await serialized.resume_key(world.a.link, "k")
    assert await world.line() == [(job_id, "pending")]


async def a_key_whose_head_was_cancelled_has_another(world: Peers) -> None:
    second = await world.a.enqueue(times=2)
    assert (await serialized.cancel(world.b.link, second - 1, "no")).outcome == "cancelled"
    assert await world.line() == [(second, "pending")]


async def a_retried_job_of_an_idle_key_is_its_head(world: Peers) -> None:
    job_id = await world.a.enqueue()
    await world.a.ack(await world.a.claim_one(), "dead", message="no")
    await serialized.retry(world.a.link, job_id, "me")
    assert await world.line() == [(job_id, "pending")]


async def a_job_that_became_pending_again_stands_behind_others(world: Peers) -> None:
    """Else the heads of keys that fail for ever would be claimed before everybody else's."""
    failing = await world.a.enqueue("hot")
    await world.a.ack(await world.a.claim_one(), "retry", error={"message": "no"})
    other = await world.a.enqueue("cold")
    await world.promote()
    assert await world.drain() == [other, failing]


async def a_key_goes_on_when_a_stranger_held_its_lock(world: Peers) -> None:
    """The ack does not wait for a transaction that may stay open for hours: it leaves the key to a serializer."""
    a, b = world.a, world.b
    await a.enqueue()
    head = await b.claim_one()
    await a.begin()
    second = await a.enqueue()
    await world.wait_for_keys("50ms")
    await b.ack(head)  # gives up
    assert await world.admin.fetchval("SELECT count(*) FROM asyncjobs.dispatch_requests") == 1
    await a.commit()
    assert await world.line() == [(second, "waiting")]
    found = await serialized.sweep(b.link, "", 0)
    await serialized.advance(b.link, list(found.requests), [number for ids in found.requests.values() for number in ids])
    assert await world.line() == [(second, "pending")]
    assert await world.admin.fetchval("SELECT count(*) FROM asyncjobs.dispatch_requests") == 0


async def sweep(world: Peers) -> None:
    """One round of a serializer."""
    found = await serialized.sweep(world.b.link, "", 1000)
    for job_id in found.ended:
        await serialized.release_ended(world.b.link, job_id)
    await serialized.rejoin(world.b.link, found.lost)
    await serialized.advance(world.b.link, [*found.stalled, *found.requests], [])


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
