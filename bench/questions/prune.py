"""Does a drain keep its pace while its runner deletes what has ended, as fast as it ends?"""

from collections.abc import Mapping

from bench.lab import Lab
from bench.programs import OURS, Contender
from bench.server import connected

WORKLOADS = "W21"


async def ask(lab: Lab) -> None:
    count = lab.size(100_000, 1_000)
    for case, options in (("kept", {}), ("pruned", {"prunes": True})):

        async def measure(contender: Contender, options: Mapping[str, bool] = options) -> Mapping[str, float]:
            pruning = contender._replace(options=options)
            async with lab.database(contender, {"do": "fill", "count": count}) as dsn:  # of both from one template
                ran = await lab.drain(pruning, dsn, count, concurrency=50)
                return {"jobs/s": ran.per_second, "rows left": await _rows(dsn) / count}

        await lab.compare("W21", case, measure, [OURS])


async def _rows(dsn: str) -> int:
    """That are left, ended or not."""
    async with connected(dsn) as connection:
        count: int = await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs")
        return count
