"""What statements written by hand reach, without a library: no retries, timeouts, priorities, keys, rescue nor results.

One row is claimed for each free slot, all rows of a claim are run, then all are completed; with the option `batch` that many are
claimed at once. Each claim and each completion is one prepared statement and one commit. Enqueues are followed by a notification
from a connection of its own, since in the transaction of an INSERT it makes commits wait for each other.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TypeAlias

import asyncpg

from bench.contenders.contender import Contender, Payload
from bench.contenders.speaking import main

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"

TABLE = """
    CREATE TABLE by_hand (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb NOT NULL,
        status text NOT NULL DEFAULT 'pending', run_at timestamptz NOT NULL DEFAULT now(), finished_at timestamptz);
    CREATE INDEX ON by_hand (id) WHERE status = 'pending';
    CREATE INDEX ON by_hand (run_at) WHERE status = 'scheduled';
"""
INSERT = "INSERT INTO by_hand (payload) VALUES ($1) RETURNING id"
INSERT_ALL = """
    INSERT INTO by_hand (payload, status, run_at)
    SELECT p, CASE WHEN $2 > 0 THEN 'scheduled' ELSE 'pending' END, now() + $2 * interval '1 second' FROM unnest($1::jsonb[]) AS p
"""
CLAIM = """
    WITH found AS MATERIALIZED (SELECT id FROM by_hand WHERE status = 'pending' ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
    UPDATE by_hand AS j SET status = 'processing' FROM found WHERE j.id = found.id RETURNING j.id, j.payload
"""
COMPLETE = "UPDATE by_hand SET status = 'completed', finished_at = now() WHERE id = ANY ($1)"


class Floor(Contender):
    """No library."""

    version = f"asyncpg {version('asyncpg')}"

    LEFT = "SELECT count(*) FROM by_hand WHERE status NOT IN ('completed', 'scheduled')"
    FINISH = "UPDATE by_hand SET status = 'completed', finished_at = now()"

    connection: "Connection | Pool"

    async def prepare(self) -> None:
        async with self._connected() as connection:
            await connection.execute(TABLE)

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[Connection]:
        # Else a plan made while the table was empty would be kept.
        connection = await asyncpg.connect(self.dsn, server_settings={"enable_seqscan": "off"})
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def enqueueing(self, connections: int) -> AsyncGenerator[None]:
        self.news = asyncio.Event()
        # A pool resets a connection whenever it comes back, which one at a time does not need.
        pool = asyncpg.create_pool(self.dsn, min_size=connections, max_size=connections)
        async with self._connected() if connections == 1 else pool as self.connection:
            telling = asyncio.create_task(self._tell())
            yield
            telling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await telling

    async def _tell(self) -> None:
        async with self._connected() as connection:
            while True:
                await self.news.wait()
                self.news.clear()
                await connection.execute("NOTIFY by_hand")

    async def enqueue(self, job: Payload) -> None:
        await self.connection.fetchval(INSERT, json.dumps(job))
        self.news.set()

    async def enqueue_all(self, jobs: Sequence[Payload], delay: float) -> None:
        await self.connection.execute(INSERT_ALL, [json.dumps(job) for job in jobs], delay)
        self.news.set()

    @asynccontextmanager
    async def working(self, concurrency: int) -> AsyncGenerator[None]:
        self.stopping = False
        async with self._connected() as connection:
            heard = asyncio.Event()
            await connection.add_listener("by_hand", lambda *_: heard.set())
            loop = asyncio.create_task(self._work(connection, concurrency, heard))
            yield
            self.stopping = True
            heard.set()
            await loop

    async def _work(self, connection: Connection, concurrency: int, heard: asyncio.Event) -> None:
        batch: int = self.options.get("batch", concurrency)
        claim, complete = await connection.prepare(CLAIM), await connection.prepare(COMPLETE)
        while not self.stopping:
            heard.clear()
            rows = await claim.fetch(batch)
            if rows:
                await self._run(rows, concurrency)
                await complete.fetch([row["id"] for row in rows])
            if len(rows) < batch:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(heard.wait(), 1)

    async def _run(self, rows: list[asyncpg.Record], concurrency: int) -> None:
        left = iter(rows)

        async def slot() -> None:
            for row in left:
                await self.handled(*json.loads(row["payload"]))

        await asyncio.gather(*(slot() for _ in range(min(concurrency, len(rows)))))


if __name__ == "__main__":
    main(Floor)
