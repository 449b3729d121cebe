"""Running an app's jobs in a test until there is nothing left to do."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

from asyncjobs.app import AsyncJobs
from asyncjobs.errors import UsageError
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.job import Job
from asyncjobs.model.outcome import Duration
from asyncjobs.open.run import running, served_handlers, served_queues
from asyncjobs.runner import Runner
from asyncjobs.store import inspection
from asyncjobs.store.database import Link
from asyncjobs.telemetry.events import AttemptStarted, OutcomeWritten
from asyncjobs.testing.clock import MovableClock

_LOOK_SECONDS: Final = 0.05


async def run_until_idle(
    jobs: AsyncJobs,
    /,
    *,
    queues: Iterable[str] | None = None,
    types: Iterable[str] | None = None,
    timeout: Duration = 10,
    clock: MovableClock | None = None,
    ahead: Duration | None = None,
) -> list[Job]:
    """Run what is due, and what that enqueues, until nothing is. The jobs that ran, in the order of their starts.

    A runner does it, of all queues and types or of these; the app is opened if it is not open. Its schedules and its own duties
    rest. A job that failed, snoozed or was enqueued for later stays for later: it is due when a `MovableClock` has been moved.
    With `clock=` and `ahead=` the clock is moved to each next due time in turn, as far as that, and stands there afterwards: all
    retries of a job happen in a call. What is paused is left, and so is what waits behind it.

    A job that fails does not fail the call: look at what it returns. TimeoutError after `timeout` seconds names what still runs,
    or is not run.
    """
    if ahead is not None and clock is None:
        raise UsageError("run_until_idle(ahead=…) moves a clock: give it one, clock=MovableClock(jobs).")
    seconds = duration_seconds(timeout, name="timeout", positive=True)
    ran: dict[int, Job | None] = {}
    async with _runner(jobs, queues, types) as work, work.noting(ran):
        try:
            async with asyncio.timeout(seconds):
                await work.wait_idle(ran)
                if clock is not None and ahead is not None:
                    await work.go_ahead(ran, clock, await clock.now() + timedelta(seconds=duration_seconds(ahead, name="ahead")))
        except TimeoutError:
            raise TimeoutError(f"not idle after {seconds:g} s: {await work.left()}.") from None
    return [job for job in ran.values() if job is not None]


@asynccontextmanager
async def _runner(jobs: AsyncJobs, queues: Iterable[str] | None, types: Iterable[str] | None) -> "AsyncGenerator[_Work]":
    names = None if queues is None else list(queues)
    kinds = None if types is None else list(types)
    async with running(jobs, queues=names, types=kinds, grace=0, only_jobs=True) as runner:
        link = jobs.lifecycle.database().link("test")
        try:
            served = [queue.name for queue in served_queues(jobs.queues, names)]
            definitions = served_handlers(jobs.handlers, kinds)
            yield _Work(jobs, runner, link, served, {name: definition.version for name, definition in definitions.items()})
        finally:
            await link.close()


class _Work:
    """What one runner has to do."""

    def __init__(self, jobs: AsyncJobs, runner: Runner, link: Link, queues: list[str], versions: dict[str, int]) -> None:
        self._jobs = jobs
        self._runner = runner
        self._link = link
        self._queues = queues
        self._versions = versions  # of each type, the newest
        self._written = asyncio.Event()

    @asynccontextmanager
    async def noting(self, ran: dict[int, Job | None]) -> AsyncGenerator[None]:
        """Note which jobs start, in order."""

        def started(event: AttemptStarted) -> None:
            ran[event.job_id] = None

        def written(_: OutcomeWritten) -> None:
            self._written.set()

        events = self._jobs.events
        forget = [events.subscribe(started, AttemptStarted), events.subscribe(written, OutcomeWritten)]
        try:
            yield
        finally:
            for one in forget:
                one()

    async def wait_idle(self, ran: dict[int, Job | None]) -> None:
        """Wait until there is nothing to do, and look up what ran."""
        while not await self._is_idle():
            self._written.clear()
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._written.wait()
            except TimeoutError:
                continue
        for job in await inspection.all_jobs(self._link):
            if job.id in ran:
                ran[job.id] = job

    async def _is_idle(self) -> bool:
        # Asked before: a handler that completed its job in its own transaction may still enqueue.
        is_busy = bool(self._runner.running_ids())
        return not await inspection.unfinished(self._link, self._queues, self._versions) and not is_busy

    async def go_ahead(self, ran: dict[int, Job | None], clock: MovableClock, until: datetime) -> None:
        """Move the clock to each due time in turn, as far as `until`."""
        while (due := await inspection.next_due(self._link, self._queues, list(self._versions))) is not None and due <= until:
            await clock.set(due)
            self._runner.wake()
            await self.wait_idle(ran)
        if await clock.now() < until:
            await clock.set(until)

    async def left(self) -> str:
        """What there is to do, in words."""
        found = await inspection.unfinished(self._link, self._queues, self._versions)
        said = [f'job {job_id} "{kind}" is {status}' for job_id, kind, status in found]
        return ", ".join(said[:10]) or f"{len(self._runner.running_ids())} handlers run"
