"""A runner at work while something happens to its database, and what must hold afterwards.

async with at_work(dsn, recorder) as work:
    …                    # an outage: eight jobs are in the middle of their attempt
    await work.ends()    # they go on; what is enqueued now, and was enqueued meanwhile, runs as well

Every job but those made to fail is completed by its first attempt: an outage spends none. `effects` counts executions.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from asyncjobs import AsyncJobs, JobContext, Limit, Queue
from asyncjobs.handles import JobHandle
from asyncjobs.model.job import Job
from asyncjobs.runtime.health import RunnerHealth
from asyncjobs.telemetry.events import AttemptStarted, DatabaseFailed, ServicePassFailed
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually, patience

HELD = 6
KEYS = 3


class Work:
    """An app with a runner in this process, and what it has done."""

    def __init__(self, dsn: str, recorder: Recorder, **settings: Any) -> None:
        options: dict[str, Any] = {"heartbeat": 0.5, "promote_interval": 0.5, "rescue_interval": 0.5, "listener_keepalive": 1}
        self.jobs = AsyncJobs(dsn, queues=[Queue(concurrency=HELD + 2)], **{**options, **settings})
        self.recorder = recorder
        self.effects: Counter[int] = Counter()
        self.handles: list[JobHandle[Any]] = []
        self.gate = asyncio.Event()
        self._waiting: list[asyncio.Task[None]] = []
        self._begun_at = 0.0
        self._declare()

    def _declare(self) -> None:
        @self.jobs.job("held")
        async def held(ctx: JobContext) -> None:
            await self.gate.wait()
            self.effects[ctx.job.id] += 1

        @self.jobs.job("quick")
        async def quick(ctx: JobContext, ballast: str = "") -> None:
            self.effects[ctx.job.id] += 1

        @self.jobs.job("keyed", serialize_by="key {key}")
        async def keyed(ctx: JobContext, key: int) -> None:
            self.effects[ctx.job.id] += 1

        @self.jobs.job("limited", limit=Limit("api", each=1, by="{key}"))
        async def limited(ctx: JobContext, key: int) -> None:
            self.effects[ctx.job.id] += 1

        self.held, self.quick, self.keyed, self.limited = held, quick, keyed, limited

    async def enqueue(self) -> None:
        """A job of each kind: plain, with a key, with a dedup key, one that is due in a moment, and one with a limit."""
        self.handles += [
            await self.quick.enqueue(),
            await self.keyed.enqueue(key=len(self.handles) % KEYS),
            await self.quick.using(dedup_key=f"d{len(self.handles)}").enqueue(),
            await self.quick.using(delay=0.1).enqueue(),
            await self.limited.enqueue(key=len(self.handles) % KEYS),
        ]

    def enqueues(self) -> None:
        """The same in the background: where the database is away, it waits."""
        self._waiting.append(asyncio.create_task(self.enqueue()))

    async def begins(self) -> None:
        """Jobs of every kind have run, and some are in the middle of their attempt."""
        await self.enqueue()
        self.handles += await self.jobs.enqueue_many([self.held.new() for _ in range(HELD)])
        await eventually(self._held_are_running, description="held jobs run", timeout=20)
        await self.wait(self.handles[:5])
        await eventually(lambda: self.jobs.health().is_ready, description="it is ready")
        self._begun_at = time.monotonic()

    def _held_are_running(self) -> bool:
        return sum(event.type == "held" for event in self.recorder.of(AttemptStarted)) == HELD

    @property
    def health(self) -> RunnerHealth:
        """The runner's."""
        return self.jobs.health().runners[0]

    async def wait(self, handles: list[JobHandle[Any]]) -> list[Job]:
        """The jobs, when they have ended."""
        async with patience(30):
            return [await handle.wait() for handle in handles]

    async def notices(self, *words: str) -> None:
        """Wait until the outage shows: in these words of an error, and in what a readiness probe says."""

        def is_noticed() -> bool:
            said = self.complaints
            return all(any(word in line for line in said) for word in words) and not self.jobs.health().is_ready

        await eventually(is_noticed, description=f"the outage shows in {words}", timeout=20)

    @property
    def complaints(self) -> list[str]:
        """What was said about the database since the jobs began, in the words of the errors."""
        events = [recorded.event for recorded in self.recorder.recorded if recorded.at > self._begun_at]
        failed = [event for event in events if isinstance(event, DatabaseFailed | ServicePassFailed)]
        return [f"{type(event.error).__name__}: {event.error}" for event in failed]

    async def ends(self) -> None:
        """All that was enqueued before, meanwhile and now is run once, by one attempt; and the runner is ready."""
        self.gate.set()
        async with patience(30):
            await asyncio.gather(*self._waiting)
        await self.enqueue()
        jobs = await self.wait(self.handles)
        assert {(job.status, job.attempts, job.rescues) for job in jobs} == {("completed", 1, 0)}
        assert {job.id for job in jobs} <= self.effects.keys()
        assert set(self.effects.values()) == {1}
        await eventually(lambda: self.jobs.health().is_ready, description="it is ready again", timeout=20)


@asynccontextmanager
async def at_work(dsn: str, recorder: Recorder, **settings: Any) -> AsyncGenerator[Work]:
    """Work that has begun."""
    work = Work(dsn, recorder, **settings)
    async with work.jobs.runner(grace=1):
        await work.begins()
        yield work
