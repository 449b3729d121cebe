"""Chancy: its async executor, and eager polling, which asks for more as soon as a job is done."""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

from chancy import Chancy, Job, Queue, Worker

from bench.contenders.contender import Contender, Payload
from bench.contenders.speaking import current, main

NAME = "bench.peers.chancy.note"
#: Its own logs each job.
LOG = logging.getLogger("chancy")


async def note(*, number: int, at: float, key: str) -> None:
    await current[0].handled(number, at, key)


class Chancys(Contender):
    """It finds the handler by its name, in this file imported once more."""

    version = version("chancy")
    LEFT = "SELECT count(*) FROM chancy_jobs WHERE state <> 'succeeded' AND scheduled_at < now() + interval '1 hour'"
    FINISH = "UPDATE chancy_jobs SET state = 'succeeded', started_at = now(), completed_at = now()"

    async def prepare(self) -> None:
        async with Chancy(self.dsn, log=LOG) as app:
            await app.migrate()

    @asynccontextmanager
    async def enqueueing(self, connections: int) -> AsyncGenerator[None]:
        pool = {"min_connection_pool_size": connections, "max_connection_pool_size": connections}
        async with Chancy(self.dsn, log=LOG, **pool) as self.app:
            yield

    def _job(self, job: Payload, delay: float = 0) -> Job:
        made = Job(func=NAME, queue="default", kwargs=job._asdict())
        return made.with_scheduled_at(datetime.now(UTC) + timedelta(seconds=delay)) if delay else made

    async def enqueue(self, job: Payload) -> None:
        await self.app.push(self._job(job))

    async def enqueue_all(self, jobs: Sequence[Payload], delay: float) -> None:
        async for _ in self.app.push_many([self._job(job, delay) for job in jobs]):
            pass

    @asynccontextmanager
    async def working(self, concurrency: int) -> AsyncGenerator[None]:
        queue = Queue("default", concurrency=concurrency, executor=Chancy.Executor.Async, eager_polling=True)
        async with Chancy(self.dsn, log=LOG) as app:
            await app.declare(queue, upsert=True)
            async with Worker(app, register_signal_handlers=False):
                yield


if __name__ == "__main__":
    main(Chancys)
