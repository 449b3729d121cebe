"""One at a time and in order per key: what jobs with the same serialization key may rely on.

Run it with `python examples/serialized.py`.
"""

import asyncio
from random import random
from uuid import uuid4

from asyncjobs import AsyncJobs, Backoff, JobContext, Queue

jobs = AsyncJobs("embedded://", queues=[Queue("default", concurrency=10)])

delivered: dict[str, list[int]] = {}
busy: set[str] = set()


@jobs.job("serialized.deliver", serialize_by="destination_{destination}", backoff=Backoff(0.05))
async def deliver(destination: str, number: int) -> None:
    """Deliver to a destination. Two at once would overtake each other."""
    assert destination not in busy, "two deliveries at once"
    busy.add(destination)
    await asyncio.sleep(random() * 0.01)
    busy.remove(destination)
    if random() < 0.1:
        raise ConnectionError("hung up")  # the retry keeps the place: the next one waits for it
    delivered.setdefault(destination, []).append(number)


@jobs.job("serialized.deploy", serialize_by="app_{app}", on_dead="halt", max_attempts=1)
async def deploy(ctx: JobContext, app: str, version: str) -> str:
    """Deploy a version. After one that failed nothing may be deployed on top, until somebody has looked."""
    if version == "2.0":
        raise RuntimeError("migration failed")
    return f"{version} is out"


async def main() -> None:
    """Deliver to three destinations at the same time, each in order; then halt a key and let it go on."""
    run = uuid4().hex
    async with jobs.runner():
        handles = [await deliver.enqueue(f"{name}-{run}", number) for number in range(8) for name in ("bonn", "lima", "oslo")]
        await asyncio.gather(*(handle.wait(timeout=60) for handle in handles))
        for destination, numbers in sorted(delivered.items()):
            print(destination.partition("-")[0], "in order" if numbers == sorted(numbers) else numbers)

        app = f"shop-{run}"
        first, broken, last = [await deploy.enqueue(app, version) for version in ("1.9", "2.0", "2.1")]
        print(await first.result(timeout=10))
        await broken.wait(timeout=10)
        state = await jobs.admin.key(f"app_{app}")
        assert state.head_id == broken.id
        print("halted:", state.halt_reason, f"({state.depth - 1} waiting)")
        await jobs.admin.release_key(f"app_{app}")  # or jobs.admin.retry(broken.id), once it is mended
        print(await last.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())
