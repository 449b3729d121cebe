"""What tests of schedules need: one runner's scheduler without the runner."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from asyncjobs.model.schedule import Misfire, Overlap, Schedule, Timing
from asyncjobs.runtime.scheduler import Scheduler
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Events
from tests.support.factories import a_row
from tests.support.services import Woken, running


def a_schedule(
    name: str = "s", *, every: float = 3600.0, misfire: Misfire = "one", overlap: Overlap = "allow", **fields: Any
) -> Schedule:
    return Schedule(name=name, timing=Timing(every=every), misfire=misfire, overlap=overlap, row=a_row("email", **fields))


class Setup:
    """A scheduler, whom it wakes here, and what it notifies to others."""

    def __init__(self, database: Database, runner_id: int, *schedules: Schedule, interval_seconds: float = 600.0) -> None:
        self.notified: list[str] = []
        self.woken = Woken()
        self.runner_id = runner_id
        wakes = Wakes(self.notified.append)
        wakes.add(self.woken)
        self.pool = Pool(database, 1)
        self.scheduler = Scheduler(
            self.pool, wakes, schedules, events=Events(), runner_id=lambda: self.runner_id, interval_seconds=interval_seconds
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Scheduler]:
        """Run until the context is left; it has passed once when it is entered."""
        try:
            async with running(self.scheduler):
                await self.scheduler.wait_passed()
                yield self.scheduler
        finally:
            await self.pool.close()

    async def look(self) -> None:
        """Let it look again, now."""
        self.scheduler.wake()
        await self.scheduler.wait_passed()


Make = Callable[..., Setup]


async def count(connection: Connection) -> int:
    """How many jobs were made."""
    return int(await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs"))
