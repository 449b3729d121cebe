"""How long do 2,000 jobs take that wait for 10 ms each, 100 at a time? 0.2 s would be ideal."""

from collections.abc import Mapping

from bench.lab import Lab
from bench.programs import Contender

WORKLOADS = "W8"

SECONDS = 0.01
SLOTS = 100


async def ask(lab: Lab) -> None:
    count = lab.size(2_000, 200)

    async def measure(contender: Contender) -> Mapping[str, float]:
        async with lab.database(contender, {"do": "fill", "count": count}) as dsn:
            ran = await lab.drain(contender, dsn, count, concurrency=SLOTS, work=f"sleep {SECONDS}")
            return {"seconds": ran.seconds, "of ideal": ran.seconds / (count * SECONDS / SLOTS)}

    await lab.compare("W8", "10 ms each", measure)
