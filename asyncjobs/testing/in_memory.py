"""An app whose jobs are kept in memory: for tests of apps, without a database.

    async with in_memory(jobs):            # or `with in_memory(jobs):`, for a plain `def` test with a TestClient
        await send_email.enqueue("ada@example.com")
        [job] = await run_until_idle(jobs)

Within the block the app counts as open, in every thread and loop; what opens it (a lifespan, `async with jobs`, `jobs.runner()`)
connects to nothing. Jobs run when `run_until_idle` is called, or for whoever waits for one, one at a time: those with the
smallest priority first (as `Queue(ageing=)` says), then in the order in which they became due. A `connection=` is not used: a job
is there at once, whatever becomes of the transaction, and `ctx.complete(connection)` counts when its handler returns.

A wait ends with WaitTimeout when nothing is left to run: what it waits for is for later, or waits itself. A handler that runs
when the time-out of a wait, or of `run_until_idle`, is over is interrupted, and its job is to run again.

What there is not (a UsageError names it): the verbs of `jobs.admin`, `jobs.run()`, migrations, options of an enqueue that
`memory_store.py` does not know. What does nothing: schedules, duties, leases, lanes, notifications, prefetch, several processes.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, TypeVar, cast

import msgspec

from asyncjobs.app import AsyncJobs
from asyncjobs.connections import unused
from asyncjobs.context import JobContext, current
from asyncjobs.declare.definition import JobDefinition
from asyncjobs.errors import UsageError, WaitTimeout, WouldBlock
from asyncjobs.handles import ended
from asyncjobs.model.breaker import Event, decide
from asyncjobs.model.claim import Ack, Claimed
from asyncjobs.model.ending import AwaitedKind, Ending
from asyncjobs.model.job import EXPIRED, Job
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.model.request import Request
from asyncjobs.open.current_app import closed, opened
from asyncjobs.open.job_wait import check_wait
from asyncjobs.open.other_threads import running_loop, wait_in
from asyncjobs.open.run import served_handlers
from asyncjobs.runtime import callers
from asyncjobs.runtime.attempt import Attempt, Surroundings
from asyncjobs.runtime.breakers import Breakers
from asyncjobs.runtime.resources import Resources
from asyncjobs.runtime.threads import Threads
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.telemetry.events import JobsExpired, OutcomeWritten
from asyncjobs.telemetry.log_keys import name_job
from asyncjobs.testing.memory_store import Kept, MemoryStore
from asyncjobs.testing.memory_workflows import KeepsWorkflows

T = TypeVar("T")

_CLOSE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.01


class MemoryApp(KeepsWorkflows):
    """What stands in for the database of an app."""

    def __init__(self, app: AsyncJobs) -> None:
        self.app = app
        self.pid = os.getpid()
        self.shift = timedelta()
        self.store = MemoryStore(self.now, max_errors=app.settings.max_errors, ended=self._tell, ageing=self._ageing)
        self.events = app.events
        self.waits_told: set[tuple[str, str]] = set()
        self._loops = [one for one in [running_loop()] if one is not None]
        self._watches: list[MemoryWatch] = []
        self._running: dict[int, Attempt] = {}
        self._completed: dict[Attempt, tuple[str | None, str | None]] = {}  # by handlers that go on: with what
        self._waiting: Counter[int] = Counter()  # the jobs whose handlers wait for others
        self.breakers: Breakers = self._closed_breakers()
        self.interrupted: list[tuple[int, str]] = []  # what ran when a run was cancelled last

    def now(self) -> datetime:
        """What the clock says."""
        return datetime.now(UTC) + self.shift

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Where the app was opened last, or handlers run, if that goes on."""
        return next((loop for loop in reversed(self._loops) if loop.is_running()), None)

    def enter(self) -> None:
        """As the app is opened, in this loop."""
        self._loops.append(asyncio.get_running_loop())

    def leave(self) -> None:
        """Undo the last `enter` of this loop."""
        self._loops.reverse()
        self._loops.remove(asyncio.get_running_loop())
        self._loops.reverse()

    def keep(self, rows: Sequence[NewRow]) -> list[Enqueued]:
        """Write them all, or none."""
        with self.store.lock:
            enqueued = self.store.enqueue(rows)
        callers.tell(self.events, rows, enqueued, None)
        return enqueued

    async def get(self, job_id: int) -> Job | None:
        """The job as it is now."""
        with self.store.lock:
            return self.store.get(job_id)

    def _ageing(self, queue: str) -> float | None:
        known = self.app.queues.get(queue)
        return None if known is None else known.ageing_seconds

    def _closed_breakers(self) -> Breakers:
        return _Breakers(self.app, lambda: time.monotonic() + self.shift.total_seconds())

    def clear(self) -> None:
        """Forget all jobs, and close all circuit breakers."""
        with self.store.lock:
            self.store.clear()
        self.breakers = self._closed_breakers()

    def jobs(self) -> list[Job]:
        """All of them, in the order of their enqueues."""
        with self.store.lock:
            return self.store.jobs()

    async def wait_final(self, job_id: int, timeout: float | None) -> Job:
        """The job when it has ended; what is due runs meanwhile. WaitTimeout also when nothing is left to run."""
        watch = await self.watch([job_id], lambda: None, timeout=timeout)
        try:
            async with asyncio.timeout(timeout or None):
                if timeout != 0:
                    await watch.run()
        except WaitTimeout:
            raise
        except TimeoutError:
            raise WaitTimeout(f"job {job_id} had not ended after {timeout:g} s.", job_id=job_id) from None
        finally:
            watch.close()
        return ended(job_id, await self.get(job_id))

    async def watch(self, job_ids: Sequence[int], told: Callable[[], None], *, timeout: float | None) -> "MemoryWatch":
        """Watch these jobs until they have ended; a look runs what is due."""
        del told
        if timeout is None:
            await check_wait(self.app, self, job_ids)
        watch = MemoryWatch(self, job_ids, runs=timeout != 0)
        self._watches.append(watch)
        return watch

    def forget(self, watch: "MemoryWatch") -> None:
        """It is watched no longer."""
        self._watches.remove(watch)

    async def awaited_kinds(self, ids: Sequence[int], key: str | None) -> list[AwaitedKind]:
        """As a handler with this key has to know it: of those jobs what each is that has not ended."""
        found = [job for job in [await self.get(job_id) for job_id in ids] if job is not None and not job.is_final]
        return [AwaitedKind(j.id, j.type, j.queue, j.lane, key is not None and j.serialization_key == key) for j in found]

    def _tell(self, kept: Kept) -> None:
        for watch in self._watches:
            watch.note(kept.id)
        if kept.row.error_message == EXPIRED and kept.row.start_before is not None:
            self.events.emit(JobsExpired(type=kept.row.type, count=1))

    async def run_until(self, is_over: Callable[[], bool]) -> None:
        """Run what is due until that, or until nothing goes on any more: what runs only waits, what waits is not due."""
        context = current.get()
        waiting = [context.claimed.id] if context is not None and context.jobs is self.app else []
        handlers = served_handlers(self.app.handlers, None)
        self._waiting.update(waiting)
        try:
            async with self.working() as surroundings:
                while not is_over():
                    if await self.run_next(surroundings, list(self.app.queues), handlers) is None:
                        if all(self._waiting[job_id] for job_id in self._running):
                            return
                        await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._waiting.subtract(waiting)

    def is_held(self, definition: JobDefinition) -> bool:
        """Whether its circuit breaker lets nothing through just now."""
        return definition.breaker is not None and self.breakers.free_probes(definition.breaker) == 0

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[Surroundings]:
        """What the attempts of one run share."""
        settings, events, threads = self.app.settings, self.app.events, Threads()
        resources = Resources(events=events)
        self.enter()
        try:
            yield Surroundings(
                open_context=self._open_context, name_job=name_job, events=events, runner_id=lambda: 0, threads=threads,
                max_result_bytes=settings.max_result_bytes, max_error_bytes=settings.max_error_bytes,
                report_progress=self._note_progress, complete=self._complete, complete_sync=self._complete_sync,
                was_committed=_yes, share=resources.use, results=self.results, close_key=self._close_key,
                hooks=self.app.hooks.attempt, hook_seconds=settings.hook_timeout, retrying=settings.retrying,
                keeps_payload=settings.keep_payload,
            )  # fmt: skip
        finally:
            self.leave()
            threads.close()
            await resources.close(time.monotonic() + _CLOSE_SECONDS)
            await resources.let_go()

    async def run_next(
        self, surroundings: Surroundings, queues: Collection[str], handlers: Mapping[str, JobDefinition]
    ) -> Claimed | None:
        """Run one job that is due, if there is one."""
        with self.store.lock:
            claimed = self.store.claim({name: self.app.queues[name].total for name in queues}, handlers, self.is_held)
        if claimed is None:
            return None
        acks: list[Ack] = []
        attempt = self._running[claimed.id] = Attempt(claimed, handlers[claimed.type], claimed.lane, surroundings)
        task = attempt.start(lambda _, ack: acks.append(ack))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            self.interrupted = [(claimed.id, claimed.type)]
            attempt.cancel("shutdown")
            await asyncio.wait([task], timeout=1.0)
            raise
        finally:
            del self._running[claimed.id]
            if acks:
                self._write(acks[0], attempt)
        return claimed

    def obey(self, request: Request) -> None:
        """Ask a handler that runs to end. (It may run in another loop than the caller's.)"""
        attempt = self._running.get(request.id)
        if attempt is None or attempt.claimed.token != request.token:
            return
        if attempt.loop is running_loop():
            attempt.obey(request)
        else:
            attempt.loop.call_soon_threadsafe(attempt.obey, request)

    def _write(self, ack: Ack, attempt: Attempt) -> None:
        result = self._completed.pop(attempt, None)
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

    async def _close_key(self, claimed: Claimed, seconds: float) -> bool:
        with self.store.lock:
            return self.store.close_key(claimed.id, claimed.token, seconds)

    async def _complete(self, attempt: Attempt, connection: object, result: str | None, dropped: str | None) -> None:
        self._complete_sync(attempt, connection, result, dropped)

    def _complete_sync(self, attempt: Attempt, _: object, result: str | None, dropped: str | None) -> None:
        self._completed[attempt] = result, dropped


async def _yes(_: Attempt, /, *, is_patient: bool) -> bool:  # noqa: ARG001 - as attempts ask
    return True


class MemoryWatch:
    """Jobs in memory that a caller waits for. Whoever looks runs what is due, until one of them has ended."""

    has_news = True
    has_all = True  # a look is due at once

    def __init__(self, memory: MemoryApp, job_ids: Sequence[int], *, runs: bool) -> None:
        self.missing: dict[int, None] = dict.fromkeys(job_ids)
        self._memory, self._runs = memory, runs
        kept = memory.store.kept
        self._told = {job_id: None for job_id in self.missing if job_id not in kept or kept[job_id].job.is_final}

    def close(self) -> None:
        """Watch no longer."""
        self._memory.forget(self)

    def note(self, job_id: int) -> None:
        """It has ended."""
        if job_id in self.missing:
            self._told[job_id] = None

    async def run(self) -> None:
        """Run what is due until one of them has ended. WaitTimeout when nothing is left to run."""
        await self._memory.run_until(lambda: bool(self._told))
        if not self._told:
            job_id, more = next(iter(self.missing)), len(self.missing) - 1
            job = await self._memory.get(job_id)
            status = "gone" if job is None else job.status
            others = f", and {more:,} others had not" if more else ""
            raise WaitTimeout(
                f"job {job_id} had not ended, and nothing is left to run: it is {status}{others}.", job_id=job_id,
                missing=list(self.missing),
            )  # fmt: skip

    async def look(self, *, everywhere: bool) -> list[Ending]:
        """Those that have ended, or are not there."""
        del everywhere
        if self._runs:
            await self.run()
        told, self._told = list(self._told), {}
        for job_id in told:
            del self.missing[job_id]
        return [_ending(job_id, await self._memory.get(job_id)) for job_id in told]


def _ending(job_id: int, job: Job | None) -> Ending:
    if job is None:
        return Ending(job_id)
    if job.status != "completed":
        return Ending(job_id, job.status, job.type, job=job)
    result = None if job.result is None else msgspec.json.encode(job.result).decode()
    return Ending(job_id, job.status, job.type, result, job.result_dropped)


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
        self._rested = False

    def __enter__(self) -> AsyncJobs:
        jobs = self._jobs
        if jobs.lifecycle.opened is not None or jobs.memory is not None:
            raise UsageError(f"{jobs!r} is open: close it before in_memory() is entered.")
        jobs.close_declarations()
        jobs.memory, self._rested, jobs.rests = MemoryApp(jobs), jobs.rests, True
        unused.append(jobs)
        opened(jobs)
        return jobs

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None:
        closed(self._jobs)
        unused.remove(self._jobs)
        self._jobs.memory, self._jobs.rests = None, self._rested

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


def run_in_loop_of(jobs: object, awaited: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What comes of it in the loop in which the app is open, if it is in one, else in one of this thread's own."""
    if running_loop() is not None:
        raise WouldBlock("called in an event loop's own thread, it would block it: await the form without _sync.")
    memory = memory_of(jobs)
    open_app = jobs.lifecycle.opened if isinstance(jobs, AsyncJobs) else None
    loop = memory.loop if memory is not None else None if open_app is None else open_app.loop
    if loop is not None and loop.is_running():
        return wait_in(loop, awaited)
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(awaited())
