"""Looking at many at once, as pages of a dashboard do: bounded reads that come without payloads."""

from typing import Unpack

import msgspec

from asyncjobs.admin.desk import Desk
from asyncjobs.errors import UsageError
from asyncjobs.model.finding import JobFilter
from asyncjobs.model.outcome import Duration
from asyncjobs.runtime.open_app import not_found
from asyncjobs.settings import config_seconds
from asyncjobs.store import jobs, listing, series
from asyncjobs.store.database import Link
from asyncjobs.store.listing import JobRow, Listed
from asyncjobs.store.series import History, Step

_MOST_STEPS = 1_000


class Listing(Desk):
    """Verbs that change nothing."""

    async def series(
        self, *, type: str | None = None, queue: str | None = None, window: Duration = 3600.0, step: Duration = 60.0
    ) -> list[Step]:
        """How attempts fared in the last `window`, step by step: the oldest first, empty steps too, the last one under way.

        Of all types, of one, or of those that are declared for a queue: attempts are counted by type, so jobs that an enqueue put
        elsewhere count where their type belongs.

        Steps are whole minutes, hours or days since the epoch, at most 1,000. What is older than two hours is kept by the hour,
        than a day by the quarter of a day, than a week by the day: a shorter step shows it at the beginning of that.
        """
        seconds, each = _steps("series", window, step)
        return await self._do("series", lambda link: series.read(link, type, queue, step_seconds=each, window_seconds=seconds))

    async def history(self, *, window: Duration = 3600.0, step: Duration = 60.0) -> History:
        """`series` over all types, and how each type fared in the same steps together; from one reading."""
        seconds, each = _steps("history", window, step)
        return await self._do("history", lambda link: series.history(link, step_seconds=each, window_seconds=seconds))

    async def rows(self, *, before: int | None = None, limit: int = 100, **which: Unpack[JobFilter]) -> Listed:
        """`find` for lists: of each job what a row shows, whatever the size of its payload."""
        self._check_searched(which)
        found = await self._do("rows", lambda link: listing.page(link, which, self._redacts(), before=before, limit=limit))
        return Listed(self._shown_rows(found.jobs), found.next, found.looked)

    async def longest_running(self, *, limit: int = 50) -> list[JobRow]:
        """What runs now, and for longest first. What is claimed ahead of its slot does not run."""
        return self._shown_rows(await self._do("longest_running", lambda link: listing.longest(link, self._redacts(), limit)))

    async def children(self, job_id: int, /, *, limit: int = 100) -> list[JobRow]:
        """The first jobs that this one enqueued, the lowest id first. JobNotFound."""

        async def read(link: Link) -> list[JobRow] | None:
            job = await jobs.get(link, job_id)
            return None if job is None else await listing.children(link, job_id, self._redacts(), limit)

        found = await self._do("children", read)
        if found is None:
            raise not_found(job_id)
        return self._shown_rows(found)

    async def trace_rows(self, correlation_id: str, /, *, limit: int = 500) -> list[JobRow]:
        """`trace` for lists: the first jobs of a correlation id, the lowest id first."""
        found = await self._do("trace_rows", lambda link: listing.trace(link, correlation_id, self._redacts(), limit))
        return self._shown_rows(found)

    def _shown_rows(self, rows: list[JobRow]) -> list[JobRow]:
        """The same, without the beginnings of payloads for who is shown none."""
        return rows if self.shows_payloads else [msgspec.structs.replace(row, payload_start=None) for row in rows]


def _steps(verb: str, window: Duration, step: Duration) -> tuple[float, float]:
    seconds = config_seconds(window, name="window", positive=True)
    each = config_seconds(step, name="step", positive=True)
    if not 1 <= seconds / each <= _MOST_STEPS:
        raise UsageError(f"admin.{verb}: a window of {seconds:g} s has no 1 to {_MOST_STEPS} steps of {each:g} s.")
    return seconds, each
