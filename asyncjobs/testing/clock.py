"""A clock that tests move instead of sleeping through time.

SQL reads time only through the schema's function `clock()`. A `MovableClock` replaces it by one that adds a shift; due times,
dead letters and dedup keys follow, whichever process asks. Timers in processes do not: wake what waits after a move.
"""

from datetime import datetime, timedelta
from typing import Self

from asyncjobs.store.database import Database


class MovableClock:
    """The clock of one schema: `async with MovableClock(database) as clock: await clock.advance(3600)`.

    The role needs to own the schema. Leaving the context puts the real clock back.
    """

    def __init__(self, database: Database) -> None:
        self._link = database.link("clock")
        self._seconds = 0.0

    async def __aenter__(self) -> Self:
        try:
            await self._link.fetch("clock_table")
            await self._link.fetch("clock_moved")
        except BaseException:
            self._link.abort()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._link.fetch("clock_real")
        finally:
            await self._link.close()

    async def advance(self, by: timedelta | float) -> None:
        """Move the clock by this much (a timedelta or seconds), counted from where it is. Negative: back."""
        await self._put(self._seconds + (by.total_seconds() if isinstance(by, timedelta) else by))

    async def set(self, to: datetime) -> None:
        """Move the clock to this instant; it goes on from there."""
        await self.advance(to - await self.now())

    async def now(self) -> datetime:
        """What the clock says."""
        row = await self._link.fetch_row("clock_read")
        assert row is not None
        now: datetime = row["now"]
        return now

    async def _put(self, seconds: float) -> None:
        await self._link.fetch("clock_shift", seconds)
        self._seconds = seconds
