"""Keyed jobs in callers' transactions: the order is that of the commits, and an open transaction is in nobody's way."""

import asyncio
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from asyncjobs.store import serialized
from asyncjobs.store.database import Database
from tests.support.eventually import Stopwatch
from tests.support.holding import pause_key
from tests.support.peers import Isolation, Peers, peers, spawn
from tests.support.scenarios import sweep

ISOLATIONS: list[Isolation] = ["read_committed", "repeatable_read", "serializable"]


@pytest.fixture
async def world(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("starts_first", ["a", "b"])
@pytest.mark.parametrize("commits_first", ["a", "b"])
async def test_the_transaction_that_commits_first_runs_first(
    world: Peers, isolation: Isolation, starts_first: str, commits_first: str
) -> None:
    ids: dict[str, int] = {}
    named = {"a": world.a, "b": world.b}
    for name in sorted(named, reverse=starts_first == "b"):
        await named[name].begin(isolation)
        ids[name] = await named[name].enqueue_in_transaction()
    order = sorted(named, reverse=commits_first == "b")
    for name in order:
        await named[name].commit()
    await sweep(world)
    assert await world.drain() == [ids[name] for name in order]


async def test_jobs_of_transactions_of_every_isolation_level_share_a_line(world: Peers) -> None:
    ids: list[int] = []
    for isolation in ISOLATIONS * 2:
        await world.a.begin(isolation)
        ids.append(await world.a.enqueue_in_transaction())
        await world.b.begin(isolation)
        late = await world.b.enqueue_in_transaction()
        await world.a.commit()
        await world.b.commit()
        ids.append(late)
    ids.append(await world.a.enqueue())
    assert await world.drain() == ids


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_rolled_back_transaction_leaves_no_gap_and_no_trace(world: Peers, isolation: Isolation) -> None:
    await world.a.begin(isolation)
    await world.a.enqueue_in_transaction(dedup_key="d")
    first = await world.b.enqueue()
    await world.a.rollback()
    second = await world.b.enqueue(dedup_key="d")
    assert await world.drain() == [first, second]
    for table in ("serialized_jobs", "dispatch_requests", "dedup_keys"):
        assert await world.admin.fetchval(f"SELECT count(*) FROM asyncjobs.{table}") == 0


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_rolled_back_savepoint_leaves_the_other_jobs_in_order(world: Peers, isolation: Isolation) -> None:
    connection = await world.a.link.connection()
    await world.a.begin(isolation)
    first = await world.a.enqueue_in_transaction()
    savepoint = connection.transaction()
    await savepoint.start()
    await world.a.enqueue_in_transaction("other")
    await world.a.enqueue_in_transaction()
    await savepoint.rollback()
    second = await world.a.enqueue_in_transaction()
    await world.a.commit()
    await sweep(world)
    assert await world.drain() == [first, second]


async def test_jobs_of_one_transaction_run_in_the_order_of_their_enqueues(world: Peers) -> None:
    for isolation in ISOLATIONS:
        await world.a.begin(isolation)
        ids = [await world.a.enqueue_in_transaction() for _ in range(5)]
        await world.a.commit()
        await sweep(world)
        assert await world.drain() == ids


async def test_job_is_invisible_until_the_commit_and_dispatched_by_it(world: Peers) -> None:
    await world.a.begin()
    job_id = await world.a.enqueue_in_transaction()
    assert await world.line() == []
    assert await world.b.claim() == []
    await world.a.commit()
    assert await world.line() == [(job_id, "pending")]


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_snapshot_isolated_transaction_asks_a_serializer(world: Peers, isolation: Isolation) -> None:
    heard: list[str] = []
    await world.admin.add_listener(world.database.channel, lambda *args: heard.append(str(args[3])))
    await world.a.begin(isolation)
    job_id = await world.a.enqueue_in_transaction()
    await world.a.commit()
    await world.admin.fetchval("SELECT 1")
    assert heard == ["q:default", "k"]
    assert await world.line() == [(job_id, "waiting")]
    found = await serialized.sweep(world.b.link, "", 0)
    assert list(found.requests) == ["k"]
    await serialized.advance(world.b.link, ["k"], found.requests["k"])
    assert await world.line() == [(job_id, "pending")]
    assert (await serialized.sweep(world.b.link, "", 0)).requests == {}


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_open_transaction_delays_nobody(world: Peers, isolation: Isolation) -> None:
    """Neither its own key nor one in the same slot: enqueue, ack, dispatch and verbs go on while it is open."""
    first = await world.b.enqueue()
    await world.a.begin(isolation)
    late = await world.a.enqueue_in_transaction()
    watch = Stopwatch()
    head = await world.b.claim_one()
    second = await world.b.enqueue()
    await world.b.ack(head)
    assert await world.line() == [(second, "pending")]
    assert await pause_key(world.b.link, "k", None, None)
    assert (await serialized.resume_key(world.b.link, "k"))[0]
    assert (await serialized.advance(world.b.link, ["k"], [])).blocked == []
    assert watch.stop() < 2.0
    assert await world.drain(world.b) == [second]
    await world.a.commit()
    await sweep(world)
    assert await world.drain() == [late]
    assert head.id == first


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_two_transactions_that_take_two_keys_in_opposite_orders_both_commit(world: Peers, isolation: Isolation) -> None:
    for _ in range(5):
        await world.a.begin(isolation)
        await world.b.begin(isolation)
        await world.a.enqueue_in_transaction("x")
        await world.b.enqueue_in_transaction("y")
        await world.a.enqueue_in_transaction("y")
        await world.b.enqueue_in_transaction("x")
        await asyncio.gather(world.a.commit(), world.b.commit())
    await sweep(world)
    assert len(await world.drain()) == 20


@pytest.mark.parametrize("isolation", ISOLATIONS)
async def test_two_commits_that_lock_many_keys_do_not_deadlock(world: Peers, isolation: Isolation) -> None:
    """Locks are taken in one order, whatever the order of the inserts."""
    keys = [f"key {number}" for number in range(40)]
    await world.a.begin(isolation)
    await world.b.begin(isolation)
    for one, other in zip(keys, reversed(keys), strict=True):
        await world.a.enqueue_in_transaction(one)
        await world.b.enqueue_in_transaction(other)
    await asyncio.gather(world.a.commit(), world.b.commit())
    await sweep(world)
    assert len(await world.drain()) == 80


async def test_key_taken_early_by_set_constraints_is_left_to_a_serializer_by_acks(world: Peers) -> None:
    """SET CONSTRAINTS ALL IMMEDIATE holds the key's lock until the commit. Acks do not wait for it, other keys do not notice."""
    await world.wait_for_keys("50ms")
    await world.b.enqueue()
    other = await world.b.enqueue("other")
    jobs = {job.id: job for job in await world.b.claim()}
    await world.a.begin()
    late = await world.a.enqueue_in_transaction()
    await (await world.a.link.connection()).execute("SET CONSTRAINTS ALL IMMEDIATE")
    watch = Stopwatch()
    for job in jobs.values():
        await world.b.ack(job)
    assert watch.stop() < 1.0
    assert await world.status(other) == "completed"
    assert (await serialized.advance(world.b.link, ["k", "other"], [])).blocked == ["k"]
    await world.a.commit()
    await sweep(world)
    assert await world.drain() == [late]


async def test_enqueue_in_a_batch_gives_up_on_a_key_that_a_stranger_holds(world: Peers) -> None:
    await world.a.begin()
    first = await world.a.enqueue_in_transaction()
    await (await world.a.link.connection()).execute("SET CONSTRAINTS ALL IMMEDIATE")
    enqueue = spawn(world.b.enqueue(lock_timeout="50ms"))
    with pytest.raises(asyncpg.LockNotAvailableError):
        await enqueue
    await world.a.commit()
    assert await world.drain() == [first]


async def test_functions_need_read_committed(world: Peers) -> None:
    """The documented limit of rule 1: in a snapshot the look after the lock is as old as the one before it."""
    await world.a.enqueue()
    head = await world.a.claim_one()
    await world.b.begin("repeatable_read")
    await (await world.b.link.connection()).fetchval("SELECT count(*) FROM asyncjobs.jobs")
    await world.a.ack(head)
    second = await world.b.enqueue()
    await world.b.commit()
    assert await world.line() == [(second, "waiting")]  # an own connection in a snapshot: only the sweep finds it
    await sweep(world)
    assert await world.drain() == [second]


async def test_own_connections_are_read_committed_whatever_the_role_says(world: Peers) -> None:
    database = await world.admin.fetchval("SELECT current_database()")
    await world.admin.execute(f"ALTER DATABASE \"{database}\" SET default_transaction_isolation = 'serializable'")
    link = world.database.link("own")
    try:
        assert await (await link.connection()).fetchval("SELECT current_setting('transaction_isolation')") == "read committed"
    finally:
        await link.close()
