"""What do limits cost: one that is never reached, one that is as high as there are slots, and one of 10,000 tenants?

Each beside the same jobs without a limit, one after the other in each round. A job with a limit is claimed by its key, of which a
claim locks and counts each, and the end of its attempt is said to the key.

And beside others that bound how many of a key run at once over all processes (`--peers`): five of each of 20 keys, on two
processes that have slots for all of these, handlers of 5 ms. Does any key have more than five, and how many jobs a second run?
pg-boss 10 and the free Oban bound what one process runs; graphile-worker, procrastinate and saq let one job of a key run.
"""

from collections.abc import Mapping
from typing import Final

from bench.lab import Lab
from bench.programs import OURS, Contender

WORKLOADS = "W20"
_SLOTS: Final = 50
_KEYS: Final = 20
#: By how it reads: what `contenders.ours` knows of limits, and what handlers do.
_CASES: Final = {
    "never reached": ("never", "nothing"), "total = slots": ("total", "nothing"), "10,000 tenants": ("tenants", "nothing"),
    "total = slots, 5 ms": ("total", "sleep 0.005"), "10,000 tenants, 5 ms": ("tenants", "sleep 0.005"),
}  # fmt: skip


async def ask(lab: Lab) -> None:
    jobs = lab.size(30_000, 200)

    async def run(contender: Contender, limit: str, work: str) -> float:
        given = contender._replace(options={"limit": limit})
        async with lab.database(given, {"do": "fill", "count": jobs}) as dsn:
            return (await lab.drain(given, dsn, jobs, concurrency=_SLOTS, work=work)).per_second

    for case, (limit, work) in _CASES.items():

        async def both(contender: Contender, limit: str = limit, work: str = work) -> Mapping[str, float]:
            plain, limited = await run(contender, "", work), await run(contender, limit, work)
            return {"jobs/s": limited, "of plain": limited / plain}

        await lab.compare("W20", case, both, [OURS])

    async def shared(contender: Contender) -> Mapping[str, float]:
        given, count = contender._replace(options={"limit": "each"}), lab.size(20_000, 200)
        async with lab.database(given, {"do": "fill", "count": count, "keys": _KEYS}) as dsn:
            ran = await lab.drain(given, dsn, count, concurrency=_SLOTS, workers=2, keys=_KEYS, work="sleep 0.005", spans=True)
            return {"jobs/s": ran.per_second, "most of a key": ran.most_at_once}

    await lab.compare(
        "W20", "5 of each of 20 keys", shared, [one for one in lab.contenders if one.has_limits and not one.options]
    )
