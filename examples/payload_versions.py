"""What a job takes changes while jobs wait: versions with upgrades, and a new name for the type.

Two deployments of one program share a database here, as they do for a while in every rolling deployment.

Run it with `python examples/payload_versions.py`.
"""

import asyncio
from typing import Any
from uuid import uuid4

from asyncjobs import AsyncJobs

yesterday = AsyncJobs("embedded://")
today = AsyncJobs("embedded://")
RUN = uuid4().hex[:8]  # each run has its own jobs


@yesterday.job(f"pay {RUN}")
async def pay(euros: float) -> str:
    """Has version 1, as every type that says nothing of versions."""
    return f"yesterday's handler paid {euros:.2f} EUR"


def to_cents(fields: dict[str, Any]) -> dict[str, Any]:
    """From version 1 to 2: amounts were euros."""
    return {"cents": round(fields["euros"] * 100)}


def with_currency(fields: dict[str, Any]) -> dict[str, Any]:
    """From version 2 to 3: there was one currency."""
    return {**fields, "currency": "EUR"}


@today.job(f"invoice.pay {RUN}", aliases=(f"pay {RUN}",), version=3, upgrades={1: to_cents, 2: with_currency})
async def pay_invoice(cents: int, currency: str) -> str:
    """The handler knows the newest version only."""
    return f"today's handler paid {cents / 100:.2f} {currency}"


async def main() -> None:
    """Let yesterday's program enqueue what today's runs. The other way round a job would wait for a newer runner."""
    async with yesterday, today:
        stored = await pay.enqueue(12.5)
        new = await pay_invoice.enqueue(1990, currency="SEK")
        async with today.runner():
            print("of yesterday:", (await today.handle(stored.id).wait(timeout=10)).result)
            print("of today:    ", await new.result(timeout=10))
        job = await today.get(stored.id)
        assert job is not None
        print("as stored:   ", f"version {job.version}, {job.payload}")


if __name__ == "__main__":
    asyncio.run(main())
