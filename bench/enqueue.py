"""How many jobs a second does one process enqueue — one after another, 50 in flight, 1,000 a call — and how many would inserts
written by hand make? Both take turns on the same server, so that what else happens there happens to both.

By hand is asyncpg, a table of six columns with a primary key and one partial index, and: a prepared statement on one connection;
50 tasks on a pool of 10 connections; one `INSERT … SELECT unnest` a call.
"""

import asyncio
import json
import statistics
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from asyncjobs import AsyncJobs, JobRouter
from bench.lab import counting, main, migrated, report, stopwatch

router = JobRouter()
IN_FLIGHT = 50
A_CALL = 1_000

TABLE = """
    CREATE TABLE by_hand (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, type text NOT NULL, queue text NOT NULL,
        payload jsonb NOT NULL, status text NOT NULL DEFAULT 'pending', created_at timestamptz NOT NULL DEFAULT now());
    CREATE INDEX ON by_hand (queue, id) WHERE status = 'pending';
"""
INSERT = "INSERT INTO by_hand (type, queue, payload) VALUES ($1, $2, $3) RETURNING id"
INSERT_MANY = "INSERT INTO by_hand (type, queue, payload) SELECT $1, $2, p FROM unnest($3::jsonb[]) AS p RETURNING id"

Way = Callable[[int], Awaitable[None]]


@router.job("bench.email")
async def email(to: str, template: str) -> None:
    """Never runs."""


def payload(number: int) -> str:
    return json.dumps({"to": f"{number}@example.com", "template": "welcome"})


async def in_flight(count: int, one: Callable[[int], Awaitable[Any]]) -> None:
    """So many calls, 50 at a time."""
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            await one(number)

    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))


def ours(jobs: AsyncJobs) -> list[Way]:
    async def one_by_one(count: int) -> None:
        for number in range(count):
            await email.enqueue(to=f"{number}@example.com", template="welcome")

    async def at_once(count: int) -> None:
        await in_flight(count, lambda number: email.enqueue(to=f"{number}@example.com", template="welcome"))

    async def as_lists(count: int) -> None:
        for start in range(0, count, A_CALL):
            await jobs.enqueue_many(
                [email.new(to=f"{start + at}@example.com", template="welcome") for at in range(min(A_CALL, count))]
            )

    return [one_by_one, at_once, as_lists]


def by_hand(connection: "asyncpg.Connection[asyncpg.Record]", pool: "asyncpg.Pool[asyncpg.Record]") -> list[Way]:
    async def one_by_one(count: int) -> None:
        for number in range(count):
            await connection.fetchval(INSERT, "email", "default", payload(number))

    async def at_once(count: int) -> None:
        await in_flight(count, lambda number: pool.fetchval(INSERT, "email", "default", payload(number)))

    async def as_lists(count: int) -> None:
        for start in range(0, count, A_CALL):
            await connection.fetch(INSERT_MANY, "email", "default", [payload(start + at) for at in range(min(A_CALL, count))])

    return [one_by_one, at_once, as_lists]


async def rates(way: Way, other: Way, count: int, rounds: int) -> tuple[float, float]:
    """Jobs a second of both, the middle of several rounds in which they take turns."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for one, seconds in zip((way, other), taken, strict=True):
            with stopwatch() as elapsed:
                await one(count)
            seconds.append(count / elapsed())
    return statistics.median(taken[0]), statistics.median(taken[1])


async def run(dsn: str, smoke: bool) -> None:  # noqa: FBT001 - the lab calls it
    jobs = await migrated(dsn)
    jobs.include_router(router)
    connection = await asyncpg.connect(dsn)
    await connection.execute(TABLE)
    rows: list[list[str]] = []
    names = ("one by one", f"{IN_FLIGHT} in flight", f"{A_CALL:,} a call")
    counts = (20, 100, 1_000) if smoke else (500, 5_000, 20_000)
    async with jobs, asyncpg.create_pool(dsn, min_size=10, max_size=10) as pool, counting(dsn) as counted:
        for name, way, other, count in zip(names, ours(jobs), by_hand(connection, pool), counts, strict=True):
            await way(count // 10)
            mine, theirs = await rates(way, other, count, 1 if smoke else 5)
            before, _ = await counted()
            await way(count)
            transactions = (await counted())[0] - before
            rows.append([name, f"{mine:,.0f}", f"{theirs:,.0f}", f"{mine / theirs:.0%}", f"{transactions / count * 1000:,.0f}"])
    await connection.close()
    report("jobs enqueued a second", ["how", "asyncjobs", "by hand", "of that", "transactions per 1,000"], rows)


if __name__ == "__main__":
    main(run, "How many jobs a second does one process enqueue?")
