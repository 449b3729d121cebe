"""An enqueuer of the test's own, without an app around it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.runtime.enqueuer import Enqueuer
from asyncjobs.runtime.parts import Parts
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store.database import Database
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Events
from tests.support.services import Woken


class Enqueuing:
    """The enqueuer, what was woken in this process, and what the others would be notified of."""

    def __init__(self, database: Database, *, retry_seconds: float) -> None:
        self.pool = Pool(database, 2)
        self.notified: list[str] = []
        self.woken = Woken()
        wakes = Wakes(self.notified.append)
        wakes.add(self.woken)
        self.events = Events()
        self.parts = Parts(self.events)
        self.enqueuer = Enqueuer(
            database, self.pool, wakes, self.parts.start, events=self.events, retry_seconds=retry_seconds
        )

    async def enqueue(self, row: NewRow) -> Enqueued:
        """One row."""
        return await self.enqueuer.enqueue(row)

    async def gather(self, rows: Sequence[NewRow]) -> list[Enqueued | BaseException]:
        """All of them at the same time, each by a caller of its own."""
        return await asyncio.gather(*map(self.enqueuer.enqueue, rows), return_exceptions=True)

    async def close(self) -> None:
        """End the lines' tasks, then close the connections."""
        await self.parts.stop()
        await asyncio.gather(self.enqueuer.close(), self.pool.close())


@asynccontextmanager
async def enqueuing(database: Database, *, retry_seconds: float = 10.0) -> AsyncGenerator[Enqueuing]:
    """An open enqueuer."""
    made = Enqueuing(database, retry_seconds=retry_seconds)
    try:
        yield made
    finally:
        await made.close()
