"""Does a drain keep its pace while another session holds an old snapshot, so that dead rows cannot go?"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from bench.lab import Lab
from bench.programs import FLOOR, OURS, Contender
from bench.server import connected

WORKLOADS = "W13"


@asynccontextmanager
async def _snapshot(dsn: str, *, held: bool) -> AsyncGenerator[None]:
    async with connected(dsn) as connection:
        if held:
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
        yield


async def ask(lab: Lab) -> None:
    count = lab.size(100_000, 1_000)
    tenth = count // 10
    for case, held in (("free", False), ("pinned", True)):

        async def measure(contender: Contender, held: bool = held) -> Mapping[str, float]:  # noqa: FBT001 - bound here
            async with lab.database(contender, {"do": "fill", "count": count}) as dsn, _snapshot(dsn, held=held):
                ran = await lab.drain(contender, dsn, count, concurrency=50, every=tenth)
            first, last = tenth / (ran.ended[0] - ran.began), tenth / (ran.ended[9] - ran.ended[8])
            return {"jobs/s": ran.per_second, "first tenth": first, "last tenth": last, "last of first": last / first}

        await lab.compare("W13", case, measure, [OURS, FLOOR])
