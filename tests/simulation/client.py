"""A process that enqueues: jobs of all kinds, at random, and what it was told of each."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from asyncjobs import AsyncJobs
from asyncjobs.errors import AsyncJobsError
from asyncjobs.store.failures import DATABASE_ERRORS
from tests.simulation.world import Process

_ERRORS = (AsyncJobsError, *DATABASE_ERRORS)


class Client:
    """Enqueues through an open app."""

    def __init__(self, process: Process, jobs: AsyncJobs, random: Random) -> None:
        self.process = process
        self.jobs = jobs
        self.random = random
        self.accepted: dict[int, list[int]] = {}  # number -> ids that the enqueue said
        self.is_done = False
        self._number = 0

    async def work(self, count: int, pause: float) -> None:
        """So many enqueues, so many seconds apart."""
        ways: list[Callable[[], Awaitable[None]]] = [self._plain, self._keyed, self._delayed, self._many, self._here, self._dedup]
        ways += [self._plain, self._keyed, self._cancel]
        for _ in range(count):
            await asyncio.sleep(self.random.expovariate(1 / pause))
            with contextlib.suppress(*_ERRORS):
                await self.random.choice(ways)()
        self.is_done = True

    def _new(self, **options: Any) -> Any:
        self._number += 1
        plan = self.random.choice([["ok"]] * 6 + [["fail", "ok"], ["fail"], ["die"], ["snooze"], ["fail", "snooze"]])
        seconds = self.random.choice([0.0, 0.01, 0.3, 2.0, 8.0])
        payload = {"plan": plan, "seconds": seconds, "number": self._number}
        return self._number, "act", payload, {"queue": self.random.choice(["default", "default", "side"]), **options}

    async def _enqueue(self, **options: Any) -> int:
        number, type, payload, given = self._new(**options)
        handle = await self.jobs.enqueue(type, payload, **given)
        self.accepted.setdefault(number, []).append(handle.id)
        return handle.id

    async def _plain(self) -> None:
        await self._enqueue(priority=self.random.choice([100, 100, 1]))

    async def _keyed(self) -> None:
        await self._enqueue(serialization_key=self.random.choice("abc"))

    async def _delayed(self) -> None:
        key = self.random.choice([None, "a", "b"])
        await self._enqueue(delay=self.random.choice([0.2, 3.0, 11.0]), serialization_key=key)

    async def _many(self) -> None:
        await asyncio.gather(*(self._keyed() if self.random.random() < 0.5 else self._plain() for _ in range(4)))

    async def _dedup(self) -> None:
        await self._enqueue(dedup_key=self.random.choice("xy"))

    async def _cancel(self) -> None:
        job_id = await self._enqueue(serialization_key=self.random.choice([None, "a"]), delay=self.random.choice([None, 1.0]))
        await asyncio.sleep(self.random.random())
        await self.jobs.admin.cancel(job_id)

    async def _here(self) -> None:
        """In a transaction of its own, which may be rolled back, and may take its time."""
        number, type, payload, options = self._new(serialization_key=self.random.choice([None, "a", "c"]))
        connection = await self.process.world.connect(self.process, "application", 5.0)
        try:
            with contextlib.suppress(_RolledBack):
                async with connection.transaction():
                    handle = await self.jobs.enqueue(type, payload, connection=connection, **options)
                    await asyncio.sleep(self.random.choice([0.0, 0.0, 1.0, 2.5]))
                    if self.random.random() < 0.3:
                        raise _RolledBack
                self.accepted.setdefault(number, []).append(handle.id)
        finally:
            connection.terminate()


class _RolledBack(Exception):
    pass
