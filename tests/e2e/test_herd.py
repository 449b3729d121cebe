"""One job and many idle runners: who asks the database for it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from asyncjobs import AsyncJobs, JobType, Queue
from asyncjobs.runner import Runner
from asyncjobs.store.database import Database
from asyncjobs.telemetry.events import Event, JobsClaimed
from tests.support.eventually import eventually, patience

#: As many claims as one job may cost, however many are idle.
CLAIMS = 3


class Fleet:
    """Runners of the same program, as if in processes of their own, and one that enqueues."""

    def __init__(self, work: "JobType[[], None]", runners: Sequence[Runner]) -> None:
        self.work = work
        self.runners = runners
        self.claims = 0

    def note(self, event: Event) -> None:
        self.claims += isinstance(event, JobsClaimed)

    async def run_one(self) -> int:
        """Let a job run; how many claims there were until a second after."""
        self.claims = 0
        async with patience(10):
            await (await self.work.enqueue()).wait()
        await asyncio.sleep(1.0)  # when the last of those that see to it has looked
        return self.claims


def an_app(database: Database) -> "tuple[AsyncJobs, JobType[[], None]]":
    jobs = AsyncJobs(
        database.dsn, schema=database.schema, queues=[Queue("default", concurrency=10)], poll_interval=300, heartbeat=1,
        promote_interval=60, metrics_interval=60,
    )  # fmt: skip

    @jobs.job("work")
    async def work() -> None: ...

    return jobs, work


@asynccontextmanager
async def idle(database: Database, count: int) -> AsyncGenerator[Fleet]:
    """So many, who know of each other, and whose first looks are over."""
    async with AsyncExitStack() as stack:
        jobs, work = an_app(database)
        runners: list[Runner] = []
        fleet = Fleet(work, runners)
        for _ in range(count):
            other, _ = an_app(database)
            other.events.subscribe(fleet.note)
            runners.append(await stack.enter_async_context(other.runner()))
        await stack.enter_async_context(jobs)
        async with patience(30):
            for runner in runners:
                await runner.listening.wait_decided()
        await eventually(
            lambda: all(len(runner.heartbeat.peers) == count for runner in runners),
            description="they know of each other",
            timeout=30,
        )
        yield fleet


@pytest.mark.direct("a pooler has fewer connections")
async def test_one_job_and_many_idle_runners_make_few_claims(database: Database) -> None:
    async with idle(database, 12) as fleet:
        await fleet.run_one()
        assert min([await fleet.run_one() for _ in range(3)]) <= CLAIMS


@pytest.mark.proof
async def test_one_job_and_40_idle_runners_make_few_claims(database: Database) -> None:
    async with idle(database, 40) as fleet:
        await fleet.run_one()
        claims = sorted([await fleet.run_one() for _ in range(20)])
        assert claims[10] == 1
        assert claims[18] <= CLAIMS
