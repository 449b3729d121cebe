"""How many no-op jobs a second does one worker process run, with 50 and with 10 slots, and how many do two?"""

from collections.abc import Mapping
from typing import Final

from bench.lab import Lab
from bench.programs import Contender

WORKLOADS = "W4, W5"
#: Of ours: 20,000 jobs are run in half a second, of which a runner's first statements, read and planned once, are a twentieth.
_LONGER: Final = 5


async def ask(lab: Lab) -> None:
    for workload, workers, concurrency, count in (
        ("W4", 1, 50, lab.size(20_000, 200)),
        ("W4", 1, 10, lab.size(20_000, 200)),
        ("W5", 2, 50, lab.size(40_000, 200)),
    ):

        async def measure(
            contender: Contender, workers: int = workers, concurrency: int = concurrency, count: int = count
        ) -> Mapping[str, float]:
            jobs = contender.some(count * _LONGER if contender.is_own and not lab.smoke else count)
            async with lab.database(contender, {"do": "fill", "count": jobs}) as dsn:
                ran = await lab.drain(contender, dsn, jobs, concurrency=concurrency, workers=workers)
                return {"jobs/s": ran.per_second}

        await lab.compare(workload, f"concurrency {concurrency}", measure)
