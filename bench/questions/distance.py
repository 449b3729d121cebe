"""How much of its pace is left when the server is 1 ms and 5 ms away, and how near is one key to a job a round trip?"""

import time
from collections.abc import Mapping

from bench.delay import delayed
from bench.lab import Lab
from bench.programs import FLOOR, OURS, PREFETCHING, Contender
from bench.server import connected

WORKLOADS = "W14"


async def _round_trip(dsn: str) -> float:
    async with connected(dsn) as connection:
        began = time.perf_counter()
        for _ in range(50):
            await connection.execute("SELECT 1")
        return (time.perf_counter() - began) / 50


async def ask(lab: Lab) -> None:
    many, few = lab.size(20_000, 300), lab.size(300, 20)
    for milliseconds in (1,) if lab.smoke else (0, 1, 5):

        async def drain(contender: Contender, milliseconds: int = milliseconds) -> Mapping[str, float]:
            async with (
                lab.database(contender, {"do": "fill", "count": many}) as dsn,
                delayed(dsn, milliseconds / 1000) as far,
            ):
                return {"jobs/s": (await lab.drain(contender, far, many, concurrency=200)).per_second}

        async def one_key(contender: Contender, milliseconds: int = milliseconds) -> Mapping[str, float]:
            async with (
                lab.database(contender, {"do": "fill", "count": few, "keys": 1}) as dsn,
                delayed(dsn, milliseconds / 1000) as far,
            ):
                round_trip = await _round_trip(far)
                rate = (await lab.drain(contender, far, few, concurrency=10, keys=1)).per_second
            return {"jobs/s": rate, "round trip ms": round_trip * 1000, "jobs a round trip": rate * round_trip}

        await lab.compare("W14", f"{milliseconds} ms", drain, [OURS, PREFETCHING, FLOOR])
        await lab.compare("W14", f"one key, {milliseconds} ms", one_key, [OURS])
