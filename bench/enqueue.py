"""How many jobs a second does one process enqueue: one after another, at the same time, as a list?"""

import asyncio

from asyncjobs import AsyncJobs, JobRouter
from bench.lab import main, migrated, report, stopwatch

router = JobRouter()


@router.job("bench.email")
async def email(to: str, template: str) -> None:
    """Never runs."""


async def one_after_another(_: AsyncJobs, count: int) -> None:
    for number in range(count):
        await email.enqueue(to=f"{number}@example.com", template="welcome")


async def at_the_same_time(_: AsyncJobs, count: int, *, callers: int = 100) -> None:
    async def caller() -> None:
        for number in range(count // callers):
            await email.enqueue(to=f"{number}@example.com", template="welcome")

    await asyncio.gather(*(caller() for _ in range(callers)))


async def as_a_list(jobs: AsyncJobs, count: int) -> None:
    await jobs.enqueue_many([email.new(to=f"{number}@example.com", template="welcome") for number in range(count)])


async def run(dsn: str, smoke: bool) -> None:  # noqa: FBT001 - the lab calls it
    jobs = await migrated(dsn)
    jobs.include_router(router)
    rows: list[list[str]] = []
    async with jobs:
        for way, count in ((one_after_another, 2_000), (at_the_same_time, 50_000), (as_a_list, 50_000)):
            wanted = 100 if smoke else count
            with stopwatch() as seconds:
                await way(jobs, wanted)
            rows.append([way.__name__.replace("_", " "), f"{wanted:,}", f"{wanted / seconds():,.0f}"])
    report("enqueue", ["how", "jobs", "jobs/s"], rows)


if __name__ == "__main__":
    main(run, __doc__)
