"""How many jobs a second are run one at a time per key, in order: of 100 keys, and of one?"""

from collections.abc import Mapping

from bench.lab import Lab
from bench.programs import Contender, ContenderError

WORKLOADS = "W10"


async def ask(lab: Lab) -> None:
    for case, keys, concurrency, count in (
        ("100 keys", 100, 50, lab.size(20_000, 300)),
        ("one key", 1, 10, lab.size(1_000, 30)),
    ):

        async def measure(
            contender: Contender, keys: int = keys, concurrency: int = concurrency, count: int = count
        ) -> Mapping[str, float]:
            async with lab.database(contender, {"do": "fill", "count": contender.some(count), "keys": keys}) as dsn:
                ran = await lab.drain(contender, dsn, contender.some(count), concurrency=concurrency, keys=keys)
                if ran.disordered and contender.is_own:
                    raise ContenderError(f"{ran.disordered} jobs overlapped an earlier one of their key, or came before it")
                return {"jobs/s": ran.per_second, "out of order": ran.disordered}

        await lab.compare("W10", case, measure, [contender for contender in lab.contenders if contender.has_keys])
