"""How fast do keyed jobs drain, one key and many, and who gets the slots when some keys have a backlog?"""

import asyncio
import statistics
import time
from collections.abc import Iterable, Iterator
from itertools import cycle, islice

import asyncpg

from asyncjobs import AsyncJobs, JobRouter, NewJob, Queue
from bench.lab import main, migrated, report, stopwatch

router = JobRouter()
ran: list[tuple[str, int]] = []
ended_at: list[float] = []
left = after = 0
started = asyncio.Event()
done = asyncio.Event()


@router.job("bench.plain")
async def plain(key: str, number: int) -> None:
    """Note that it ran."""
    global left  # noqa: PLW0603 - a counter is all that this handler may cost
    ran.append((key, number))
    if len(ran) == after:
        started.set()
    ended_at.append(time.perf_counter())
    left -= 1
    if left == 0:
        done.set()


@router.job("bench.keyed", serialize_by="{key}")
async def keyed(key: str, number: int) -> None:
    """The same, one at a time per key."""
    await plain.handler(key, number)


def round_robin(keys: Iterable[str], count: int) -> Iterator[tuple[str, int]]:
    return zip(islice(cycle(keys), count), range(count), strict=True)


async def drain(dsn: str, concurrency: int, first: list[NewJob[None]], later: list[NewJob[None]], when: int) -> float:
    """Jobs per second, from the first to the last; what they did is in `ran`. The `later` ones come when so many have run."""
    global left, after  # noqa: PLW0603
    after = when
    jobs = AsyncJobs(dsn, queues=[Queue("default", concurrency=concurrency)], routers=[router])
    ran.clear()
    ended_at.clear()
    started.clear()
    done.clear()
    async with jobs:
        await jobs.enqueue_many(first)
        left = len(first) + len(later)
        async with jobs.runner():
            if later:
                await started.wait()
                await jobs.enqueue_many(later)
                ran.append(("later", 0))
            await done.wait()
    return (len(ended_at) - 1) / (ended_at[-1] - ended_at[0])


async def commits(dsn: str, count: int) -> float:
    """Round trips with a commit in a second: the most that jobs can be that run strictly one after another, each acked alone."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE IF NOT EXISTS bench_commits (n integer); INSERT INTO bench_commits VALUES (0)")
    with stopwatch() as seconds:
        for _ in range(count):
            await connection.execute("UPDATE bench_commits SET n = n + 1")
        spent = seconds()
    await connection.execute("DROP TABLE bench_commits")
    await connection.close()
    return count / spent


async def one_key(dsn: str, few: int, rounds: int) -> list[str]:
    """Both in turn: what a commit costs changes from second to second on a machine that others use, too."""
    pairs: list[tuple[float, float]] = []
    for _ in range(rounds):
        best = await commits(dsn, few)
        pairs.append((await drain(dsn, 10, [keyed.new("k", number) for number in range(few)], [], 0), best))
        assert [number for _, number in ran] == list(range(few))
    shares = sorted(one / best for one, best in pairs)
    one, best = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    spread = f"{statistics.median(shares):.0%} ({shares[0]:.0%} to {shares[-1]:.0%})"
    return [f"one key, median of {rounds}", f"{one:,.0f}", f"{best:,.0f} round trips with a commit", spread]


async def throughput(dsn: str, few: int, many: int, rounds: int) -> None:
    rows = [await one_key(dsn, few, rounds)]
    unkeyed = await drain(dsn, 50, [plain.new("k", number) for number in range(many)], [], 0)
    names = [f"key {number}" for number in range(100)]
    hundred = await drain(dsn, 50, [keyed.new(key, number) for key, number in round_robin(names, many)], [], 0)
    for name in names:
        numbers = [number for key, number in ran if key == name]
        assert numbers == sorted(numbers)
    rows.append(["100 keys", f"{hundred:,.0f}", f"{unkeyed:,.0f} jobs without a key", f"{hundred / unkeyed:.0%}"])
    report("keyed no-op jobs", ["", "jobs/s", "against", ""], rows)


async def fairness(dsn: str, hot: int, backlog: int, cold: int) -> None:
    names = [f"hot {number}" for number in range(hot)]
    hot_jobs = [keyed.new(key, number) for key, number in round_robin(names, hot * backlog)]
    later = [keyed.new(f"cold {number}", number) for number in range(cold)] + [keyed.using(priority=1).new("urgent", 0)]
    await drain(dsn, 50, hot_jobs, later, len(hot_jobs) // 20)
    since = ran.index(("later", 0))
    last = max(at for at, (key, _) in enumerate(ran) if key.startswith("cold"))
    before = sum(key.startswith("hot") for key, _ in ran[since:last])
    urgent = max(0, ran.index(("urgent", 0)) - since)
    rows = [[f"{cold:,} one-job keys were done", f"after {before:,} jobs of {hot} hot keys with {backlog:,} jobs each"],
            ["a job of priority 1 was started", f"after {urgent} jobs"]]  # fmt: skip
    report("some keys have a backlog, then others come", ["", ""], rows)


async def run(dsn: str, smoke: bool) -> None:  # noqa: FBT001 - the lab calls it
    await migrated(dsn)
    await throughput(dsn, *((50, 200, 2) if smoke else (1_000, 30_000, 5)))
    await fairness(dsn, *((5, 20, 20) if smoke else (50, 1_000, 1_000)))


if __name__ == "__main__":
    main(run, __doc__)
