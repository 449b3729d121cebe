"""Every part of an app and its runner that ends by itself is back within seconds, counted and told of, and jobs go on."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import pytest

from asyncjobs import AsyncJobs, DatabaseUnavailable, JobContext, Queue, Retry, Runner
from asyncjobs.runtime.parts import Part, Parts
from asyncjobs.runtime.stopping import Stopping
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import AttemptStarted, PartRestarted, RunnerLostItself, ServicePassFailed
from asyncjobs.testing import Recorder
from tests.support.eventually import Stopwatch, eventually, patience

BACK_SECONDS = 5.0


class Shop:
    """An app with jobs of every kind, and a runner with every part."""

    def __init__(self, dsn: str) -> None:
        self.jobs = AsyncJobs(
            dsn,
            queues=[Queue(concurrency=4, prefetch=4)],
            heartbeat=0.2,
            promote_interval=0.2,
            sweep_interval=0.3,
            rescue_interval=0.3,
        )
        self.jobs.circuit_breaker("mail")
        self.enqueued: list[int] = []
        self.passes = 0

        @self.jobs.job("plain")
        async def plain(ctx: JobContext) -> Retry | None:
            ctx.progress(0.5)
            await asyncio.sleep(0.01)
            return Retry(0.05) if ctx.attempt == 1 and ctx.job.id % 5 == 0 else None

        @self.jobs.job("keyed", serialize_by="key {key}")
        async def keyed(key: int) -> None:
            await asyncio.sleep(0.005)

        @self.jobs.duty("own", every=0.1)
        async def own() -> None:
            self.passes += 1

        self.jobs.schedule("tick", plain.new(), every=0.2)
        self.plain, self.keyed = plain, keyed

    async def load(self) -> None:
        """Enqueue, one at a time and in each way, until cancelled."""
        number = 0
        while True:
            number += 1
            with suppress(DatabaseUnavailable):  # its line was ended before the answer came: it may have been written
                self.enqueued.append(await self._enqueue(number))
            await asyncio.sleep(0.01)

    async def _enqueue(self, number: int) -> int:
        if number % 3 == 0:
            return (await self.keyed.enqueue(number % 4)).id
        if number % 7 == 0:
            return (await self.plain.using(dedup_key=f"d {number}").enqueue()).id
        return (await self.plain.enqueue()).id


@pytest.fixture
async def shop(dsn: str, recorder: Recorder, auditor: Any) -> AsyncGenerator[Shop]:
    made = Shop(dsn)
    async with made.jobs.runner(grace=5):
        loading = asyncio.create_task(made.load())
        await eventually(lambda: len(made.enqueued) > 20, description="it is busy")
        yield made
        if loading.done():
            await loading
        loading.cancel()
        await asyncio.wait({loading})


def registries(jobs: AsyncJobs) -> list[Parts]:
    opened = jobs.lifecycle.opened
    assert opened is not None
    thread = jobs.runners[0].heartbeat._thread
    assert thread is not None
    return [opened.parts, thread._parts]


def lasting(jobs: AsyncJobs) -> list[tuple[Parts, str]]:
    """All parts that are there for as long as the runner."""
    return [(parts, part.name) for parts in registries(jobs) for part in parts.all if part.name not in {"verifier", "register"}]


def named(parts: Parts, name: str) -> Part:
    return next(part for part in parts.all if part.name == name)


def cancelled(part: Part) -> None:
    part.task.get_loop().call_soon_threadsafe(part.task.cancel)


def exits(part: Part) -> None:
    """Its next step raises SystemExit, as if something that it called had."""
    real = part._run

    async def run() -> None:
        part._run = real
        raise SystemExit(3)

    part._run = run
    cancelled(part)


@pytest.mark.direct("the listener is one of the parts", only="poll")
@pytest.mark.parametrize("strike", [cancelled, exits])
async def test_every_part_is_back_counted_and_told_of_and_all_jobs_end(
    shop: Shop, recorder: Recorder, connection: Connection, strike: Callable[[Part], None]
) -> None:
    victims = lasting(shop.jobs)
    assert {
        "call line",
        "queue default",
        "keys 0",
        "listening",
        "notifier",
        "heartbeat",
        "watch",
        "duty promote",
        "duty own",
        "duty cron",
    } <= {name for _, name in victims}
    for parts, name in victims:
        await strike_one(shop.jobs, recorder, named(parts, name), strike)

    async def told() -> list[str]:
        symptoms = await shop.jobs.admin.doctor()
        return [
            one.evidence for one in symptoms if one.what == "a part of a runner was started again" and "call line" in one.evidence
        ]

    await eventually(told, description="the doctor tells of it")
    await eventually(lambda: shop.jobs.health().is_ready, description="all is well")
    async with asyncio.timeout(30):
        for job_id in shop.enqueued[:]:
            assert (await shop.jobs.handle(job_id).wait()).status == "completed"


async def strike_one(jobs: AsyncJobs, recorder: Recorder, part: Part, strike: Callable[[Part], None]) -> None:
    watch, before = Stopwatch(), part.restarts
    strike(part)
    await recorder.wait_for(PartRestarted, lambda event: event.part == part.name)
    assert any(part.name in problem for problem in jobs.health().problems), part.name
    assert not jobs.health().is_ready
    back = lambda: part.restarts > before and not part.task.done()  # noqa: E731 - a question, asked once more and again
    await eventually(back, description=f"{part.name} is back", timeout=BACK_SECONDS)
    assert watch.stop() < BACK_SECONDS


async def test_duty_that_leaks_a_cancellation_or_exits_has_failed_once_and_goes_on(dsn: str, recorder: Recorder) -> None:
    jobs = AsyncJobs(dsn, heartbeat=0.2)
    ends: list[BaseException] = [asyncio.CancelledError(), SystemExit(3), ValueError("x")]
    passed = asyncio.Event()

    @jobs.duty("nightly", every=0.05)
    async def nightly() -> None:
        if ends:
            raise ends.pop(0)
        passed.set()

    async with jobs.runner(grace=1), asyncio.timeout(20):
        await passed.wait()
        await eventually(lambda: errors_of(jobs, "nightly", 3), description="its lease tells of them")
    failed = [event for event in recorder.of(ServicePassFailed) if event.service == "duty nightly"]
    assert [type(event.error) for event in failed] == [asyncio.CancelledError, SystemExit, ValueError]
    assert recorder.of(PartRestarted) == []


async def errors_of(jobs: AsyncJobs, duty: str, count: int) -> bool:
    return any(one.duty == duty and one.errors == count for one in await jobs.admin.leases())


async def test_sink_that_exits_ends_nothing(dsn: str) -> None:
    jobs = AsyncJobs(dsn)

    def exits(event: Any) -> None:
        raise SystemExit(3)

    jobs.events.subscribe(exits)

    @jobs.job("works")
    async def works() -> str:
        return "done"

    async with jobs.runner(grace=1):
        assert await (await works.enqueue()).result(timeout=10) == "done"


async def no_runner(connection: Connection) -> bool:
    return not await connection.fetchval("SELECT count(*) FROM asyncjobs.runners")


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "asyncjobs heartbeat"]


async def test_stop_that_is_cancelled_is_made_anew_without_grace(dsn: str, connection: Connection, recorder: Recorder) -> None:
    jobs = AsyncJobs(dsn)

    @jobs.job("long")
    async def long() -> None:
        await asyncio.sleep(60)

    async with jobs.runner(grace=60) as runner:
        await long.enqueue()
        await recorder.wait_for(AttemptStarted)
        stopping = asyncio.create_task(runner.stop())
        await asyncio.sleep(0.1)
        assert runner._stopping._task is not None
        runner._stopping._task.cancel()
        await stopping
        assert await no_runner(connection)
    assert [tuple(row) for row in await connection.fetch("SELECT status, attempts FROM asyncjobs.jobs")] == [("pending", 0)]


async def test_stop_that_fails_is_told_raised_and_ends_the_beats(
    dsn: str, connection: Connection, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_self: object, _grace: float) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr(Stopping, "_stop", fails)
    jobs = AsyncJobs(dsn)
    with pytest.raises(LookupError, match="a bug"):
        async with jobs.runner():
            pass
    assert recorder.of(RunnerLostItself)[-1].reason == "its stop failed: LookupError: a bug"
    await eventually(lambda: not threads(), description="the beats end")
    assert not await no_runner(connection)  # found by the others


class Struck(BaseException):
    """As a KeyboardInterrupt, which would end the test's own loop."""


async def test_app_that_closes_stops_a_runner_whose_stop_was_struck_before_its_first_step(
    dsn: str, connection: Connection, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def struck(_self: object, **_options: object) -> None:
        raise Struck

    jobs = AsyncJobs(dsn, grace=0.1)

    @jobs.job("long")
    async def long() -> None:
        await asyncio.sleep(60)

    async def is_struck() -> None:
        async with jobs.runner():
            await long.enqueue()
            await recorder.wait_for(AttemptStarted)
            monkeypatch.setattr(Runner, "stop", struck)
            asyncio.get_running_loop().call_soon(monkeypatch.undo)

    with pytest.raises(Struck):
        await is_struck()
    assert await no_runner(connection)
    assert [tuple(row) for row in await connection.fetch("SELECT status, attempts FROM asyncjobs.jobs")] == [("pending", 0)]


async def test_owner_that_is_ended_from_outside_stops_the_runners_and_is_told_by_health(
    dsn: str, connection: Connection, recorder: Recorder
) -> None:
    jobs = AsyncJobs(dsn)
    with suppress(asyncio.CancelledError):
        async with jobs.runner(grace=5) as runner:
            [owner] = [task for task in asyncio.all_tasks() if task.get_name() == "asyncjobs"]
            owner.cancel()
            await runner.wait_stopped()
            await asyncio.wait({owner})
            assert any("closed, and has to be opened again" in problem for problem in jobs.health().problems)
            assert await no_runner(connection)
    async with jobs.runner():
        assert await eventually(lambda: jobs.health().is_ready, description="it is as new")


async def test_owner_that_is_cancelled_before_its_first_step_ends_the_opening(dsn: str) -> None:
    loop = asyncio.get_running_loop()

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
        if coroutine.__qualname__ == "OpenApp._own":
            task.cancel()
        return task

    loop.set_task_factory(factory)
    try:
        async with patience(5):
            with pytest.raises(asyncio.CancelledError):
                await AsyncJobs(dsn).__aenter__()
    finally:
        loop.set_task_factory(None)
