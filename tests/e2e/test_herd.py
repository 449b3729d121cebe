"""One job and many idle runners: who asks the database for it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from asyncjobs import AsyncJobs, JobType, Queue
from asyncjobs.runner import Runner
from asyncjobs.store.database import Database
from asyncjobs.telemetry.events import Event, JobsClaimed, NotificationsSent
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


class Program:
    """An app with one runner, as if in a process of its own, and what its runner did."""

    def __init__(self, database: Database, *, slots: int) -> None:
        self.jobs = AsyncJobs(
            database.dsn, schema=database.schema, queues=[Queue("default", concurrency=slots)], poll_interval=300,
            promote_interval=60,
        )  # fmt: skip
        self.claimed: list[int] = []
        self.sent = 0
        self.started: list[int] = []
        self.go_on = asyncio.Event()
        self.jobs.events.subscribe(self._note)

        @self.jobs.job("work")
        async def work(n: int) -> None:
            self.started.append(n)
            if n:
                await self.go_on.wait()

        self.work = work

    def _note(self, event: Event) -> None:
        if isinstance(event, JobsClaimed):
            self.claimed.append(event.claimed)
        elif isinstance(event, NotificationsSent):
            self.sent += event.count


@asynccontextmanager
async def two_programs(database: Database, *, slots: int) -> AsyncGenerator[tuple[Program, Program]]:
    """They are idle, and know of each other."""
    one, other = Program(database, slots=slots), Program(database, slots=slots)
    async with one.jobs, other.jobs, one.jobs.runner() as first, other.jobs.runner() as second:
        async with patience(30):
            for runner in (first, second):
                await runner.listening.wait_decided()
        await one.work.enqueue(0)
        await eventually(lambda: one.started + other.started == [0], description="the first looks are over")
        await asyncio.sleep(0.5)  # so are those for what the first looks may have skipped
        for program in (one, other):
            program.claimed.clear()
            program.started.clear()
            program.sent = 0
        yield one, other


async def test_what_is_enqueued_beside_a_runner_with_a_free_slot_runs_there_and_nobody_else_looks(database: Database) -> None:
    async with two_programs(database, slots=2) as (one, other):
        for _ in range(10):
            await (await one.work.enqueue(0)).wait()
        assert (one.started, other.started) == ([0] * 10, [])
        assert other.claimed == []
        assert one.sent == 0


@pytest.mark.direct("without notifications others look when they poll")
async def test_what_it_has_no_slot_for_starts_elsewhere_at_once(database: Database) -> None:
    async with two_programs(database, slots=2) as (one, other):
        for n in range(1, 5):
            await one.work.enqueue(n)
        await eventually(lambda: len(one.started + other.started) == 4, description="all of them run")
        assert sorted(one.started + other.started) == [1, 2, 3, 4]
        assert len(one.started) == 2
        for program in (one, other):
            program.go_on.set()
