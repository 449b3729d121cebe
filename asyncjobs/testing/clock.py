"""A clock that tests move instead of sleeping through time.

SQL reads time only through the schema's function `clock()`. A `MovableClock` replaces it by one that adds a shift; due times,
dead letters, dedup keys and schedules follow, whichever process asks. Timers in processes do not: the runners of the app that the
clock was made for are woken after a move, whatever else waits is yours to wake. Within `in_memory` it is the clock of the memory.

A transaction that has begun keeps its instant, as with the real clock: what it judges in one statement and stamps in the next is
of one time, also where the clock was put back between the two.

In a plain `def` test: `with MovableClock(jobs) as clock: clock.advance_sync(3600)`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Self

from asyncjobs.app import AsyncJobs
from asyncjobs.store.database import Database, Link
from asyncjobs.testing.in_memory import memory_of, run_in_loop_of
from asyncjobs.testing.target import database_of


class MovableClock:
    """The clock of one schema: `async with MovableClock(jobs) as clock: await clock.advance(3600)`.

    It is the clock of an app's schema, or of a database's. The role needs to own the schema. Leaving the context puts the real
    clock back. What ends in `_sync` is for a plain `def` test, which enters it with `with`.
    """

    def __init__(self, of: AsyncJobs | Database) -> None:
        self._of = of
        self._kept: Link | None = None  # since it was entered with `async with`, in that loop
        self._seconds = 0.0
        self._memory = memory_of(of)

    async def __aenter__(self) -> Self:
        await self._begin(keeps=True)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._end()

    def __enter__(self) -> Self:
        run_in_loop_of(self._of, lambda: self._begin(keeps=False))
        return self

    def __exit__(self, *error: object) -> None:
        run_in_loop_of(self._of, self._end)

    async def advance(self, by: timedelta | float) -> None:
        """Move the clock by this much (a timedelta or seconds), counted from where it is. Negative: back."""
        await self._put(self._seconds + (by.total_seconds() if isinstance(by, timedelta) else by))

    def advance_sync(self, by: timedelta | float) -> None:
        """`advance` in a plain `def` test."""
        run_in_loop_of(self._of, lambda: self.advance(by))

    async def set(self, to: datetime) -> None:
        """Move the clock to this instant; it goes on from there."""
        await self.advance(to - await self.now())

    def set_sync(self, to: datetime) -> None:
        """`set` in a plain `def` test."""
        run_in_loop_of(self._of, lambda: self.set(to))

    async def now(self) -> datetime:
        """What the clock says."""
        if self._memory is not None:
            return self._memory.now()
        async with self._link() as link:
            row = await link.fetch_row("clock_read")
        assert row is not None
        now: datetime = row["now"]
        return now

    def now_sync(self) -> datetime:
        """`now` in a plain `def` test."""
        return run_in_loop_of(self._of, self.now)

    async def _begin(self, *, keeps: bool) -> None:
        self._memory = memory_of(self._of)
        if self._memory is not None:
            return
        if keeps:
            self._kept = database_of(self._of).link("clock")
        async with self._link() as link:
            try:
                await link.fetch("clock_table")
                await link.fetch("clock_unmoved")
                await link.fetch("clock_moved")
            except BaseException:
                link.abort()
                raise

    async def _end(self) -> None:
        self._seconds = 0.0
        if self._memory is not None:
            self._memory.shift = timedelta()
            return
        try:
            async with self._link() as link:
                await link.fetch("clock_real")
        finally:
            if self._kept is not None:
                await self._kept.close()
            self._kept = None

    @asynccontextmanager
    async def _link(self) -> AsyncGenerator[Link]:
        if self._kept is not None:
            yield self._kept
            return
        link = database_of(self._of).link("clock")
        try:
            yield link
        finally:
            await link.close()

    async def _put(self, seconds: float) -> None:
        self._seconds = seconds
        if self._memory is not None:
            self._memory.shift = timedelta(seconds=seconds)
            return
        async with self._link() as link:
            await link.fetch("clock_shift", seconds)
            await link.fetch("clock_wait")
        if isinstance(self._of, AsyncJobs):
            opened = self._of.lifecycle.opened
            if opened is not None and opened.breakers.services:
                opened.breakers.look_now()
            for runner in self._of.runners:
                runner.wake()
