"""Looking: how much of what is there, one job, the jobs of one user action, who runs them."""

from typing import Final

from asyncjobs.admin.desk import Desk
from asyncjobs.model.explanation import Explanation, explain
from asyncjobs.model.job import Job
from asyncjobs.model.outcome import Duration
from asyncjobs.runtime.open_app import not_found
from asyncjobs.settings import config_seconds
from asyncjobs.store import explaining, leases, metrics, overview, runners
from asyncjobs.store.leases import Lease
from asyncjobs.store.metrics import TypeMetrics
from asyncjobs.store.overview import Glance, Sample, Sized, Stats
from asyncjobs.store.runners import RunnerRow

_WINDOW: Final = 10_000
_MOST_HEADS: Final = 3


class Overview(Desk):
    """Verbs that change nothing."""

    async def stats(self) -> Stats:
        """How much is pending, runs and failed, since when the oldest has been due, and the slots in use per lane and runner.

        `counts` are the unfinished jobs by queue, type and status. Of them, `unserved` are those that no live runner would take:
        of a queue that nobody serves, of a type without a handler, with a newer payload than any handler's. They wait until a
        runner comes that can run them.
        """
        return await self._do("stats", overview.stats)

    async def glance(self) -> Glance:
        """`stats` for those who look every few seconds, as pages do: at most 10,000 jobs of a status are counted for it.

        Where there are more, their counts and the oldest of them are as a runner counted them at `counted_at`, half a minute ago
        at most (counting 10 million takes seconds, and is done less often). When no runner lives all are counted.
        """
        return await self._do("glance", overview.glance)

    async def sample(self) -> Sample:
        """How many jobs there are by queue, type and status, their ages, dead letters, halted keys: for monitors.

        Statuses with more than 10,000 jobs are as a runner counted them, half a minute ago at most.
        """
        return await self._do("sample", overview.sample)

    async def metrics(self, *, type: str | None = None, window: Duration = 3600.0) -> list[TypeMetrics]:
        """How attempts fared in the last `window` (seconds or a timedelta), by type: numbers, error rate, p50, p95 and p99.

        From the roll-ups, which every runner writes each `metrics_interval`: what came after the last of them is not in it. What
        is older than two hours is kept by the hour, than a day by the quarter of a day, than a week by the day: a span counts
        when its end is in the window.
        """
        seconds = config_seconds(window, name="window", positive=True)
        return await self._do("metrics", lambda link: metrics.read(link, type, seconds))

    async def get(self, job_id: int, /) -> Job | None:
        """The job as it is now, also while it waits for its key, or None."""
        opened = self._opened("admin.get was called")
        job = await opened.get(job_id) if 0 < job_id < 2**63 else None
        return None if job is None else (await self._shown([job]))[0]

    async def explain(self, job_id: int, /) -> Explanation:
        """Why the job does not run: the first thing that has to change before it does, as data and as a sentence. JobNotFound.

        Of a job that waits behind another of its key, or for other jobs of its workflow, the explanation of that one, or of the
        oldest of these, is in `head`.
        """
        found = await self._explained(job_id, _MOST_HEADS)
        if found is None:
            raise not_found(job_id)
        return found

    async def _explained(self, job_id: int, heads: int) -> Explanation | None:
        """The explanation, with that of the job in its way, and so on, `heads` of them: the way up may be long."""
        facts = await self._do("explain", lambda link: explaining.facts(link, job_id))
        if facts is None:
            return None
        other = facts.in_the_way
        return explain(facts, await self._explained(other, heads - 1) if other is not None and heads else None)

    async def largest(self, *, limit: int = 10) -> list[Sized]:
        """The largest payloads among the newest 10,000 jobs: what fills the memory of runners, and slows the table down."""
        return await self._do("largest", lambda link: overview.largest(link, limit, _WINDOW))

    async def trace(self, correlation_id: str, /, *, limit: int = 1_000) -> list[Job]:
        """The jobs of one correlation id, those that wait among them, in the order in which they were made."""
        return await self._shown(await self._do("trace", lambda link: overview.trace(link, correlation_id, limit)))

    async def leases(self) -> list[Lease]:
        """The duties that are done under a lease: who holds which, since when, and what its last pass did."""
        return await self._do("leases", leases.leases)

    async def runners(self, *, former: int = 100) -> list[RunnerRow]:
        """Who runs jobs: where, what, since when; and the last so many of those that ended, with `died_at` if they were lost."""
        return await self._do("runners", lambda link: runners.everybody(link, former))
