"""What an enqueue in a caller's transaction counts from: its own moment, however long ago the transaction began."""

from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from typing import Any

import pytest

from asyncjobs.store import serialized
from asyncjobs.store.database import Database
from asyncjobs.testing import MovableClock
from tests.support.peers import Isolation, Peers, peers

HOUR = timedelta(hours=1)
ISOLATIONS: list[Isolation] = ["read_committed", "repeatable_read", "serializable"]
REPLACE: dict[str, Any] = {"dedup_key": "d", "on_duplicate": "replace"}


@pytest.fixture
async def world(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made


async def begin(world: Peers, isolation: Isolation = "read_committed") -> datetime:
    """A moment after the caller's transaction has begun."""
    await world.a.begin(isolation)
    connection = await world.a.link.connection()
    began = await connection.fetchval("SELECT now()")
    later: datetime = await connection.fetchval("SELECT clock_timestamp()")
    assert later > began
    return later


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("key", [None, "k"])
async def test_delay_and_dedup_for_count_from_the_enqueue(world: Peers, key: str | None, isolation: Isolation) -> None:
    moment = await begin(world, isolation)
    await world.a.enqueue_in_transaction(key, dedup_key="d", dedup_for_seconds=3600.0, delay_seconds=3600.0)
    await world.a.commit()
    row = await world.admin.fetchrow("SELECT run_at, scheduled_at, created_at, updated_at FROM asyncjobs.jobs")
    assert row is not None
    assert min(row["run_at"], row["scheduled_at"]) >= moment + HOUR
    assert min(row["created_at"], row["updated_at"]) >= moment
    assert await world.admin.fetchval("SELECT expires_at FROM asyncjobs.dedup_keys") >= moment + HOUR


async def test_rows_of_one_call_have_one_moment(world: Peers) -> None:
    await begin(world)
    for _ in range(2):
        rows = "SELECT jsonb_agg(jsonb_build_object('type', 'email', 'queue', 'default', 'payload', '{}', 'enqueue_token', n,"
        rows += " 'delay_seconds', 60, 'serialization_key', CASE WHEN n > 2 THEN 'k' END)) FROM generate_series(1, 4) AS n"
        await (await world.a.link.connection()).execute(f"SELECT asyncjobs.enqueue_in_transaction(({rows})::text, NULL)")
    await world.a.commit()
    found = await world.admin.fetch("SELECT created_at, run_at, count(*) AS count FROM asyncjobs.jobs GROUP BY 1, 2")
    assert [(row["count"], row["run_at"] - row["created_at"]) for row in found] == [(4, timedelta(minutes=1))] * 2


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("key", [None, "k"])
async def test_time_that_has_passed_since_the_transaction_began_is_past(
    world: Peers, key: str | None, isolation: Isolation
) -> None:
    heard: list[str] = []
    await world.admin.add_listener(world.database.channel, lambda *args: heard.append(str(args[3])))
    moment = await begin(world, isolation)
    job_id = await world.a.enqueue_in_transaction(key, run_at=moment)
    await world.a.commit()
    await world.admin.fetchval("SELECT 1")
    assert "q:default" in heard
    assert await world.status(job_id) == ("pending" if key is None or isolation == "read_committed" else "waiting")
    await serialized.advance(world.b.link, ["k"], [])


async def test_dedup_key_whose_time_has_ended_since_the_transaction_began_is_free(world: Peers) -> None:
    first = await world.b.enqueue(None, dedup_key="d", dedup_for_seconds=3600.0)
    await world.b.ack(await world.b.claim_one())
    moment = await begin(world)
    await world.admin.execute("UPDATE asyncjobs.dedup_keys SET expires_at = $1", moment)
    assert await world.a.enqueue_in_transaction(None, dedup_key="d") != first
    await world.a.commit()


@pytest.mark.parametrize("delay", [None, 0.0])
async def test_job_that_is_replaced_by_one_that_is_due_is_not_delayed(world: Peers, delay: float | None) -> None:
    """Not even as long as the transaction takes from there to its commit."""
    plain = await world.b.enqueue(None, dedup_key="p", delay_seconds=3600.0)
    head = await world.b.enqueue()
    waiting = await world.b.enqueue(dedup_key="d")
    await world.b.enqueue()
    line = await world.line()
    await begin(world)
    assert await world.a.enqueue_in_transaction(None, **REPLACE | {"dedup_key": "p"}, delay_seconds=delay) == plain
    assert await world.a.enqueue_in_transaction(**REPLACE, delay_seconds=delay) == waiting
    await world.a.commit()
    assert await world.status(plain) == "pending"
    assert await world.line() == line
    assert (await world.drain())[1:3] == [plain, waiting]
    assert line[0] == (head, "pending")


@pytest.mark.parametrize("key", [None, "k"])
async def test_delay_of_a_replacement_counts_from_the_enqueue(world: Peers, key: str | None) -> None:
    job_id = await world.b.enqueue(key, dedup_key="d")
    moment = await begin(world)
    assert await world.a.enqueue_in_transaction(key, **REPLACE, delay_seconds=3600.0) == job_id
    await world.a.commit()
    assert await world.admin.fetchval("SELECT run_at FROM asyncjobs.jobs WHERE id = $1", job_id) >= moment + HOUR


async def test_head_of_a_key_is_due_when_it_is_dispatched_by_the_commit(world: Peers) -> None:
    """So its time in the queue is not that of the transaction."""
    await begin(world)
    await world.a.enqueue_in_transaction()
    await world.a.commit()
    row = await world.admin.fetchrow("SELECT run_at, created_at FROM asyncjobs.jobs")
    assert row is not None
    assert row["run_at"] > row["created_at"]
    assert await world.admin.fetchval("SELECT dispatched_at FROM asyncjobs.serialized_jobs") == row["run_at"]
    await world.drain()


async def test_job_that_is_completed_in_its_handlers_transaction_has_ended_then(world: Peers) -> None:
    await world.b.enqueue(None)
    job = await world.b.claim_one()
    moment = await begin(world)
    await world.a.link.fetch("complete_in_transaction", str(job.id), str(job.token), None, None, None)
    await world.a.commit()
    assert await world.admin.fetchval("SELECT completed_at FROM asyncjobs.jobs") >= moment
    await world.b.link.fetch("verify_completed", job.id, job.token)


async def test_moment_goes_along_with_the_clock_that_a_test_moves(world: Peers) -> None:
    async with MovableClock(world.database) as clock:
        await clock.advance(HOUR)
        moment = await begin(world)
        job_id = await world.a.enqueue_in_transaction(None, delay_seconds=60.0)
        await world.a.commit()
        run_at = await world.admin.fetchval("SELECT run_at FROM asyncjobs.jobs WHERE id = $1", job_id)
        assert HOUR <= run_at - moment - timedelta(minutes=1) < HOUR + timedelta(seconds=20)
        await world.promote()
    await world.drain()
