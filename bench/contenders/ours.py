"""asyncjobs, with default settings but for the options: `prefetch`, `tags`, `limit`, `queues` or `types` among which jobs go, and
`prunes`: what has ended is deleted at once.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from asyncjobs import AsyncJobs, JobRouter, JobType, Limit, Queue
from bench.contenders.contender import Contender, Payload
from bench.contenders.speaking import main

Note: TypeAlias = "JobType[[int, float, str], None]"


#: Of a run with 50 slots: one that it never reaches, one that it always does, and one with very many keys.
_LIMITS: Final = {
    "": None,
    "never": Limit("never", each=1_000, by=lambda number, at, key: "all"),  # noqa: ARG005
    "total": Limit("total", total=50),
    "each": Limit("each", each=5, by=lambda number, at, key: key),  # noqa: ARG005
    "tenants": Limit("tenants", each=5, by=lambda number, at, key: f"tenant {number % 10_000}"),  # noqa: ARG005
}


class Ours(Contender):
    """The library under test."""

    version = version("asyncjobs")
    LEFT = "SELECT count(*) FROM asyncjobs.jobs WHERE status NOT IN ('completed', 'scheduled')"
    FINISH = "UPDATE asyncjobs.jobs SET status = 'completed', attempts = 1, started_at = now(), completed_at = now()"

    def __init__(self, dsn: str, options: dict[str, Any]) -> None:
        super().__init__(dsn, options)
        queues: int = options.get("queues", 1)
        self.queues = ["default", *(f"queue {number}" for number in range(1, queues))]
        self.router = JobRouter()
        types: int = max(queues, options.get("types", 1))
        self.types = [self._declare(f"note {number}", self.queues[number % queues]) for number in range(types)]
        self.keyed = self._declare("keyed", "default", "{key}")
        # One app in all, as programs have: a type looks for the open app that includes it.
        keep, interval = (0.0, 0.1) if options.get("prunes") else (7 * 86_400.0, 60.0)
        self.jobs = AsyncJobs(
            dsn, queues=[Queue(name) for name in self.queues], routers=[self.router], keep_completed=keep, prune_interval=interval
        )  # fmt: skip

    def _declare(self, name: str, queue: str, key: str | None = None) -> Note:
        limit = _LIMITS[self.options.get("limit", "")]

        @self.router.job(name, queue=queue, serialize_by=key, tags=self.options.get("tags", ()), limit=limit)
        async def note(number: int, at: float, key: str) -> None:
            await self.handled(number, at, key)

        return note

    def _of(self, job: Payload) -> Note:
        return self.keyed if job.key and self.options.get("limit") != "each" else self.types[job.number % len(self.types)]

    async def prepare(self) -> None:
        await self.jobs.migrate()

    @asynccontextmanager
    async def enqueueing(self, connections: int) -> AsyncGenerator[None]:  # noqa: ARG002 - one does, since enqueues share inserts
        async with self.jobs:
            yield

    async def enqueue(self, job: Payload) -> None:
        await self._of(job).enqueue(*job)

    async def enqueue_all(self, jobs: Sequence[Payload], delay: float) -> None:
        types = {type: type.using(delay=delay) if delay else type for type in {self._of(job) for job in jobs}}
        await self.jobs.enqueue_many([types[self._of(job)].new(*job) for job in jobs])

    @asynccontextmanager
    async def working(self, concurrency: int) -> AsyncGenerator[None]:
        each, prefetch = max(1, concurrency // len(self.queues)), self.options.get("prefetch", 0)
        queues = [Queue(name, concurrency=each, prefetch=prefetch) for name in self.queues]
        async with self.jobs.runner(queues=queues):
            yield


if __name__ == "__main__":
    main(Ours)
