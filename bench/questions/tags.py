"""What do tags cost those who have them: three on each job, enqueued 1,000 a call, and run by 50?

No index has them, so a job without tags pays for a null. One that has some pays where its row is written, and its claim brings
them along in what few jobs have (`rest`). Seen on a machine of two cores that others worked on, in turns, medians of five: 35.3
and 38.0 us a job of 1,000 a call (30 to 40, 35 to 45), 261 and 282 us a job that is run (219 to 287, 255 to 292): 8 % of
either.
"""

from collections.abc import Mapping

from bench.lab import Lab
from bench.programs import OURS, Contender

WORKLOADS = "W19"


async def ask(lab: Lab) -> None:
    enqueued, ran = lab.size(50_000, 1_000), lab.size(50_000, 200)
    for what, tags in (("no tags", []), ("three tags", ["nightly", "eu", "billing"])):

        async def enqueue(contender: Contender, tags: list[str] = tags) -> Mapping[str, float]:
            given = contender._replace(options={"tags": tags})
            async with lab.database(given) as dsn, lab.started(given, dsn) as program:
                answer = await program.ask("fill", how="lists", count=enqueued, warm=max(1, enqueued // 10))
                return {"jobs/s": enqueued / answer["seconds"]}

        async def run(contender: Contender, tags: list[str] = tags) -> Mapping[str, float]:
            given = contender._replace(options={"tags": tags})
            async with lab.database(given, {"do": "fill", "count": ran}) as dsn:
                return {"jobs/s": (await lab.drain(given, dsn, ran, concurrency=50)).per_second}

        await lab.compare("W19", f"enqueue 1,000 a call, {what}", enqueue, [OURS])
        await lab.compare("W19", f"run, concurrency 50, {what}", run, [OURS])
        await lab.forget()
