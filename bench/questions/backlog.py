"""How many jobs a second are run beside 500,000 jobs for tomorrow and as many finished ones, and how many alone?"""

from collections.abc import Mapping
from typing import Any

from bench.lab import Lab
from bench.programs import Contender

WORKLOADS = "W9"

TOMORROW = 86_400


async def ask(lab: Lab) -> None:
    count, beside = lab.size(20_000, 200), lab.size(500_000, 1_000)
    for case, others in (("alone", 0), (f"beside {2 * beside:,}", beside)):

        async def measure(contender: Contender, others: int = others) -> Mapping[str, float]:
            now: dict[str, Any] = {"do": "fill", "count": contender.some(count)}
            finished: list[dict[str, Any]] = [{"do": "fill", "count": others}, {"do": "finish"}]
            future: dict[str, Any] = {"do": "fill", "count": others, "delay": TOMORROW}
            async with lab.database(contender, *([*finished, future] if others else []), now) as dsn:
                return {"jobs/s": (await lab.drain(contender, dsn, now["count"], concurrency=50)).per_second}

        await lab.compare("W9", case, measure)
        await lab.forget()
