"""How long does a job wait that another process enqueues while the worker is idle, and at 500 enqueues a second?"""

from collections.abc import Mapping
from typing import Any

from bench.lab import Lab
from bench.programs import Contender
from bench.results import percentile

WORKLOADS = "W6, W7"


async def ask(lab: Lab) -> None:
    for workload, case, count, way in (
        ("W6", "idle", lab.size(200, 10), {"how": "one by one", "pause": 0.02}),
        ("W7", "500 enqueues/s", lab.size(2_500, 50), {"how": "paced", "rate": 500}),
    ):

        async def measure(contender: Contender, count: int = count, way: Mapping[str, Any] = way) -> Mapping[str, float]:
            async with (
                lab.database(contender) as dsn,
                lab.started(contender, dsn) as worker,
                lab.started(contender, dsn) as other,
            ):
                await worker.ask("work", concurrency=10)
                warm = max(1, count // 10)
                await other.ask("fill", count=warm, **way)
                await lab.until([worker], warm)
                await other.ask("fill", count=count, **way)
                await lab.until([worker], warm + count)
                waits = (await worker.ask("report"))["waits"][warm:]
                await worker.ask("stop")
            return {f"p{percent} ms": percentile(waits, percent) for percent in (50, 95, 99)}

        await lab.compare(workload, case, measure)
