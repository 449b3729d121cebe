"""Are the first 10,000 jobs run as fast when 100,000 or a million are pending?"""

from collections.abc import Mapping

from bench.lab import Lab
from bench.programs import FLOOR, OURS, Contender

WORKLOADS = "W17"


async def ask(lab: Lab) -> None:
    some = lab.size(10_000, 100)
    for times in (2,) if lab.smoke else (1, 10, 100):

        async def measure(contender: Contender, times: int = times) -> Mapping[str, float]:
            async with lab.database(contender, {"do": "fill", "count": times * some}) as dsn:
                ran = await lab.drain(contender, dsn, some, concurrency=50, whole=False, every=some)
            return {"jobs/s": some / (ran.ended[0] - ran.began)}

        await lab.compare("W17", f"{times * some:,} pending", measure, [OURS, FLOOR])
        await lab.forget()
