"""What does a worker with nothing to do cost its server, and how much memory does a process hold, idle and at work?"""

import asyncio
from collections.abc import Mapping

from bench.lab import Lab
from bench.programs import Contender

WORKLOADS = "W11, W12"


async def ask(lab: Lab) -> None:
    seconds = 0.2 if lab.smoke else 30
    count = lab.size(20_000, 200)

    async def idle(contender: Contender) -> Mapping[str, float]:
        async with lab.database(contender) as dsn, lab.started(contender, dsn) as program:
            await program.ask("work", concurrency=10)
            await asyncio.sleep(min(5, seconds))  # what it does at its start is not what it does all day
            before = await lab.counters(dsn).now()
            await asyncio.sleep(seconds)
            spent = (await lab.counters(dsn).now()).since(before)
            lab.results.measured("W12", "idle", contender.name, {"MB": program.usage.memory_mb()})
            await program.ask("stop")
        return {"statements/s": spent.statements / seconds, "transactions/s": spent.transactions / seconds}

    async def at_work(contender: Contender) -> Mapping[str, float]:
        async with lab.database(contender, {"do": "fill", "count": contender.some(count)}) as dsn:
            return {"peak MB": (await lab.drain(contender, dsn, contender.some(count), concurrency=50)).peak_mb}

    await lab.compare("W11", "idle", idle)
    await lab.compare("W12", f"{count:,} jobs", at_work)
