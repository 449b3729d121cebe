"""Results: wait for them, read them later, see how far a job is, and what is raised when there is none.

Run it with `python examples/results.py`.
"""

import asyncio
from dataclasses import dataclass
from decimal import Decimal

from asyncjobs import AsyncJobs, Dead, JobContext, JobDied, WaitTimeout

jobs = AsyncJobs("embedded://")
half_way = asyncio.Event()


@dataclass
class Invoice:
    """Results come back as what the handler's annotation says."""

    number: str
    total: Decimal


@jobs.job("results.invoice")
async def invoice(number: str, amounts: list[Decimal]) -> Invoice | Dead:
    """Add up an invoice; an empty one is hopeless."""
    return Invoice(number, sum(amounts, Decimal())) if amounts else Dead("nothing to add up")


@jobs.job("results.export")
async def export(ctx: JobContext) -> int:
    """Tell how far it is, then wait for the example to look."""
    ctx.progress(0.5, "half of the rows")
    await half_way.wait()
    return 1_000


async def main() -> None:
    """Take results in the ways there are."""
    async with jobs.runner():
        handle = await invoice.enqueue("2026-17", [Decimal("19.90"), Decimal("0.10")])
        print("result:  ", await handle.result(timeout=10))
        print("later:   ", await invoice.handle(handle.id).result())  # by id, typed the same
        job = await jobs.get(handle.id)
        print("as a row:", job and job.result["total"])

        try:
            await (await invoice.enqueue("2026-18", [])).result(timeout=10)
        except JobDied as error:
            print("died:    ", error.job.error_message)

        slow = await export.enqueue()
        try:
            await slow.result(timeout=0.1)
        except WaitTimeout:
            print("not yet: ", "still running")
        half_way.set()
        print("done:    ", await slow.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())
