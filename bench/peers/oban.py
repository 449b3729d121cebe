"""Oban for Python: its defaults, with the slots as the queue's limit."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version

from oban import Job, Oban, worker
from oban.schema import install

from bench.contenders.contender import Contender, Payload
from bench.contenders.speaking import current, main


@worker(queue="default")
class Note:
    """Found by its name."""

    async def process(self, job: Job) -> None:
        await current[0].handled(**job.args)


class Obans(Contender):
    """Its free edition: bulk inserts and acknowledgements in bulk are Pro's."""

    version = version("oban")
    LEFT = "SELECT count(*) FROM oban_jobs WHERE state NOT IN ('completed', 'scheduled')"
    FINISH = "UPDATE oban_jobs SET state = 'completed', attempt = 1, attempted_at = now(), completed_at = now()"

    async def prepare(self) -> None:
        pool = await Oban.create_pool(self.dsn)
        await install(pool)
        await pool.close()

    @asynccontextmanager
    async def _open(self, connections: int, queues: dict[str, int]) -> AsyncGenerator[None]:
        pool = await Oban.create_pool(self.dsn, min_size=min(4, connections), max_size=connections)
        async with Oban(pool=pool, queues=queues) as self.oban:
            yield
        await pool.close()

    @asynccontextmanager
    async def enqueueing(self, connections: int) -> AsyncGenerator[None]:
        async with self._open(connections + 1, {}):
            yield

    async def enqueue(self, job: Payload) -> None:
        await self.oban.enqueue(Note.new(job._asdict()))

    async def enqueue_all(self, jobs: Sequence[Payload], delay: float) -> None:
        when = {"scheduled_in": delay} if delay else {}
        await self.oban.enqueue_many([Note.new(job._asdict(), **when) for job in jobs])

    @asynccontextmanager
    async def working(self, concurrency: int) -> AsyncGenerator[None]:
        async with self._open(10, {"default": concurrency}):
            yield


if __name__ == "__main__":
    main(Obans)
