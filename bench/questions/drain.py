"""How many no-op jobs a second does one worker process run, with 50 and with 10 slots, and how many do two?"""

from collections.abc import Mapping

from bench.lab import Lab
from bench.programs import Contender

WORKLOADS = "W4, W5"


async def ask(lab: Lab) -> None:
    for workload, workers, concurrency, count in (
        ("W4", 1, 50, lab.size(20_000, 200)),
        ("W4", 1, 10, lab.size(20_000, 200)),
        ("W5", 2, 50, lab.size(40_000, 200)),
    ):

        async def measure(
            contender: Contender, workers: int = workers, concurrency: int = concurrency, count: int = count
        ) -> Mapping[str, float]:
            async with lab.database(contender, {"do": "fill", "count": contender.some(count)}) as dsn:
                ran = await lab.drain(contender, dsn, contender.some(count), concurrency=concurrency, workers=workers)
                return {"jobs/s": ran.per_second}

        await lab.compare(workload, f"concurrency {concurrency}", measure)
