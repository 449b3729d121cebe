"""Running an app's jobs in a test until there is nothing left to do."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from typing import Final

from asyncjobs.app import AsyncJobs
from asyncjobs.declare.definition import JobDefinition
from asyncjobs.errors import UsageError
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.job import Job
from asyncjobs.model.outcome import Duration
from asyncjobs.open.run import running, served_handlers, served_queues
from asyncjobs.runner import Runner
from asyncjobs.runtime.attempt import Surroundings
from asyncjobs.store import inspection
from asyncjobs.store.database import Link
from asyncjobs.telemetry.events import AttemptStarted, Events, OutcomeWritten
from asyncjobs.testing.clock import MovableClock
from asyncjobs.testing.in_memory import MemoryApp, memory_of, run_in_loop_of

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

    A runner does it; the app is opened if it is not open. Its schedules and its own duties rest. A job that failed, snoozed or
    was enqueued for later stays for later: it is due when a `MovableClock` has been moved. What is paused is left, what a circuit
    breaker holds, and what waits behind such a job. A job that fails does not fail the call: look at what it returns.

    * `queues`, `types`: only jobs of these queues (a pattern as "mail*" is several), and of these types by name; None: of all.
    * `timeout`: after so many seconds, in all, a TimeoutError names what still runs, or is not run. More for slow handlers.
    * `clock`, `ahead`: the clock is moved to each next due time in turn, as far ahead as that, and stands there afterwards: all
      retries of a job happen in a call. UsageError for `ahead` without a clock.
    """
    if ahead is not None and clock is None:
        raise UsageError("run_until_idle(ahead=…) moves a clock: give it one, clock=MovableClock(jobs).")
    seconds = duration_seconds(timeout, name="timeout", positive=True)
    ran: dict[int, Job | None] = {}
    memory = memory_of(jobs)
    opened = _runner(jobs, queues, types) if memory is None else _in_memory(memory, queues, types)
    async with opened as work, work.noting(ran):
        try:
            async with asyncio.timeout(seconds):
                await work.wait_idle(ran)
                if clock is not None and ahead is not None:
                    await work.go_ahead(ran, clock, await clock.now() + timedelta(seconds=duration_seconds(ahead, name="ahead")))
        except TimeoutError:
            raise TimeoutError(f"not idle after {seconds:g} s: {await work.left()}; timeout= gives it longer.") from None
    return [job for job in ran.values() if job is not None]


def run_until_idle_sync(
    jobs: AsyncJobs,
    /,
    *,
    queues: Iterable[str] | None = None,
    types: Iterable[str] | None = None,
    timeout: Duration = 10,
    clock: MovableClock | None = None,
    ahead: Duration | None = None,
) -> list[Job]:
    """`run_until_idle` for a plain `def` test: in the loop in which the app is open (a TestClient's), else in one of its own."""
    return run_in_loop_of(
        jobs, lambda: run_until_idle(jobs, queues=queues, types=types, timeout=timeout, clock=clock, ahead=ahead)
    )


@asynccontextmanager
async def _in_memory(
    memory: MemoryApp, queues: Iterable[str] | None, types: Iterable[str] | None
) -> "AsyncGenerator[_MemoryWork]":
    served = [queue.name for queue in served_queues(memory.app.queues, None if queues is None else list(queues))]
    handlers = served_handlers(memory.app.handlers, None if types is None else list(types))
    async with memory.working() as surroundings:
        yield _MemoryWork(memory, surroundings, served, handlers)


class _MemoryWork:
    """What there is to do in memory."""

    def __init__(
        self, memory: MemoryApp, surroundings: Surroundings, queues: list[str], handlers: dict[str, JobDefinition]
    ) -> None:
        self._memory, self._surroundings, self._queues, self._handlers = memory, surroundings, queues, handlers
        self._running: list[str] = []

    @asynccontextmanager
    async def noting(self, ran: dict[int, Job | None]) -> AsyncGenerator[None]:
        """Note which jobs start, in order."""
        with subscribed(self._memory.app.events, lambda event: ran.setdefault(event.job_id)):
            yield

    async def wait_idle(self, ran: dict[int, Job | None]) -> None:
        """Run what is due until nothing is, and look up what ran."""
        try:
            while await self._memory.run_next(self._surroundings, self._queues, self._handlers) is not None:
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._running = [f'job {job_id} "{kind}" is processing' for job_id, kind in self._memory.interrupted]
            raise
        for job_id in ran:
            ran[job_id] = await self._memory.get(job_id)

    async def go_ahead(self, ran: dict[int, Job | None], clock: MovableClock, until: datetime) -> None:
        """Move the clock to each due time in turn, as far as `until`."""
        while (due := self._memory.store.next_due(self._queues, self._handlers)) is not None and due <= until:
            await clock.set(due)
            await self.wait_idle(ran)
        if await clock.now() < until:
            await clock.set(until)
            await self.wait_idle(ran)

    async def left(self) -> str:
        """What there is to do, in words."""
        return ", ".join(self._running) or "a handler runs"


@contextmanager
def subscribed(events: Events, started: Callable[[AttemptStarted], object]) -> Generator[None]:
    """Call back for each attempt that starts within the block."""

    def note(event: AttemptStarted) -> None:
        started(event)

    forget = events.subscribe(note, AttemptStarted)
    try:
        yield
    finally:
        forget()


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
        opened = self._jobs.lifecycle.opened
        if opened is not None and opened.breakers.services:  # another process, or a clock, may have changed what they let through
            opened.breakers.look_now()
            await opened.breakers.pass_()
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
        return not await inspection.unfinished(self._link, self._queues, self._let_through()) and not is_busy

    def _let_through(self) -> dict[str, int]:
        """The types that no circuit breaker holds back just now: what one holds stays for later."""
        handlers, opened = self._jobs.handlers, self._jobs.lifecycle.opened
        if opened is None:
            return self._versions
        breakers = {name: handlers[name].breaker for name in self._versions}
        held = {name for name, one in breakers.items() if one is not None and opened.breakers.free_probes(one) == 0}
        return {name: version for name, version in self._versions.items() if name not in held}

    async def go_ahead(self, ran: dict[int, Job | None], clock: MovableClock, until: datetime) -> None:
        """Move the clock to each due time in turn, as far as `until`."""
        while (due := await inspection.next_due(self._link, self._queues, list(self._versions))) is not None and due <= until:
            await clock.set(due)
            self._runner.wake()
            await self.wait_idle(ran)
        if await clock.now() < until:
            await clock.set(until)
            self._runner.wake()
            await self.wait_idle(ran)

    async def left(self) -> str:
        """What there is to do, in words."""
        found = await inspection.unfinished(self._link, self._queues, self._versions)
        said = [f'job {job_id} "{kind}" is {status}' for job_id, kind, status in found]
        return ", ".join(said[:10]) or f"{len(self._runner.running_ids())} handlers run"
