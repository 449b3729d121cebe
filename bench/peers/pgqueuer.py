"""PgQueuer: batches of as many jobs as there are slots; a key is an entrypoint with the concurrency limit 1, or 5.

Its hard limit on jobs at a time has to be at least twice the batch.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.contenders.contender import Contender, Payload
from bench.contenders.speaking import main


class Pgqueuer(Contender):
    """It deletes what has run, and writes a log of it."""

    version = version("pgqueuer")
    LEFT = "SELECT count(*) FROM pgqueuer WHERE execute_after < now() + interval '1 hour'"
    FINISH = """
        WITH gone AS (DELETE FROM pgqueuer RETURNING *)
        INSERT INTO pgqueuer_log (job_id, status, priority, entrypoint) SELECT id, 'successful', priority, entrypoint FROM gone
    """

    async def prepare(self) -> None:
        connection = await asyncpg.connect(self.dsn)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    @asynccontextmanager
    async def enqueueing(self, connections: int) -> AsyncGenerator[None]:
        if connections == 1:
            connection = await asyncpg.connect(self.dsn)
            self.queries = Queries(AsyncpgDriver(connection))
            yield
            await connection.close()
        else:
            async with asyncpg.create_pool(self.dsn, min_size=connections, max_size=connections) as pool:
                self.queries = Queries(AsyncpgPoolDriver(pool))
                yield

    async def enqueue(self, job: Payload) -> None:
        await self.queries.enqueue(job.key or "note", json.dumps(job).encode())

    async def enqueue_all(self, jobs: Sequence[Payload], delay: float) -> None:
        names, payloads = [job.key or "note" for job in jobs], [json.dumps(job).encode() for job in jobs]
        after = [timedelta(seconds=delay)] * len(jobs) if delay else None
        await self.queries.enqueue(names, payloads, [0] * len(jobs), after)

    @asynccontextmanager
    async def working(self, concurrency: int) -> AsyncGenerator[None]:
        connection = await asyncpg.connect(self.dsn)
        worker = PgQueuer(AsyncpgDriver(connection))

        async def note(job: Job) -> None:
            await self.handled(*json.loads(job.payload or b""))

        worker.entrypoint("note")(note)
        for key in range(self.keys):
            worker.entrypoint(f"key {key}", concurrency_limit=5 if self.options.get("limit") == "each" else 1)(note)
        running = asyncio.create_task(worker.run(batch_size=concurrency, max_concurrent_tasks=2 * concurrency))
        yield
        worker.shutdown.set()
        await running
        await connection.close()


if __name__ == "__main__":
    main(Pgqueuer)
