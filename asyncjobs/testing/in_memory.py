"""An app whose jobs are kept in memory: for tests of apps, without a database.

    async with in_memory(jobs):            # or `with in_memory(jobs):`, for a plain `def` test with a TestClient
        await send_email.enqueue("ada@example.com")
        [job] = await run_until_idle(jobs)

Within the block the app counts as open, in every thread and loop; what opens it (a lifespan, `async with jobs`, `jobs.runner()`)
connects to nothing. Jobs run when `run_until_idle` is called, or for whoever waits for one, one at a time: those with the
smallest priority first, then in the order in which they became due. A `connection=` is not used: a job is there at once, whatever
becomes of the transaction, and `ctx.complete(connection)` counts when its handler returns.

What there is not (a UsageError names it): the verbs of `jobs.admin`, `jobs.run()`, migrations. What does nothing: schedules,
duties, leases, lanes, notifications, prefetch, several processes.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, cast

import msgspec

from asyncjobs.app import AsyncJobs
from asyncjobs.connections import unused
from asyncjobs.context import JobContext, current
from asyncjobs.declare.definition import JobDefinition
from asyncjobs.errors import UsageError, WaitTimeout
from asyncjobs.handles import ended
from asyncjobs.model.breaker import Event, decide
from asyncjobs.model.claim import Ack, Claimed
from asyncjobs.model.job import Job
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.open.current_app import closed, opened, running_loop
from asyncjobs.open.run import served_handlers
from asyncjobs.runtime.attempt import Attempt, Surroundings
from asyncjobs.runtime.breakers import Breakers
from asyncjobs.runtime.resources import Resources
from asyncjobs.runtime.threads import Threads
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.telemetry.events import JobEnqueued, OutcomeWritten
from asyncjobs.testing.memory_store import MemoryStore

_CLOSE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.01


class MemoryApp:
    """What stands in for the database of an app."""

    def __init__(self, app: AsyncJobs) -> None:
        self.app = app
        self.pid = os.getpid()
        self.shift = timedelta()
        self.loop: asyncio.AbstractEventLoop | None = running_loop()
        self.store = MemoryStore(self.now, max_errors=app.settings.max_errors)
        self.breakers: Breakers = _Breakers(app, lambda: time.monotonic() + self.shift.total_seconds())
        self.interrupted: list[tuple[int, str]] = []  # what ran when a run was cancelled last

    def now(self) -> datetime:
        """What the clock says."""
        return datetime.now(UTC) + self.shift

    @asynccontextmanager
    async def entered(self) -> AsyncGenerator[Any]:
        """As the app is opened. What is got for a runner runs nothing by itself."""
        before, self.loop = self.loop, asyncio.get_running_loop()
        try:
            yield _NoRunner()
        finally:
            self.loop = before

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """`entered` in Starlette's shape, which wants no value."""
        async with self.entered():
            yield

    def keep(self, rows: Sequence[NewRow]) -> list[Enqueued]:
        """Write them all, or none."""
        with self.store.lock:
            enqueued = self.store.enqueue(rows)
        if self.app.events.wants(JobEnqueued):
            for row, one in zip(rows, enqueued, strict=True):
                self.app.events.emit(JobEnqueued(job_id=one.id, type=row.type, queue=row.queue, created=one.created))
        return enqueued

    async def get(self, job_id: int) -> Job | None:
        """The job as it is now."""
        kept = self.store.kept.get(job_id)
        return None if kept is None else kept.job

    async def wait_final(self, job_id: int, timeout: float | None) -> Job:
        """The job when it has ended; what is due runs meanwhile. WaitTimeout also when nothing is left to run."""
        job = await self.get(job_id)
        if timeout == 0 or job is None or job.is_final:
            return ended(job_id, job)
        try:
            async with asyncio.timeout(timeout):
                await self._run_for(job_id)
        except TimeoutError:
            raise WaitTimeout(f"job {job_id} had not ended after {timeout:g} s.", job_id=job_id) from None
        return ended(job_id, await self.get(job_id))

    async def _run_for(self, job_id: int) -> None:
        handlers = served_handlers(self.app.handlers, None)
        async with self.working() as surroundings:
            while not self.store.kept[job_id].job.is_final:
                if await self.run_next(surroundings, list(self.app.queues), handlers) is None:
                    if self.store.kept[job_id].status != "processing":
                        return
                    await asyncio.sleep(_LOOK_SECONDS)

    def is_held(self, handler: JobDefinition) -> bool:
        """Whether its circuit breaker lets nothing through just now."""
        return handler.breaker is not None and self.breakers.free_probes(handler.breaker) == 0

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[Surroundings]:
        """What the attempts of one run share."""
        settings, events, threads = self.app.settings, self.app.events, Threads()
        resources = Resources(events=events)
        before, self.loop = self.loop, asyncio.get_running_loop()
        try:
            yield Surroundings(
                open_context=self._open_context, events=events, runner_id=lambda: 0, threads=threads,
                max_result_bytes=settings.max_result_bytes, max_error_bytes=settings.max_error_bytes,
                report_progress=self._note_progress, complete=self._complete, was_committed=_yes, share=resources.use,
                hooks=self.app.hooks.attempt, hook_seconds=settings.hook_timeout,
            )  # fmt: skip
        finally:
            self.loop = before
            threads.close()
            await resources.close(time.monotonic() + _CLOSE_SECONDS)
            await resources.let_go()

    async def run_next(
        self, surroundings: Surroundings, queues: Collection[str], handlers: Mapping[str, JobDefinition]
    ) -> Claimed | None:
        """Run one job that is due, if there is one."""
        with self.store.lock:
            claimed = self.store.claim(queues, handlers, self.is_held)
        if claimed is None:
            return None
        acks: list[Ack] = []
        attempt = Attempt(claimed, handlers[claimed.type], claimed.lane, surroundings)
        task = attempt.start(lambda _, ack: acks.append(ack))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            self.interrupted = [(claimed.id, claimed.type)]
            attempt.cancel("shutdown")
            await asyncio.wait([task], timeout=1.0)
            raise
        finally:
            if acks:
                self._write(acks[0], attempt)
        return claimed

    def _write(self, ack: Ack, attempt: Attempt) -> None:
        result = _results.pop(attempt, None)
        if result is not None and ack.outcome.kind == "completed":
            outcome = msgspec.structs.replace(ack.outcome, result=result[0], result_dropped=result[1])
            ack = msgspec.structs.replace(ack, outcome=outcome)
        with self.store.lock:
            self.store.ack(ack)
        if self.app.events.wants(OutcomeWritten):
            self.app.events.emit(OutcomeWritten(job_id=ack.id, token=ack.token, runner_id=0, status=ack.final_status))

    def _open_context(self, attempt: Attempt) -> JobContext[AsyncJobs]:
        context = JobContext(jobs=self.app, attempt=attempt)
        current.set(context)
        return context

    def _note_progress(self, attempt: Attempt) -> None:
        text = attempt.unwritten_progress
        if text is not None and attempt.claimed.id in self.store.kept:
            self.store.kept[attempt.claimed.id].change(progress=msgspec.json.decode(text))

    async def _complete(self, attempt: Attempt, _: object, result: str | None, dropped: str | None) -> None:
        _results[attempt] = result, dropped


#: What attempts that go on completed their job with.
_results: Final[dict[Attempt, tuple[str | None, str | None]]] = {}


async def _yes(_: Attempt, /, *, is_patient: bool) -> bool:  # noqa: ARG001 - as attempts ask
    return True


class _NoRunner:
    """What `jobs.runner()` gives: nothing that runs."""

    id = 0

    def wake(self) -> None:
        """Nothing sleeps."""

    async def stop(self, *, timeout: object = None) -> None:
        """Nothing runs."""


class _Breakers(Breakers):
    """Circuit breakers by the rules of a process that has no database, and the clock of the test."""

    def __init__(self, app: AsyncJobs, monotonic: Callable[[], float]) -> None:
        policies = [breaker.policy for breaker in app.breakers.values()]
        super().__init__(
            cast("Any", None), Wakes(lambda _: None), policies, events=app.events, start=cast("Any", None), monotonic=monotonic
        )
        self._cut_off = True

    def _report(self, known: Any, event: Event) -> Any:
        formerly = known.circuit.state
        known.circuit = decide(known.circuit, event, known.policy, self._monotonic())
        self._announce(known, formerly, known.circuit, alone=True)
        return _Reported()


class _Reported:
    """What was reported at once."""

    async def wait_done(self) -> None:
        """It is."""

    def when_done(self, call: Callable[[], object]) -> None:
        """Now."""
        call()


class in_memory:  # noqa: N801 - a context manager, entered with or without async
    """Keep the app's jobs in memory within the block: `async with in_memory(jobs)`, or `with in_memory(jobs)` in a plain test.

    The app must be closed at its beginning. UsageError when it is open, or in memory already.
    """

    def __init__(self, jobs: AsyncJobs, /) -> None:
        self._jobs = jobs

    def __enter__(self) -> AsyncJobs:
        jobs = self._jobs
        if jobs.lifecycle.opened is not None or jobs.memory is not None:
            raise UsageError(f"{jobs!r} is open: close it before in_memory() is entered.")
        jobs.close_declarations()
        jobs.memory = MemoryApp(jobs)
        unused.append(jobs)
        opened(jobs)
        return jobs

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None:
        closed(self._jobs)
        unused.remove(self._jobs)
        self._jobs.memory = None

    async def __aenter__(self) -> AsyncJobs:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.__exit__(kind, error, trace)


def memory_of(jobs: object) -> MemoryApp | None:
    """What keeps the app's jobs in memory; None: they are in a database."""
    memory = jobs.memory if isinstance(jobs, AsyncJobs) else None
    return memory if isinstance(memory, MemoryApp) else None


def run_in_loop_of(jobs: AsyncJobs, call: Coroutine[Any, Any, Any]) -> Any:
    """What the call answers, in the loop in which the app is open, if it is in one, else in one of this thread's own."""
    if running_loop() is not None:
        call.close()
        raise UsageError("called in an event loop's own thread, which it would block: await the form without _sync.")
    memory = memory_of(jobs)
    lifecycle = jobs.lifecycle.opened
    loop = memory.loop if memory is not None else None if lifecycle is None else lifecycle.loop
    if loop is not None and loop.is_running():
        return asyncio.run_coroutine_threadsafe(call, loop).result()
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(call)
    finally:
        loop.close()
