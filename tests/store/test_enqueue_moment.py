"""What an enqueue in a caller's transaction counts from: its own moment, however long ago the transaction began."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from asyncjobs.store import serialized
from asyncjobs.testing import MovableClock
from tests.support.notices import without_lot
from tests.support.peers import Isolation, Peers
from tests.support.rows import each

HOUR = timedelta(hours=1)
ISOLATIONS: list[Isolation] = ["read_committed", "repeatable_read", "serializable"]
REPLACE: dict[str, Any] = {"dedup_key": "d", "on_duplicate": "replace"}


async def begin(pair: Peers, isolation: Isolation = "read_committed") -> datetime:
    """A moment after the caller's transaction has begun."""
    await pair.a.begin(isolation)
    connection = await pair.a.link.connection()
    began = await connection.fetchval("SELECT now()")
    later: datetime = await connection.fetchval("SELECT clock_timestamp()")
    assert later > began
    return later


@each("isolation", ISOLATIONS)
@each("key", [None, "k"])
async def test_delay_and_dedup_for_count_from_the_enqueue(pair: Peers, key: str | None, isolation: Isolation) -> None:
    moment = await begin(pair, isolation)
    await pair.a.enqueue_in_transaction(key, dedup_key="d", dedup_for_seconds=3600.0, delay_seconds=3600.0)
    await pair.a.commit()
    row = await pair.admin.fetchrow("SELECT run_at, scheduled_at, created_at, updated_at FROM asyncjobs.jobs")
    assert row is not None
    assert min(row["run_at"], row["scheduled_at"]) >= moment + HOUR
    assert min(row["created_at"], row["updated_at"]) >= moment
    assert await pair.admin.fetchval("SELECT expires_at FROM asyncjobs.dedup_keys") >= moment + HOUR


async def test_rows_of_one_call_have_one_moment(pair: Peers) -> None:
    await begin(pair)
    for _ in range(2):
        rows = "SELECT jsonb_agg(jsonb_build_object('type', 'email', 'queue', 'default', 'payload', '{}', 'enqueue_token', n,"
        rows += " 'delay_seconds', 60, 'serialization_key', CASE WHEN n > 2 THEN 'k' END)) FROM generate_series(1, 4) AS n"
        await (await pair.a.link.connection()).execute(f"SELECT asyncjobs.enqueue_in_transaction(({rows})::text, NULL)")
    await pair.a.commit()
    found = await pair.admin.fetch("SELECT created_at, run_at, count(*) AS count FROM asyncjobs.jobs GROUP BY 1, 2")
    assert [(row["count"], row["run_at"] - row["created_at"]) for row in found] == [(4, timedelta(minutes=1))] * 2


@each("isolation", ISOLATIONS)
@each("key", [None, "k"])
async def test_time_that_has_passed_since_the_transaction_began_is_past(
    pair: Peers, key: str | None, isolation: Isolation
) -> None:
    heard: list[str] = []
    await pair.admin.add_listener(pair.database.channel, lambda *args: heard.append(without_lot(args[3])))
    moment = await begin(pair, isolation)
    job_id = await pair.a.enqueue_in_transaction(key, run_at=moment)
    await pair.a.commit()
    await pair.admin.fetchval("SELECT 1")
    assert "q:default" in heard
    assert await pair.status(job_id) == ("pending" if key is None or isolation == "read_committed" else "waiting")
    await serialized.advance(pair.b.link, ["k"], [])


async def test_dedup_key_whose_time_has_ended_since_the_transaction_began_is_free(pair: Peers) -> None:
    first = await pair.b.enqueue(None, dedup_key="d", dedup_for_seconds=3600.0)
    await pair.b.ack(await pair.b.claim_one())
    moment = await begin(pair)
    await pair.admin.execute("UPDATE asyncjobs.dedup_keys SET expires_at = $1", moment)
    assert await pair.a.enqueue_in_transaction(None, dedup_key="d") != first
    await pair.a.commit()


@pytest.mark.parametrize("delay", [None, 0.0])
async def test_job_that_is_replaced_by_one_that_is_due_is_not_delayed(pair: Peers, delay: float | None) -> None:
    """Not even as long as the transaction takes from there to its commit."""
    plain = await pair.b.enqueue(None, dedup_key="p", delay_seconds=3600.0)
    head = await pair.b.enqueue()
    waiting = await pair.b.enqueue(dedup_key="d")
    await pair.b.enqueue()
    line = await pair.line()
    await begin(pair)
    assert await pair.a.enqueue_in_transaction(None, **REPLACE | {"dedup_key": "p"}, delay_seconds=delay) == plain
    assert await pair.a.enqueue_in_transaction(**REPLACE, delay_seconds=delay) == waiting
    await pair.a.commit()
    assert await pair.status(plain) == "pending"
    assert await pair.line() == line
    assert (await pair.drain())[1:3] == [plain, waiting]
    assert line[0] == (head, "pending")


@pytest.mark.parametrize("key", [None, "k"])
async def test_delay_of_a_replacement_counts_from_the_enqueue(pair: Peers, key: str | None) -> None:
    job_id = await pair.b.enqueue(key, dedup_key="d")
    moment = await begin(pair)
    assert await pair.a.enqueue_in_transaction(key, **REPLACE, delay_seconds=3600.0) == job_id
    await pair.a.commit()
    assert await pair.admin.fetchval("SELECT run_at FROM asyncjobs.jobs WHERE id = $1", job_id) >= moment + HOUR


async def test_head_of_a_key_is_due_when_it_is_dispatched_by_the_commit(pair: Peers) -> None:
    """So its time in the queue is not that of the transaction."""
    await begin(pair)
    await pair.a.enqueue_in_transaction()
    await pair.a.commit()
    row = await pair.admin.fetchrow("SELECT run_at, created_at FROM asyncjobs.jobs")
    assert row is not None
    assert row["run_at"] > row["created_at"]
    assert await pair.admin.fetchval("SELECT dispatched_at FROM asyncjobs.serialized_jobs") == row["run_at"]
    await pair.drain()


async def test_job_that_is_completed_in_its_handlers_transaction_has_ended_then(pair: Peers) -> None:
    await pair.b.enqueue(None)
    job = await pair.b.claim_one()
    moment = await begin(pair)
    await pair.a.link.fetch("complete_in_transaction", str(job.id), str(job.token), None, None, None, "false")
    await pair.a.commit()
    assert await pair.admin.fetchval("SELECT completed_at FROM asyncjobs.jobs") >= moment
    await pair.b.link.fetch("verify_completed", job.id, job.token)


async def test_moment_goes_along_with_the_clock_that_a_test_moves(pair: Peers) -> None:
    async with MovableClock(pair.database) as clock:
        await clock.advance(HOUR)
        moment = await begin(pair)
        job_id = await pair.a.enqueue_in_transaction(None, delay_seconds=60.0)
        await pair.a.commit()
        run_at = await pair.admin.fetchval("SELECT run_at FROM asyncjobs.jobs WHERE id = $1", job_id)
        assert HOUR <= run_at - moment - timedelta(minutes=1) < HOUR + timedelta(seconds=20)
        await pair.promote()
    await pair.drain()
