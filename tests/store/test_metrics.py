"""The roll-up's rows: added to, folded, read."""

import math
import random
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncjobs.errors import LeaseLost
from asyncjobs.model.histogram import bucket
from asyncjobs.store import metrics, series
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.store.leases import Fence
from asyncjobs.store.metrics import Tally, TypeMetrics
from asyncjobs.testing import MovableClock
from tests.support.factories import insert, insert_job, insert_place, insert_waiting

DAY = 86_400.0
KEPT = {"minutes": 7200.0, "hours": DAY, "quarters": 7 * DAY, "days": 90 * DAY}


@pytest.fixture
async def clock(database: Database) -> AsyncGenerator[MovableClock]:
    async with MovableClock(database) as made:
        yield made


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("metrics")
    yield made
    await made.close()


def tally(*run_seconds: float, queued: float = 0.5) -> Tally:
    made = Tally()
    for seconds in run_seconds:
        made.count += 1
        made.queue_seconds += queued
        made.run_seconds += seconds
        made.queue_time[bucket(queued)] = made.queue_time.get(bucket(queued), 0) + 1
        made.run_time[bucket(seconds)] = made.run_time.get(bucket(seconds), 0) + 1
    return made


@pytest.mark.parametrize("queued", [math.inf, -math.inf, math.nan])
def test_wait_that_is_no_number_is_left_out_of_the_sum(queued: float) -> None:
    made = Tally()
    made.add(queued, 1.0)
    made.add(0.5, 1.0)
    assert (made.count, made.queue_seconds, made.run_seconds) == (2, 0.5, 2.0)
    assert made.queue_time == {bucket(0.5): 1}


async def fold(link: Link, **kept: float) -> int:
    rows, more = 0, True
    while more:
        folded, more = await metrics.fold(link, fence=None, **(KEPT | kept))
        rows += folded
    return rows


async def rows(connection: Connection) -> list[Any]:
    return await connection.fetch(
        "SELECT job_type, status, span, count FROM asyncjobs.job_metrics ORDER BY span, minute, job_type, status"
    )


async def one(link: Link, type: str = "email", window: float = 3600.0) -> TypeMetrics:
    (found,) = await metrics.read(link, type, window)
    return found


@pytest.mark.matrix("schema")
async def test_what_two_runners_counted_adds_up(link: Link, database: Database) -> None:
    other = database.link("metrics")
    await metrics.record(link, {("email", "completed"): tally(1.0, 1.0, 1.0), ("email", "failed"): tally(8.0, queued=0.7)})
    await metrics.record(other, {("email", "completed"): tally(2.0, queued=0.7), ("sms", "dead"): tally(0.1)})
    await other.close()
    email, sms = await metrics.read(link, None, 3600.0)
    assert (email.type, email.attempts, email.failed, email.by_status) == ("email", 5, 1, {"completed": 4, "failed": 1})
    assert (sms.type, sms.attempts, sms.failed, sms.error_rate) == ("sms", 1, 1, 1.0)
    assert email.error_rate == 0.2
    assert email.run_time.p50 == pytest.approx(1.0, rel=0.02)
    assert email.run_time.p99 == pytest.approx(8.0, rel=0.02)
    assert email.queue_time.p50 == pytest.approx(0.5, rel=0.02)
    assert email.queue_time.p95 == pytest.approx(0.7, rel=0.02)


async def test_minutes_become_hours_then_quarters_of_a_day_then_days_and_nothing_is_lost(
    link: Link, connection: Connection, clock: MovableClock
) -> None:
    await clock.set(await connection.fetchval("SELECT date_trunc('day', now(), 'UTC') + interval '10 minutes'"))
    for _ in range(6):
        await metrics.record(link, {("email", "completed"): tally(1.0, 4.0), ("email", "dead"): tally(9.0)})
        await clock.advance(timedelta(minutes=20))
    assert await fold(link) == 0, "an hour is folded when all of it is old"
    await clock.advance(timedelta(minutes=70))
    before = await one(link, window=DAY)
    assert await fold(link) == 6
    assert [(row["count"], row["span"]) for row in await rows(connection)] == [
        *[(2, timedelta(minutes=1)), (1, timedelta(minutes=1))] * 3,
        *[(6, timedelta(hours=1)), (3, timedelta(hours=1))],
    ]
    assert await one(link, window=DAY) == before
    await clock.advance(timedelta(days=2))
    assert await fold(link) == 6 + 4
    assert [(row["count"], row["span"]) for row in await rows(connection)] == [(12, timedelta(hours=6)), (6, timedelta(hours=6))]
    assert await one(link, window=7 * DAY) == before
    await clock.advance(timedelta(days=7))
    await fold(link)
    assert [(row["status"], row["count"], row["span"]) for row in await rows(connection)] == [
        ("completed", 12, timedelta(days=1)),
        ("dead", 6, timedelta(days=1)),
    ]
    assert await one(link, window=30 * DAY) == before
    assert await metrics.read(link, None, DAY) == []
    await clock.advance(timedelta(days=91))
    assert await fold(link) == 2
    assert await rows(connection) == []


async def test_nothing_is_folded_when_the_term_is_over(link: Link, connection: Connection, clock: MovableClock) -> None:
    await metrics.record(link, {("email", "completed"): tally(1.0)})
    await clock.advance(timedelta(hours=4))
    await insert(connection, "background_job_leases", job_name="rollup", held_by_worker_id="1", token=5)
    with pytest.raises(LeaseLost):
        await metrics.fold(link, fence=Fence("rollup", 1, 4), **KEPT)
    assert [row["span"] for row in await rows(connection)] == [timedelta(minutes=1)]
    assert await metrics.fold(link, fence=Fence("rollup", 1, 5), **KEPT) == (1, True)


async def test_a_row_that_is_late_joins_the_span_that_was_folded(link: Link, connection: Connection, clock: MovableClock) -> None:
    """A step of the server's clock: an old minute once more."""
    start = await connection.fetchval("SELECT date_trunc('day', now(), 'UTC')")
    for _ in range(2):
        await clock.set(start)
        await metrics.record(link, {("email", "completed"): tally(1.0)})
        await clock.set(start + timedelta(hours=4))
        await fold(link)
    assert [(row["count"], row["span"]) for row in await rows(connection)] == [(2, timedelta(hours=1))]


@pytest.mark.parametrize("rounds", [40, pytest.param(500, marks=pytest.mark.proof)])
async def test_a_million_executions_over_a_month_are_few_rows_and_exact_to_five_percent(
    link: Link, connection: Connection, clock: MovableClock, rounds: int
) -> None:
    """20 types; each round is a runner's roll-up of 2,000 executions, an hour and a half after the one before."""
    chance = random.Random(7)
    exact: list[float] = []
    for _ in range(rounds):
        tallies: dict[tuple[str, str], Tally] = {}
        for number in range(20):
            durations = [chance.lognormvariate(-3.0, 1.5) for _ in range(100)]
            exact += durations if number == 0 else []
            tallies[f"type {number}", "completed"] = tally(*durations)
        await metrics.record(link, tallies)
        await clock.advance(timedelta(minutes=90))
        await fold(link)
    count = await connection.fetchval("SELECT sum(count) FROM asyncjobs.job_metrics")
    assert count == rounds * 2_000
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.job_metrics") < 10_000
    exact.sort()
    found = await one(link, "type 0", 40 * DAY)
    for fraction, value in ((0.5, found.run_time.p50), (0.95, found.run_time.p95), (0.99, found.run_time.p99)):
        assert value == pytest.approx(exact[int(fraction * len(exact)) - 1], rel=0.05)


async def test_a_history_is_the_steps_and_the_types_of_the_same_rows(link: Link, clock: MovableClock) -> None:
    await clock.set(datetime(2026, 5, 4, 12, 0, 30, tzinfo=UTC))
    await metrics.record(link, {("email", "completed"): tally(1.0, 4.0), ("sms", "dead"): tally(9.0, queued=0.1)})
    await clock.advance(timedelta(minutes=2))
    await metrics.record(link, {("email", "failed"): tally(2.0)})
    found = await series.history(link, step_seconds=60.0, window_seconds=300.0)
    assert found.steps == await series.read(link, None, None, step_seconds=60.0, window_seconds=300.0)
    assert [step.by_status for step in found.steps] == [{}, {}, {"completed": 2, "dead": 1}, {}, {"failed": 1}]
    assert found.types == await metrics.read(link, None, 300.0)
    assert [(one.type, one.attempts, one.failed) for one in found.types] == [("email", 3, 1), ("sms", 1, 1)]
    assert (await series.history(link, step_seconds=60.0, window_seconds=60.0)).types[0].attempts == 1


async def test_the_health_of_queues_shows_what_is_unfinished_and_what_ended_within_the_hour(
    link: Link, connection: Connection, clock: MovableClock
) -> None:
    now = await connection.fetchval("SELECT asyncjobs.clock()")
    for minutes in (10, 20):
        await insert_job(connection, type="email", run_at=now - timedelta(minutes=minutes))
    await insert_job(connection, type="email", status="scheduled", run_at=now + timedelta(hours=1))
    head = await insert_job(
        connection, type="email", status="processing", claim_token=1, runner_id=1, run_at=now - timedelta(seconds=9),
        started_at=now - timedelta(seconds=2), serialization_key="k",
    )  # fmt: skip
    await insert_place(connection, "k", head, is_head=True, place=1)
    await insert_job(connection, type="email", status="completed")  # finished rows are not read
    await insert_waiting(connection, "k", type="email", place=2, created_at=now - timedelta(seconds=30))
    await metrics.record(link, {("email", "completed"): tally(1.0, 1.0, queued=4.0), ("email", "failed"): tally(1.0)})
    await clock.advance(timedelta(0))
    found = await connection.fetch("SELECT * FROM asyncjobs.job_queue_health ORDER BY type, status")
    assert [(row["type"], row["status"], row["count"]) for row in found] == [
        ("email", "completed", 2),
        ("email", "pending", 2),
        ("email", "processing", 1),
        ("email", "scheduled", 1),
        ("email", "waiting", 1),
    ]
    by_status = {row["status"]: row for row in found}
    assert by_status["pending"]["oldest"] == now - timedelta(minutes=20)
    assert by_status["pending"]["average_wait"] >= timedelta(minutes=15)
    assert by_status["processing"]["average_wait"] == timedelta(seconds=7)
    assert by_status["scheduled"]["average_wait"] == timedelta(0)
    assert by_status["completed"]["average_wait"] == timedelta(seconds=4)


async def test_the_health_of_queues_reads_no_finished_rows(connection: Connection) -> None:
    await connection.execute(
        "INSERT INTO asyncjobs.jobs (enqueue_token, queue, type, payload, status, place, completed_at) "
        "SELECT 0, 'default', 'email', '{}', 'completed', n, now() FROM generate_series(1, 20000) AS n"
    )
    await connection.execute("ANALYZE asyncjobs.jobs")
    plan = await connection.fetch("EXPLAIN SELECT * FROM asyncjobs.job_queue_health ORDER BY type, status")
    text = "\n".join(row[0] for row in plan)
    assert "Seq Scan on jobs" not in text, text
