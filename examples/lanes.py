"""Slots kept for quick work: a password mail does not wait behind a hundred exports.

Run it with `python examples/lanes.py`.
"""

import asyncio

from asyncjobs import AsyncJobs, Lane, Queue

# Of four slots one is kept for the lane "fast"; the other three take any lane, by priority. A lane may have a timeout of its own.
jobs = AsyncJobs("embedded://", queues=[Queue("lanes", concurrency=4, lanes={"fast": Lane(1, timeout=120)})])
running: set[str] = set()
most: list[int] = []
busy, go_on = asyncio.Event(), asyncio.Event()


@jobs.job("lanes.export", queue="lanes")
async def export(name: str) -> None:
    """Slow work. It never takes the fast lane's slot, however much of it there is."""
    running.add(name)
    most.append(len(running))
    if len(running) == 3:  # all slots but the one that is kept
        busy.set()
    await go_on.wait()
    running.discard(name)


@jobs.job("lanes.password", queue="lanes", lane="fast")
async def password(to: str) -> str:
    """Quick work, in the slot that is kept for it."""
    return f"mailed {to} beside {len(running)} exports"


async def main() -> None:
    """Fill the queue with exports, then ask for a password."""
    async with jobs.runner():
        handles = await jobs.enqueue_many(export.new(f"export {number}") for number in range(20))
        await busy.wait()
        print(await (await password.enqueue("ada@example.com")).result(timeout=10))
        go_on.set()
        for handle in handles:
            await handle.wait(timeout=20)
    print(f"at most {max(most)} exports at a time")


if __name__ == "__main__":
    asyncio.run(main())
