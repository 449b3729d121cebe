"""How many jobs a second does one process enqueue: one after another, 50 in flight, 1,000 a call?"""

from collections.abc import Mapping

from bench.lab import Lab
from bench.programs import BATCHING, PREFETCHING, Contender

WORKLOADS = "W1, W2, W3"


async def ask(lab: Lab) -> None:
    among = [contender for contender in lab.contenders if contender not in (PREFETCHING, BATCHING)]  # they enqueue alike
    for workload, how, count in (
        ("W1", "one by one", lab.size(1_000, 20)),
        ("W2", "in flight", lab.size(10_000, 100)),
        ("W3", "lists", lab.size(50_000, 1_000)),
    ):

        async def measure(contender: Contender, how: str = how, count: int = count) -> Mapping[str, float]:
            count = contender.some(count) if how == "lists" else count
            async with lab.database(contender) as dsn, lab.started(contender, dsn) as program:
                answer = await program.ask("fill", how=how, count=count, warm=max(1, count // 10))
                return {"jobs/s": count / answer["seconds"]}

        await lab.compare(workload, how, measure, among)
