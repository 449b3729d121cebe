"""Operators' verbs: `jobs.admin`. The command line and the dashboard can do nothing that is not here."""

from collections.abc import Callable

from asyncjobs.model.job import Job
from asyncjobs.runtime.opened import Opened
from asyncjobs.store import overview
from asyncjobs.store.overview import Count


class Admin:
    """What operators do. The app must be open; it need not run jobs."""

    def __init__(self, opened: Callable[[str], Opened]) -> None:
        self._opened = opened

    async def stats(self) -> list[Count]:
        """The unfinished jobs by queue, type and status.

        `served` is False for jobs that no live runner would take: a type without a handler anywhere, a queue that nobody serves.
        They stay pending until a runner that knows them comes.
        """
        async with self._opened("admin.stats was called").pool.take() as link:
            return await overview.stats(link)

    async def get(self, job_id: int, /) -> Job | None:
        """The job as it is now, or None."""
        return await self._opened("admin.get was called").get(job_id)
