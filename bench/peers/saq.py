"""SAQ on PostgreSQL: its defaults. It has no bulk enqueue; a key is a group."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from time import time
from typing import Any

from saq import Queue, Worker
from saq.queue.postgres import PostgresQueue

from bench.contenders.contender import Contender, Payload
from bench.contenders.speaking import CONNECTIONS, main


class Saq(Contender):
    """It keeps what has run for ten minutes."""

    version = version("saq")
    LEFT = "SELECT count(*) FROM saq_jobs WHERE status <> 'complete' AND scheduled < extract(epoch FROM now()) + 3600"
    FINISH = "UPDATE saq_jobs SET status = 'complete', expire_at = extract(epoch FROM now()) + 86400"

    @asynccontextmanager
    async def _connected(self, connections: int) -> AsyncGenerator[PostgresQueue]:
        queue = Queue.from_url(self.dsn, min_size=min(4, connections), max_size=connections)
        await queue.connect()
        yield queue
        await queue.disconnect()

    async def prepare(self) -> None:
        async with self._connected(4):
            pass

    @asynccontextmanager
    async def enqueueing(self, connections: int) -> AsyncGenerator[None]:
        async with self._connected(max(CONNECTIONS, connections)) as self.queue:
            yield

    async def enqueue(self, job: Payload) -> None:
        await self.queue.enqueue("note", **self._arguments(job))

    def _arguments(self, job: Payload) -> dict[str, Any]:
        # `key` is a name of its own: the job's id.
        grouped = {"group_key": job.key} if job.key else {}
        return {"number": job.number, "at": job.at, "name": job.key, **grouped}

    async def enqueue_all(self, jobs: Sequence[Payload], delay: float) -> None:
        when = {"scheduled": int(time() + delay)} if delay else {}
        left = iter(jobs)

        async def caller() -> None:
            for job in left:
                await self.queue.enqueue("note", **self._arguments(job), **when)

        await asyncio.gather(*(caller() for _ in range(CONNECTIONS)))

    @asynccontextmanager
    async def working(self, concurrency: int) -> AsyncGenerator[None]:
        async def note(_context: object, *, number: int, at: float, name: str) -> None:
            await self.handled(number, at, name)

        async with self._connected(20) as queue:
            worker = Worker(queue, functions=[("note", note)], concurrency=concurrency)
            running = asyncio.create_task(worker.start())
            yield
            worker.event.set()
            await running


if __name__ == "__main__":
    main(Saq)
