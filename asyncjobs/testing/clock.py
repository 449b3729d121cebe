"""A clock that tests move instead of sleeping through time.

SQL reads time only through the schema's function `clock()`. A `MovableClock` replaces it by one that adds a shift; due times,
dead letters, dedup keys and schedules follow, whichever process asks. Timers in processes do not: the runners of the app that the
clock was made for are woken after a move, whatever else waits is yours to wake.
"""

from datetime import datetime, timedelta
from typing import Self

from asyncjobs.app import AsyncJobs
from asyncjobs.store.database import Database, Link
from asyncjobs.testing.in_memory import memory_of
from asyncjobs.testing.target import database_of


class MovableClock:
    """The clock of one schema: `async with MovableClock(jobs) as clock: await clock.advance(3600)`.

    It is the clock of an app's schema, or of a database's. The role needs to own the schema. Leaving the context puts the real
    clock back.
    """

    def __init__(self, of: AsyncJobs | Database) -> None:
        self._of = of
        self._made: Link | None = None
        self._seconds = 0.0
        self._memory = memory_of(of)

    @property
    def _link(self) -> Link:
        if self._made is None:
            self._made = database_of(self._of).link("clock")
        return self._made

    async def __aenter__(self) -> Self:
        if self._memory is not None:
            return self
        try:
            await self._link.fetch("clock_table")
            await self._link.fetch("clock_shift", 0.0)
            await self._link.fetch("clock_moved")
        except BaseException:
            self._link.abort()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._memory is not None:
            self._memory.shift, self._seconds = timedelta(), 0.0
            return
        try:
            await self._link.fetch("clock_real")
        finally:
            await self._link.close()
            self._made, self._seconds = None, 0.0

    async def advance(self, by: timedelta | float) -> None:
        """Move the clock by this much (a timedelta or seconds), counted from where it is. Negative: back."""
        await self._put(self._seconds + (by.total_seconds() if isinstance(by, timedelta) else by))

    async def set(self, to: datetime) -> None:
        """Move the clock to this instant; it goes on from there."""
        await self.advance(to - await self.now())

    async def now(self) -> datetime:
        """What the clock says."""
        if self._memory is not None:
            return self._memory.now()
        row = await self._link.fetch_row("clock_read")
        assert row is not None
        now: datetime = row["now"]
        return now

    async def _put(self, seconds: float) -> None:
        self._seconds = seconds
        if self._memory is not None:
            self._memory.shift = timedelta(seconds=seconds)
            return
        await self._link.fetch("clock_shift", seconds)
        if isinstance(self._of, AsyncJobs):
            opened = self._of.lifecycle.opened
            if opened is not None and opened.breakers.services:
                opened.breakers.look_now()
            for runner in self._of.runners:
                runner.wake()
