"""Keyed jobs in callers' transactions: the order is that of the commits, and an open transaction is in nobody's way."""

import asyncio

import asyncpg
import pytest

from asyncjobs.store import serialized
from tests.support.eventually import Stopwatch
from tests.support.holding import pause_key
from tests.support.notices import without_lot
from tests.support.peers import Isolation, Peers, spawn
from tests.support.rows import each
from tests.support.scenarios import sweep

ISOLATIONS: list[Isolation] = ["read_committed", "repeatable_read", "serializable"]


@each("isolation", ISOLATIONS)
@pytest.mark.parametrize("starts_first", ["a", "b"])
@pytest.mark.parametrize("commits_first", ["a", "b"])
async def test_the_transaction_that_commits_first_runs_first(
    pair: Peers, isolation: Isolation, starts_first: str, commits_first: str
) -> None:
    ids: dict[str, int] = {}
    named = {"a": pair.a, "b": pair.b}
    for name in sorted(named, reverse=starts_first == "b"):
        await named[name].begin(isolation)
        ids[name] = await named[name].enqueue_in_transaction()
    order = sorted(named, reverse=commits_first == "b")
    for name in order:
        await named[name].commit()
    await sweep(pair)
    assert await pair.drain() == [ids[name] for name in order]


async def test_jobs_of_transactions_of_every_isolation_level_share_a_line(pair: Peers) -> None:
    ids: list[int] = []
    for isolation in ISOLATIONS * 2:
        await pair.a.begin(isolation)
        ids.append(await pair.a.enqueue_in_transaction())
        await pair.b.begin(isolation)
        late = await pair.b.enqueue_in_transaction()
        await pair.a.commit()
        await pair.b.commit()
        ids.append(late)
    ids.append(await pair.a.enqueue())
    assert await pair.drain() == ids


@each("isolation", ISOLATIONS)
async def test_rolled_back_transaction_leaves_no_gap_and_no_trace(pair: Peers, isolation: Isolation) -> None:
    await pair.a.begin(isolation)
    await pair.a.enqueue_in_transaction(dedup_key="d")
    first = await pair.b.enqueue()
    await pair.a.rollback()
    second = await pair.b.enqueue(dedup_key="d")
    assert await pair.drain() == [first, second]
    for table in ("serialized_jobs", "dispatch_requests", "dedup_keys"):
        assert await pair.admin.fetchval(f"SELECT count(*) FROM asyncjobs.{table}") == 0


@each("isolation", ISOLATIONS)
async def test_rolled_back_savepoint_leaves_the_other_jobs_in_order(pair: Peers, isolation: Isolation) -> None:
    connection = await pair.a.link.connection()
    await pair.a.begin(isolation)
    first = await pair.a.enqueue_in_transaction()
    savepoint = connection.transaction()
    await savepoint.start()
    await pair.a.enqueue_in_transaction("other")
    await pair.a.enqueue_in_transaction()
    await savepoint.rollback()
    second = await pair.a.enqueue_in_transaction()
    await pair.a.commit()
    await sweep(pair)
    assert await pair.drain() == [first, second]


async def test_jobs_of_one_transaction_run_in_the_order_of_their_enqueues(pair: Peers) -> None:
    for isolation in ISOLATIONS:
        await pair.a.begin(isolation)
        ids = [await pair.a.enqueue_in_transaction() for _ in range(5)]
        await pair.a.commit()
        await sweep(pair)
        assert await pair.drain() == ids


async def test_job_is_invisible_until_the_commit_and_dispatched_by_it(pair: Peers) -> None:
    await pair.a.begin()
    job_id = await pair.a.enqueue_in_transaction()
    assert await pair.line() == []
    assert await pair.b.claim() == []
    await pair.a.commit()
    assert await pair.line() == [(job_id, "pending")]


@each("isolation", ["repeatable_read", "serializable"])
async def test_snapshot_isolated_transaction_asks_a_serializer(pair: Peers, isolation: Isolation) -> None:
    heard: list[str] = []
    await pair.admin.add_listener(pair.database.channel, lambda *args: heard.append(without_lot(args[3])))
    await pair.a.begin(isolation)
    job_id = await pair.a.enqueue_in_transaction()
    await pair.a.commit()
    await pair.admin.fetchval("SELECT 1")
    assert heard == ["q:default", "k"]
    assert await pair.line() == [(job_id, "waiting")]
    found = await serialized.sweep(pair.b.link, "", 0)
    assert list(found.requests) == ["k"]
    await serialized.advance(pair.b.link, ["k"], found.requests["k"])
    assert await pair.line() == [(job_id, "pending")]
    assert (await serialized.sweep(pair.b.link, "", 0)).requests == {}


@each("isolation", ISOLATIONS)
async def test_open_transaction_delays_nobody(pair: Peers, isolation: Isolation) -> None:
    """Neither its own key nor one in the same slot: enqueue, ack, dispatch and verbs go on while it is open."""
    first = await pair.b.enqueue()
    await pair.a.begin(isolation)
    late = await pair.a.enqueue_in_transaction()
    watch = Stopwatch()
    head = await pair.b.claim_one()
    second = await pair.b.enqueue()
    await pair.b.ack(head)
    assert await pair.line() == [(second, "pending")]
    assert await pause_key(pair.b.link, "k", None, None)
    assert (await serialized.resume_key(pair.b.link, "k"))[0]
    assert (await serialized.advance(pair.b.link, ["k"], [])).blocked == []
    assert watch.stop() < 2.0
    assert await pair.drain(pair.b) == [second]
    await pair.a.commit()
    await sweep(pair)
    assert await pair.drain() == [late]
    assert head.id == first


@each("isolation", ISOLATIONS)
async def test_two_transactions_that_take_two_keys_in_opposite_orders_both_commit(pair: Peers, isolation: Isolation) -> None:
    for _ in range(5):
        await pair.a.begin(isolation)
        await pair.b.begin(isolation)
        await pair.a.enqueue_in_transaction("x")
        await pair.b.enqueue_in_transaction("y")
        await pair.a.enqueue_in_transaction("y")
        await pair.b.enqueue_in_transaction("x")
        await asyncio.gather(pair.a.commit(), pair.b.commit())
    await sweep(pair)
    assert len(await pair.drain()) == 20


@each("isolation", ISOLATIONS)
async def test_two_commits_that_lock_many_keys_do_not_deadlock(pair: Peers, isolation: Isolation) -> None:
    """Locks are taken in one order, whatever the order of the inserts."""
    keys = [f"key {number}" for number in range(40)]
    await pair.a.begin(isolation)
    await pair.b.begin(isolation)
    for one, other in zip(keys, reversed(keys), strict=True):
        await pair.a.enqueue_in_transaction(one)
        await pair.b.enqueue_in_transaction(other)
    await asyncio.gather(pair.a.commit(), pair.b.commit())
    await sweep(pair)
    assert len(await pair.drain()) == 80


async def test_key_taken_early_by_set_constraints_is_left_to_a_serializer_by_acks(pair: Peers) -> None:
    """SET CONSTRAINTS ALL IMMEDIATE holds the key's lock until the commit. Acks do not wait for it, other keys do not notice."""
    await pair.wait_for_keys("50ms")
    await pair.b.enqueue()
    other = await pair.b.enqueue("other")
    jobs = {job.id: job for job in await pair.b.claim()}
    await pair.a.begin()
    late = await pair.a.enqueue_in_transaction()
    await (await pair.a.link.connection()).execute("SET CONSTRAINTS ALL IMMEDIATE")
    watch = Stopwatch()
    for job in jobs.values():
        await pair.b.ack(job)
    assert watch.stop() < 1.0
    assert await pair.status(other) == "completed"
    assert (await serialized.advance(pair.b.link, ["k", "other"], [])).blocked == ["k"]
    await pair.a.commit()
    await sweep(pair)
    assert await pair.drain() == [late]


async def test_enqueue_in_a_batch_gives_up_on_a_key_that_a_stranger_holds(pair: Peers) -> None:
    await pair.a.begin()
    first = await pair.a.enqueue_in_transaction()
    await (await pair.a.link.connection()).execute("SET CONSTRAINTS ALL IMMEDIATE")
    enqueue = spawn(pair.b.enqueue(lock_timeout="50ms"))
    with pytest.raises(asyncpg.LockNotAvailableError):
        await enqueue
    await pair.a.commit()
    assert await pair.drain() == [first]


async def test_functions_need_read_committed(pair: Peers) -> None:
    """The documented limit of rule 1: in a snapshot the look after the lock is as old as the one before it."""
    await pair.a.enqueue()
    head = await pair.a.claim_one()
    await pair.b.begin("repeatable_read")
    await (await pair.b.link.connection()).fetchval("SELECT count(*) FROM asyncjobs.jobs")
    await pair.a.ack(head)
    second = await pair.b.enqueue()
    await pair.b.commit()
    assert await pair.line() == [(second, "waiting")]  # an own connection in a snapshot: only the sweep finds it
    await sweep(pair)
    assert await pair.drain() == [second]


async def test_own_connections_are_read_committed_whatever_the_role_says(pair: Peers) -> None:
    database = await pair.admin.fetchval("SELECT current_database()")
    await pair.admin.execute(f"ALTER DATABASE \"{database}\" SET default_transaction_isolation = 'serializable'")
    link = pair.database.link("own")
    try:
        assert await (await link.connection()).fetchval("SELECT current_setting('transaction_isolation')") == "read committed"
    finally:
        await link.close()
