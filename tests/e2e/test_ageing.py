"""What docs/guide/workers.md says of ageing: one test a sentence, on a server and in memory."""

from datetime import timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs, ConfigurationError, JobContext, Queue
from asyncjobs.cli.queue_words import queues_of
from asyncjobs.model.claim import AGED
from asyncjobs.store.database import Connection
from asyncjobs.testing import MovableClock, in_memory, run_until_idle
from tests.support.coordinating import working
from tests.support.eventually import eventually

SECOND = timedelta(seconds=1)


class Flood:
    """An app whose urgent jobs each enqueue the next, until the patient one has started. Who started: (urgent?, run_at)."""

    def __init__(self, dsn: str, queue: Queue, priority: int, most: int) -> None:
        self.app = AsyncJobs(dsn, queues=[queue])
        self.started: list[tuple[str, float]] = []
        self.most = most

        @self.app.job("urgent", priority=0)
        async def urgent(ctx: JobContext) -> None:
            self.started.append(("urgent", ctx.job.run_at.timestamp()))
            if not self.is_over:
                await self.urgent.enqueue()

        @self.app.job("patient", priority=priority)
        async def patient(ctx: JobContext) -> None:
            self.started.append(("patient", ctx.job.run_at.timestamp()))

        self.urgent, self.patient = urgent, patient

    @property
    def is_over(self) -> bool:
        return any(what == "patient" for what, _ in self.started) or len(self.started) >= self.most

    async def begin(self) -> None:
        for _ in range(10):
            await self.urgent.enqueue()
        await self.patient.enqueue()


async def test_a_job_starts_behind_a_flood_of_urgent_ones_when_it_has_waited_for_what_they_are_ahead(dsn: str) -> None:
    """Five levels at a tenth of a second: none that became ready half a second later than it starts before it."""
    flood = Flood(dsn, Queue("default", concurrency=2, ageing=SECOND / 10), 5, most=20_000)
    async with flood.app.runner():
        await flood.begin()
        await eventually(lambda: flood.is_over, description="it has started", timeout=30.0)
    [ready] = [at for what, at in flood.started if what == "patient"]
    before = [at for what, at in flood.started[: flood.started.index(("patient", ready))] if what == "urgent"]
    assert len(before) >= 10, "those that became ready in its first half second come first"
    assert max(before) <= ready + 5 * 0.1 + 0.001


async def test_without_ageing_it_waits_for_as_long_as_there_are_urgent_ones(dsn: str) -> None:
    flood = Flood(dsn, Queue("default", concurrency=2), 5, most=300)
    async with flood.app.runner():
        await flood.begin()
        await eventually(lambda: flood.is_over, description="300 urgent ones have", timeout=60.0)
    assert [what for what, _ in flood.started[:300]] == ["urgent"] * 300


async def test_it_holds_in_lanes(dsn: str, connection: Connection) -> None:
    jobs = AsyncJobs(dsn, queues=[Queue("default", concurrency=1, lanes={"fast": 1}, ageing=SECOND)])
    ran: list[str] = []

    @jobs.job("work", lane="fast")
    async def work(what: str) -> None:
        ran.append(what)

    async with jobs:
        await work.using(priority=1).enqueue("urgent")
        await work.using(priority=9).enqueue("old")
        await connection.execute("UPDATE asyncjobs.jobs SET run_at = run_at - interval '9 s' WHERE priority = 9")
        async with jobs.runner():
            await eventually(lambda: len(ran) == 2, description="both have run")
    assert ran == ["old", "urgent"]


async def test_in_memory_it_holds_too() -> None:
    for ageing, order in ((SECOND, ["old", "urgent"]), (None, ["urgent", "old"])):
        jobs = AsyncJobs(queues=[Queue("default", ageing=ageing)])
        ran: list[str] = []

        @jobs.job("work")
        async def work(what: str, ran: list[str] = ran) -> None:
            ran.append(what)

        async with in_memory(jobs), MovableClock(jobs) as clock:
            await work.using(priority=9).enqueue("old")
            await clock.advance(9)
            await work.using(priority=1).enqueue("urgent")
            await run_until_idle(jobs)
        assert ran == order


@pytest.mark.parametrize(
    "ageing", [0, -1, timedelta(0), timedelta(days=-1), float("inf"), float("nan"), 8 * 86_400, 1e-9, "1 s", True]
)
def test_ageing_that_is_none_is_refused(ageing: Any) -> None:
    with pytest.raises(ConfigurationError, match="ageing"):
        Queue("default", ageing=ageing)


async def test_its_scans_say_what_a_level_is_worth_and_always_start_at_the_front() -> None:
    async with working(Queue("q", concurrency=1, lanes={"fast": 1}, ageing=0.25)) as harness:
        for number in range(1, 4):
            assert [scan.start for scan in await harness.asks()] == [(AGED, 250_000)]
            await harness.answer(1)
            await harness.end(number)
            harness.coordinator.wake()


def test_queues_of_a_command_keep_their_total_and_ageing() -> None:
    """`asyncjobs run --queues` says slots and lanes; what else a queue has stays, or the fleet would lose its total."""
    queue = Queue("default", total=7, ageing=SECOND, prefetch=3)
    [said] = queues_of("default=20", {"default": queue}) or []
    assert (said.concurrency, said.total, said.ageing_seconds, said.prefetch) == (20, 7, 1.0, 3)
    assert repr(said).endswith("prefetch=3, total=7, ageing=1)")
