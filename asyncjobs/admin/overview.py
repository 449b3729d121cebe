"""Looking: how much of what is there, one job, the jobs of one user action, who runs them."""

from asyncjobs.admin.desk import Desk
from asyncjobs.model.job import Job
from asyncjobs.store import leases, overview, runners
from asyncjobs.store.leases import Lease
from asyncjobs.store.overview import Count
from asyncjobs.store.runners import RunnerRow


class Overview(Desk):
    """Verbs that change nothing."""

    async def stats(self) -> list[Count]:
        """The unfinished jobs by queue, type and status.

        `served` is False for jobs that no live runner would take: a type without a handler anywhere, a queue that nobody serves.
        They stay pending until a runner that knows them comes.
        """
        return await self._do("stats", overview.stats)

    async def get(self, job_id: int, /) -> Job | None:
        """The job as it is now, also while it waits for its key, or None."""
        return await self._opened("admin.get was called").get(job_id)

    async def trace(self, correlation_id: str, /, *, limit: int = 1_000) -> list[Job]:
        """The jobs of one correlation id, those that wait among them, in the order in which they were made."""
        return await self._do("trace", lambda link: overview.trace(link, correlation_id, limit))

    async def leases(self) -> list[Lease]:
        """The duties that are done under a lease: who holds which, since when, and what its last pass did."""
        return await self._do("leases", leases.leases)

    async def runners(self, *, former: int = 100) -> list[RunnerRow]:
        """Who runs jobs: where, what, since when; and the last so many of those that ended, with `died_at` if they were lost."""
        return await self._do("runners", lambda link: runners.everybody(link, former))
