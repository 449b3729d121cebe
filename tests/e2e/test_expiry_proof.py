"""Expiry and debounce under load: the figures of what they promise. (`pytest -m proof -s`)"""

import asyncio
import json
import sys
import time
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Backoff, Debounce, JobContext, Queue, Snooze
from asyncjobs.store.database import Connection
from asyncjobs.testing import MovableClock
from tests.support.eventually import eventually

_ROW = """INSERT INTO asyncjobs.jobs (type, status, enqueue_token, start_before)
    SELECT 'email', 'pending', 1, CASE WHEN $2 THEN now() - interval '1 second' END FROM generate_series(1, $1::int)"""


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


@pytest.mark.proof
async def test_ten_thousand_jobs_that_expire_while_a_runner_is_slow(dsn: str, connection: Connection) -> None:
    """With keys, jobs claimed ahead, retries, snoozes, pauses and a clock that is moved: none starts late, none is left."""
    app = AsyncJobs(dsn, queues=[Queue(concurrency=20, prefetch=50)], poll_interval=0.5, promote_interval=0.5)
    late: list[int] = []
    ran = 0

    @app.job("slow", backoff=Backoff(0.2, maximum=0.5))
    async def slow(ctx: JobContext, number: int) -> int | None:
        nonlocal ran
        ran += 1
        if ctx.job.start_before is not None and ctx.job.started_at is not None and ctx.job.started_at >= ctx.job.start_before:
            late.append(ctx.job.id)
        await asyncio.sleep(0.03)
        if number % 7 == 0 and ctx.attempt == 1:
            raise ValueError(number)
        return Snooze(0.5) if number % 11 == 0 and not ctx.job.snoozes else number  # type: ignore[return-value]

    async with app, MovableClock(app) as clock:
        for first in range(0, 10_000, 1_000):
            await app.enqueue_many(
                [
                    slow.using(expires=1 + number % 8, serialization_key=f"k{number % 300}" if number % 3 == 0 else None).new(
                        number
                    )
                    for number in range(first, first + 1_000)
                ]
            )
        async with app.runner(grace=10):
            for round in range(8):
                await app.admin.pause(key=f"k{round * 3}")
                await app.admin.pause(type="slow") if round == 3 else None
                await asyncio.sleep(0.6)
                await clock.advance(-1 if round % 2 else 2)
                await app.admin.resume(type="slow") if round == 3 else None
                await app.admin.resume(key=f"k{round * 3}")

            async def is_over() -> bool:
                return not await connection.fetchval(
                    "SELECT count(*) FROM asyncjobs.jobs WHERE status NOT IN ('completed', 'dead', 'cancelled')"
                )

            await eventually(is_over, description="all have ended", timeout=90)
        rows = await connection.fetch("SELECT status, error_message, count(*) FROM asyncjobs.jobs GROUP BY 1, 2 ORDER BY 1, 2")
        counts = {(row[0], row[1]): row[2] for row in rows}
        assert late == []
        assert not await connection.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs")
        assert sum(counts.values()) == 10_000
        assert counts["cancelled", "expired"] > 1_000
        _say(f"{ran} attempts, {counts}")


@pytest.mark.proof
async def test_a_hundred_thousand_jobs_in_front_that_have_expired_cost_claims_nothing(dsn: str, connection: Connection) -> None:
    """Pages that a claim of ten reads: with an empty front (of as many rows); behind 100,000 jobs that have expired and stand
    there; when all of these have been ended, before any vacuum; and from the very front then, and after as many completed ones.
    """
    async with AsyncJobs(dsn) as app:
        del app
    await connection.execute(
        "INSERT INTO asyncjobs.runners (id, host, pid, version, queues, types) VALUES (1, 'h', 1, '1', '{default}', '{email}')"
    )
    await connection.execute(_ROW, 100_000, True)
    await connection.execute(_ROW, 1_000, False)
    await connection.execute("ANALYZE asyncjobs.jobs")
    start, calls, began = (-1, -1), 0, time.perf_counter()
    while (met := await _met(connection, start)) is not None:
        start, calls = met, calls + 1
    seconds = time.perf_counter() - began
    standing = await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'pending' AND start_before < now()")
    behind = await _pages(connection, start)
    while await _met(connection, (-1, -1)) is not None:
        pass
    ended, front = await _pages(connection, start), await _pages(connection, (-1, -1))
    await connection.execute("TRUNCATE asyncjobs.jobs")
    await connection.execute(_ROW, 100_000, False)
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now()")
    await connection.execute(_ROW, 1_000, False)
    await _pages(connection, (-1, -1))
    completed = await _pages(connection, (-1, -1))
    await connection.execute("VACUUM asyncjobs.jobs")
    empty = await _pages(connection, (-1, -1))
    _say(f"{calls} calls in {seconds:.2f} s met them; then {standing} stand there still. Pages of a claim of ten: {empty} with")
    _say(f"an empty front, {behind} behind these, {ended} when they are ended; from the front {front}, or {completed}")
    await connection.execute("TRUNCATE asyncjobs.jobs; DELETE FROM asyncjobs.runners")
    assert calls <= 11
    assert standing >= 85_000
    assert behind <= 1.1 * empty
    assert ended <= 1.1 * empty
    assert front <= 1.1 * completed


_CLAIM = "SELECT * FROM asyncjobs.claim(1, 'default', NULL, 10, {}, {}, '{{email}}', false, 5, {})"


async def _met(connection: Connection, start: tuple[int, int]) -> tuple[int, int] | None:
    """Where the scan is to go on, of a claim that met jobs that have expired."""
    rows = await connection.fetch(_CLAIM.format(*start, 0))
    return next(((row["priority"], row["place"]) for row in rows if row["kind"] == "expired"), None)


async def _pages(connection: Connection, start: tuple[int, int]) -> int:
    """Pages of a claim of ten; of three the fewest: the first of a session reads the catalogs, too, and others set hints."""
    found = []
    for _ in range(3):
        plan = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {_CLAIM.format(*start, 0)}")
        node = json.loads(plan)[0]["Plan"]
        found.append(int(node["Shared Hit Blocks"] + node["Shared Read Blocks"]))
    return min(found)


@pytest.mark.proof
async def test_a_thousand_enqueues_in_ten_seconds_are_debounced_to_two_or_three(dsn: str) -> None:
    app = AsyncJobs(dsn, poll_interval=0.2)
    ran: dict[int, tuple[int, float]] = {}  # by job: the payload, and when
    newest: dict[int, int] = {}  # by job: the last that was enqueued into it

    @app.job("page")
    async def page(ctx: JobContext, number: int) -> None:
        ran[ctx.job.id] = number, round(time.monotonic() - began, 2)

    async with app.runner():
        debounced = page.using(dedup_key="page-7", debounce=Debounce(quiet=1, at_most=5))
        began = time.monotonic()
        for number in range(1_000):
            await asyncio.sleep(max(began + number / 100 - time.monotonic(), 0))
            newest[(await debounced.enqueue(number)).id] = number
        await eventually(lambda: len(ran) == len(newest), description="the last one ran", timeout=10)
    _say(f"ran {ran}")
    assert len(ran) in {2, 3}
    assert {job_id: number for job_id, (number, _) in ran.items()} == newest
    assert newest[max(newest)] == 999


@pytest.mark.proof
@pytest.mark.parametrize("key", [None, "k"])
async def test_two_thousand_races_of_enqueues_and_starts(dsn: str, key: str | None) -> None:
    """`dedup_until="start"`: what was committed before a start is seen by it, or by one that follows; of a key one at a time."""
    app = AsyncJobs(dsn, queues=[Queue(concurrency=8)], poll_interval=0.2)
    options: dict[str, Any] = {"dedup_until": "start", "serialization_key": key}
    last: dict[str, int] = {}
    running = most = 0
    did: dict[str | None, int] = {}

    @app.job("page")
    async def page(name: str, number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        last[name] = max(last.get(name, -1), number)
        running -= 1

    async def race(name: str) -> None:
        page_type = page.using(dedup_key=name, on_duplicate="replace", **options)
        for number in range(250):
            handles = await asyncio.gather(*(page_type.enqueue(name, number) for _ in range(2)))
            for handle in handles:
                did[handle.did] = did.get(handle.did, 0) + 1

    async with app.runner():
        await asyncio.gather(*(race(f"page-{n}") for n in range(8)))
        await eventually(
            lambda: all(last.get(f"page-{n}") == 249 for n in range(8)), description="the last payloads ran", timeout=20
        )
    _say(f"{sum(did.values())} enqueues: {did}; at most {most} at once")
    assert "dropped" not in did
    if key is not None:
        assert most == 1
