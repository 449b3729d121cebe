"""How many jobs a second are run one at a time per key, in order: of 100 keys, and of one?"""

from collections.abc import Mapping

from bench.lab import Lab
from bench.programs import Contender, ContenderError

WORKLOADS = "W10"


async def ask(lab: Lab) -> None:
    for case, keys, concurrency, count in (
        ("100 keys", 100, 50, lab.size(20_000, 100)),
        ("one key", 1, 10, lab.size(1_000, 30)),
    ):

        async def measure(
            contender: Contender, keys: int = keys, concurrency: int = concurrency, count: int = count
        ) -> Mapping[str, float]:
            # Others run ten a second of one key: a tenth of the jobs shows it in ten seconds.
            jobs = count if contender.is_own else count // 10
            # One by one: not all promise an order to jobs that were enqueued in one call.
            async with lab.database(contender, {"do": "fill", "how": "one by one", "count": jobs, "keys": keys}) as dsn:
                ran = await lab.drain(contender, dsn, jobs, concurrency=concurrency, keys=keys)
                if ran.disordered:
                    raise ContenderError(f"{ran.disordered} jobs started before an earlier one of their key had ended")
                return {"jobs/s": ran.per_second}

        await lab.compare("W10", case, measure, [contender for contender in lab.contenders if contender.has_keys])
