"""How many jobs a second are run beside 500,000 jobs for tomorrow and as many finished ones, and how many alone?"""

from collections.abc import Mapping
from typing import Any

from bench.lab import Lab
from bench.programs import Contender

WORKLOADS = "W9"

TOMORROW = 86_400


async def ask(lab: Lab) -> None:
    count, beside = lab.size(20_000, 200), lab.size(500_000, 1_000)
    now: dict[str, Any] = {"do": "fill", "count": count}
    others: list[dict[str, Any]] = [
        {"do": "fill", "count": beside},
        {"do": "finish"},
        {"do": "fill", "count": beside, "delay": TOMORROW},
    ]
    fillings: dict[str, list[dict[str, Any]]] = {"alone": [now], f"beside {2 * beside:,}": [*others, now]}
    for case, filling in fillings.items():

        async def measure(contender: Contender, filling: list[dict[str, Any]] = filling) -> Mapping[str, float]:
            async with lab.database(contender, *filling) as dsn:
                return {"jobs/s": (await lab.drain(contender, dsn, count, concurrency=50)).per_second}

        await lab.compare("W9", case, measure)
        await lab.forget()
