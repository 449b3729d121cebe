"""Hold work back without stopping anything: pause a type, drain a queue before maintenance, resume.

Run it with `python examples/pause_and_drain.py`.
"""

import asyncio

from asyncjobs import AsyncJobs, Queue

jobs = AsyncJobs("embedded://", queues=[Queue("pictures"), Queue("mail")])


@jobs.job("pause.thumbnail", queue="pictures")
async def thumbnail(picture: str) -> str:
    """Needs a storage that may be full."""
    await asyncio.sleep(0.2)
    return f"{picture} is small now"


@jobs.job("pause.mail", queue="mail")
async def mail(to: str) -> str:
    """Needs nothing of it."""
    return f"mailed {to}"


async def main() -> None:
    """Pause a type, drain a queue, and undo both."""
    admin = jobs.admin
    async with jobs.runner():
        await admin.pause(type="pause.thumbnail", reason="the storage is full", by="ada")
        held = await thumbnail.enqueue("cat.png")
        print(await (await mail.enqueue("ada@example.com")).result(timeout=10))
        print("why not:", (await admin.explain(held.id)).sentence.partition(": ")[2])
        await admin.resume(type="pause.thumbnail")
        print(await held.result(timeout=10))

        await thumbnail.enqueue("dog.png")
        print("still running after the drain:", await admin.drain(queue="pictures", timeout=10))
        later = await thumbnail.enqueue("fox.png")
        print("paused:", [(one.kind, one.name) for one in await admin.pauses()])
        await admin.resume(queue="pictures")
        print(await later.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())
