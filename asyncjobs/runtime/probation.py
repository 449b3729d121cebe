"""The jobs here that were lost with another runner: how long they outlive it, written into their rows; one suspect at a time.

The rules are in `model/probation.py`. A job that never was lost is not known here, and costs nothing.
"""

import heapq
from collections.abc import Callable
from typing import ClassVar, Final

from asyncjobs.model.claim import Claimed
from asyncjobs.model.probation import mark_seconds, probation_seconds
from asyncjobs.runtime.service import Service
from asyncjobs.store import jobs
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Events

_INTERVAL_SECONDS: Final = 60.0


class _Kept:
    """One of these jobs."""

    __slots__ = ("began_at", "cleared", "job", "outlived")

    def __init__(self, job: Claimed) -> None:
        self.job = job
        self.began_at = 0.0
        self.outlived = 0
        self.cleared = not job.suspicion

    def next_seconds(self) -> float | None:
        """After how long a run it has outlived the next thing."""
        marks = (mark_seconds(self.outlived), None if self.cleared else probation_seconds(self.job.suspicion))
        return min((seconds for seconds in marks if seconds is not None), default=None)

    def outlive(self) -> None:
        """It has run for so long."""
        seconds = self.next_seconds()
        if seconds == mark_seconds(self.outlived):
            self.outlived += 1
        else:
            self.cleared = True


class Probation(Service):
    """Writes what these jobs outlive, and lets the next suspect start when the row of the last one says that it is cleared."""

    name: ClassVar[str] = "probation"

    def __init__(self, pool: Pool, *, events: Events, released: Callable[[], None]) -> None:
        super().__init__(events=events, interval_seconds=_INTERVAL_SECONDS)
        self._pool = pool
        self._released = released
        self._kept: dict[int, _Kept] = {}  # by token
        self._due: list[tuple[float, int]] = []  # when, and whose token
        self._unwritten: dict[int, _Kept] = {}
        self._suspect: int | None = None

    @property
    def is_free(self) -> bool:
        """Whether no suspect is on probation here."""
        return self._suspect is None

    def claimed(self, job: Claimed) -> None:
        """A job that was lost before is ours."""
        self._kept[job.token] = _Kept(job)
        if job.suspicion:
            self._suspect = job.token

    def began(self, job: Claimed) -> None:
        """It runs from now on."""
        kept = self._kept[job.token]
        kept.began_at = self._monotonic()
        self._plan(kept)
        self.wake_within(kept.next_seconds() or _INTERVAL_SECONDS)

    def ended(self, job: Claimed) -> None:
        """It has ended, or was given back."""
        self._kept.pop(job.token, None)
        self._unwritten.pop(job.token, None)
        self._release(job.token)

    async def pass_(self) -> float | None:
        """Write what was outlived since the last pass."""
        self._look()
        reached = list(self._unwritten.values())
        if reached:
            async with self._pool.take() as link:
                await jobs.outlive(link, [(kept.job.id, kept.job.token, kept.outlived, kept.cleared) for kept in reached])
        for kept in reached:
            self._unwritten.pop(kept.job.token, None)
            if kept.cleared:
                self._release(kept.job.token)
        return None

    def _look(self) -> None:
        now = self._monotonic()
        while self._due and self._due[0][0] <= now:
            kept = self._kept.get(heapq.heappop(self._due)[1])
            if kept is not None:
                kept.outlive()
                self._unwritten[kept.job.token] = kept
                self._plan(kept)
        if self._due:
            self.wake_within(self._due[0][0] - now)

    def _plan(self, kept: _Kept) -> None:
        seconds = kept.next_seconds()
        if seconds is not None:
            heapq.heappush(self._due, (kept.began_at + seconds, kept.job.token))

    def _release(self, token: int) -> None:
        if self._suspect == token:
            self._suspect = None
            self._released()
