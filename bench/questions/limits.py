"""What do limits cost: one that is never reached, one that is as high as there are slots, and one of 10,000 tenants?

Each beside the same jobs without a limit, one after the other in each round. A job with a limit is claimed by its key, of which a
claim locks and counts each, and the end of its attempt is said to the key.
"""

from collections.abc import Mapping
from typing import Final

from bench.lab import Lab
from bench.programs import OURS, Contender

WORKLOADS = "W20"
_SLOTS: Final = 50
#: What `contenders.ours` knows of limits, and how it reads.
_CASES: Final = {"never": "never reached", "total": "total = slots", "tenants": "10,000 tenants"}


async def ask(lab: Lab) -> None:
    jobs = lab.size(30_000, 200)

    async def run(contender: Contender, limit: str) -> float:
        given = contender._replace(options={"limit": limit})
        async with lab.database(given, {"do": "fill", "count": jobs}) as dsn:
            return (await lab.drain(given, dsn, jobs, concurrency=_SLOTS)).per_second

    for limit, case in _CASES.items():

        async def both(contender: Contender, limit: str = limit) -> Mapping[str, float]:
            plain, limited = await run(contender, ""), await run(contender, limit)
            return {"jobs/s": limited, "of plain": limited / plain}

        await lab.compare("W20", case, both, [OURS])
