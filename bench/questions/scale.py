"""Do 2, 4 and 8 worker processes run more than one, and do 10 or 100 queues or types cost?"""

from collections.abc import Mapping

from bench.lab import Lab
from bench.programs import FLOOR, OURS, Contender

WORKLOADS = "W16"

#: Of all queues together.
SLOTS = 100


async def ask(lab: Lab) -> None:
    count = lab.size(50_000, 300)
    for workers in (2,) if lab.smoke else (1, 2, 4, 8):

        async def processes(contender: Contender, workers: int = workers) -> Mapping[str, float]:
            async with lab.database(contender, {"do": "fill", "count": count}) as dsn:
                return {"jobs/s": (await lab.drain(contender, dsn, count, concurrency=50, workers=workers)).per_second}

        await lab.compare("W16", f"{workers} processes", processes, [OURS, FLOOR])
    for what in ("queues", "types"):
        for number in (10,) if lab.smoke else (1, 10, 100):

            async def kinds(contender: Contender, what: str = what, number: int = number) -> Mapping[str, float]:
                several = contender._replace(options={what: number})
                async with lab.database(several, {"do": "fill", "count": count}) as dsn:
                    return {"jobs/s": (await lab.drain(several, dsn, count, concurrency=SLOTS)).per_second}

            await lab.compare("W16", f"{number} {what}", kinds, [OURS])
