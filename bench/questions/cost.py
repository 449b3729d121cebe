"""What does a job cost: statements, transactions, bytes of WAL, dead rows, and CPU of client and server?"""

from collections.abc import Mapping
from typing import Any

from bench.lab import Lab
from bench.programs import BATCHING, PREFETCHING, Contender

WORKLOADS = "W15"

#: Of all contenders at the first, of our own at the others, too: so many jobs are claimed by a call, and written by one.
_CONCURRENCY = (50, 1, 10, 250)


async def ask(lab: Lab) -> None:
    many, some = lab.size(20_000, 200), lab.size(5_000, 100)

    async def enqueue(contender: Contender) -> Mapping[str, float]:
        return await _spent(lab, contender, some)

    for slots in _CONCURRENCY:

        async def run(contender: Contender, slots: int = slots) -> Mapping[str, float]:
            jobs = contender.some(many)
            return await _spent(lab, contender, jobs, {"do": "fill", "count": jobs}, slots=slots)

        among = None if slots == _CONCURRENCY[0] else [one for one in lab.contenders if one.is_own]
        await lab.compare("W15", f"run, concurrency {slots}", run, among)
    alike = (PREFETCHING, BATCHING)  # they enqueue like ours and the floor
    await lab.compare("W15", "enqueue, 50 in flight", enqueue, [one for one in lab.contenders if one not in alike])


async def _spent(lab: Lab, contender: Contender, count: int, *filling: Mapping[str, Any], slots: int = 0) -> Mapping[str, float]:
    """A job: run what was filled in, or enqueue."""
    async with lab.database(contender, *filling) as dsn:
        counters = lab.counters(dsn)
        before = await counters.when_all_left()
        async with lab.started(contender, dsn) as program:
            began = program.usage.cpu_seconds()
            if filling:
                await program.ask("work", concurrency=slots)
                await lab.until([program], count)
                await program.ask("stop")
            else:
                await program.ask("fill", how="in flight", count=count)
            client = program.usage.cpu_seconds() - began
        spent = (await counters.when_all_left()).since(before)
    return {
        "statements": spent.statements / count,
        "transactions": spent.transactions / count,
        "WAL bytes": spent.wal_bytes / count,
        "dead rows": spent.dead_tuples / count,
        "client CPU µs": client / count * 1e6,
        "server CPU µs": spent.server_cpu_seconds / count * 1e6,
    }
