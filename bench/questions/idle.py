"""What does a worker with nothing to do cost its server?"""

import asyncio
from collections.abc import Mapping

from bench.lab import Lab
from bench.programs import Contender

WORKLOADS = "W11"


async def ask(lab: Lab) -> None:
    seconds = 0.2 if lab.smoke else 30

    async def idle(contender: Contender) -> Mapping[str, float]:
        async with lab.database(contender) as dsn, lab.started(contender, dsn) as program:
            await program.ask("work", concurrency=10)
            await asyncio.sleep(min(5, seconds))  # what it does at its start is not what it does all day
            before = await lab.counters(dsn).now()
            await asyncio.sleep(seconds)
            spent = (await lab.counters(dsn).now()).since(before)
            await program.ask("stop")
            return {"statements/s": spent.statements / seconds, "transactions/s": spent.transactions / seconds}

    await lab.compare("W11", "idle", idle)
