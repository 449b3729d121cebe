"""Who makes something pending that may belong before a scan's floor gives a hint (`model/scan.py`), and nothing else finds it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.model import scan
from asyncjobs.model.claim import FRONT
from asyncjobs.model.scan import ScanStart
from asyncjobs.runner import Runner
from asyncjobs.store.database import Database
from tests.support.eventually import eventually, patience

URGENT = 10


class Site:
    """An app that does not poll."""

    def __init__(self, database: Database) -> None:
        self.jobs = AsyncJobs(
            database.dsn, schema=database.schema, promote_interval=60, poll_interval=300, grace=0.1, cleanup=0.1,
            queues=[Queue("default", concurrency=5), Queue("other", concurrency=5)],
        )  # fmt: skip
        self.began: list[str] = []
        self.go_on = asyncio.Event()

        @self.jobs.job("note", max_attempts=1)
        async def note(name: str) -> None:
            self.began.append(name)
            if name == "fails":
                raise ValueError(name)

        @self.jobs.job("hold")
        async def hold(name: str) -> None:
            self.began.append(name)
            await self.go_on.wait()

        self.note, self.hold = note, hold

    async def begins(self, name: str) -> None:
        await eventually(lambda: name in self.began, description=f"{name} begins")

    async def settle(self, runner: Runner, queue: str) -> None:
        """Run jobs of the queue, one after the other, until its scan has a floor."""
        coordinator = runner.parts.queues.get(queue)
        assert coordinator is not None
        for _ in range(2):
            await (await self.note.using(queue=queue).enqueue("ordinary")).wait(timeout=10)
        while coordinator.general.start.floor == FRONT:
            await (await self.note.using(queue=queue).enqueue("ordinary")).wait(timeout=10)


@asynccontextmanager
async def at_work(site: Site) -> AsyncGenerator[Runner]:
    async with site.jobs, site.jobs.runner() as runner:
        async with patience(30):
            await runner.listening.wait_decided()
        await site.settle(runner, "other")
        yield runner
        site.go_on.set()


async def released(site: Site, runner: Runner) -> None:
    """A member that is the first of any in its queue."""
    async with site.jobs.workflow("w") as flow:
        first = flow.add(site.hold.new("first"))
        flow.add(site.note.using(queue="other").new("it"), after=first)
    await site.begins("first")
    await site.settle(runner, "other")
    site.go_on.set()


async def member(site: Site, _runner: Runner) -> None:
    """An urgent member of a workflow that waits for nothing."""
    async with site.jobs.workflow("w") as flow:
        flow.add(site.note.using(queue="other", priority=URGENT).new("it"))


async def next_head(site: Site, runner: Runner) -> None:
    """An urgent job behind one of its key that runs in another queue."""
    await site.hold.using(serialization_key="k").enqueue("head")
    await site.begins("head")
    await site.note.using(serialization_key="k", queue="other", priority=URGENT).enqueue("it")
    await site.settle(runner, "other")
    site.go_on.set()


async def retried(site: Site, runner: Runner) -> None:
    """An urgent job that was cancelled, and that an operator retries."""
    handle = await site.note.using(queue="other", priority=URGENT, delay=3600).enqueue("it")
    await site.jobs.admin.cancel(handle.id)
    await site.settle(runner, "other")
    await site.jobs.admin.retry(handle.id)


@pytest.mark.direct("without notifications a runner finds what another lets go when it polls")
@pytest.mark.parametrize("makes", [released, member, next_head, retried])
async def test_what_may_belong_before_the_floor_has_a_hint(
    database: Database, makes: Callable[[Site, Runner], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(ScanStart, "look", lambda self, _now, *, from_front: self.floor)
    site = Site(database)
    async with at_work(site) as runner:
        await makes(site, runner)
        await site.begins("it")


@pytest.mark.direct("without notifications a runner finds what another lets go when it polls")
async def test_urgent_one_that_a_runner_gives_back_has_a_hint(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(ScanStart, "look", lambda self, _now, *, from_front: self.floor)
    one, other = Site(database), Site(database)
    async with at_work(one) as runner, other.jobs:
        async with other.jobs.runner() as stopping:
            async with patience(30):
                await stopping.listening.wait_decided()
            coordinator = runner.parts.queues.get("other")
            assert coordinator is not None
            taken = coordinator.general.slots.take_free()
            await other.hold.using(queue="other", priority=URGENT).enqueue("it")
            await other.begins("it")
            coordinator.general.slots.give_back(taken)
            await eventually(lambda: not coordinator._is_hungry, description="it has looked")
            await one.settle(runner, "other")
        await one.begins("it")
