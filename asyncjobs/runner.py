"""A runner: the composition of coordinators, attempts, acker and services for one process, and how it starts and stops.

Start: register → heartbeat → listen, claim, promote, rescue, fire schedules. Everything that became pending before the
LISTEN is found by the claim that follows it.

Declared dead (its row is gone): cancel what runs, register anew under a new id, go on. Its writes under the old claims touch
nothing. Not confirmed alive for 5/6 of `runner_timeout`: cancel what runs, since others may take it from now on; what turns out
to be still ours is given back with its attempt.

Stop: `runtime/stopping.py`.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import version
from typing import Final, final

from asyncjobs.config import Queue, config_seconds
from asyncjobs.connections import Connection
from asyncjobs.dsn import place_of
from asyncjobs.errors import ClaimLost, ConfigurationError
from asyncjobs.hooks import Hook
from asyncjobs.model.claim import Ack, Claimed, Scan
from asyncjobs.model.outcome import Duration
from asyncjobs.model.schedule import Schedule
from asyncjobs.runtime.acker import Acker
from asyncjobs.runtime.attempt import Attempt, OpenContext, Surroundings
from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.clock import boottime
from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.runtime.duty_set import DeclaredDuty, Duties
from asyncjobs.runtime.gate import Gate
from asyncjobs.runtime.giving_back import GivingBack
from asyncjobs.runtime.handler import Handler
from asyncjobs.runtime.health import STANDSTILL_SECONDS, RunnerHealth
from asyncjobs.runtime.heartbeat import Heartbeat
from asyncjobs.runtime.host import Tokens
from asyncjobs.runtime.listening import Listening
from asyncjobs.runtime.metrics import Metrics
from asyncjobs.runtime.opened import Opened
from asyncjobs.runtime.parts import RECENT_SECONDS, Part
from asyncjobs.runtime.progress import Progress
from asyncjobs.runtime.requests import Requests
from asyncjobs.runtime.resources import Resources
from asyncjobs.runtime.service import Service, backoff_seconds
from asyncjobs.runtime.settler import Settler
from asyncjobs.runtime.stopping import Stopping
from asyncjobs.runtime.stubs import Stubs
from asyncjobs.runtime.stuck_check import StuckCheck
from asyncjobs.runtime.threads import Threads
from asyncjobs.runtime.woken_parts import WokenParts
from asyncjobs.store import callers, runners
from asyncjobs.store.database import Database
from asyncjobs.store.failures import is_passing
from asyncjobs.telemetry.events import ClaimWasLost, DatabaseFailed, RunnerOutdated, RunnerRegistered, RunnerStarted

_POLL_SECONDS: Final = 5.0
_TOLD_SECONDS: Final = 4.0
_POLL_SECONDS_WITHOUT_LISTEN: Final = 1.0
_REGISTER_TRIES: Final = 5
_WITHDRAW_SECONDS: Final = 0.5


@final
class Runner:
    """Runs jobs until it is stopped. Made by `AsyncJobs.runner()`."""

    def __init__(
        self,
        opened: Opened,
        *,
        queues: Sequence[Queue],
        handlers: Mapping[str, Handler],
        stubs: Stubs,
        schedules: Sequence[Schedule],
        open_context: OpenContext,
        grace: float,
        listen: Database,
        duties: Sequence[DeclaredDuty] = (),
        guarded: Mapping[str, str] | None = None,
        hooks: Sequence[Hook] = (),
    ) -> None:
        settings = opened.settings
        self.id = 0
        self.started_at: float | None = None
        self._opened, self._events, self._grace, self._queues = opened, opened.events, grace, [queue.name for queue in queues]
        self._types, self._versions = sorted(handlers), {name: one.version for name, one in handlers.items() if one.version > 1}
        self._parts: list[Part] = []
        self._registering: Part | None = None
        self._forget: Callable[[], None] = lambda: None
        self._threads, self.resources = Threads(), Resources(events=opened.events)
        self.coordinators = [Coordinator(queue, ask=self._ask, later=opened.loop.call_later) for queue in queues]
        self.gate = self._make_gate(guarded or {})
        self.progress = Progress(opened.pool, events=self._events)
        self.metrics = Metrics(opened.pool, events=self._events, interval_seconds=settings.metrics_interval)
        self.settler = Settler(
            opened.pool, opened.wakes, events=self._events, written=self._settled, lost=self._lost, runner_id=lambda: self.id,
            start=opened.parts.start, max_errors=settings.max_errors,
        )  # fmt: skip
        self.duties = Duties(
            opened, duties, schedules, listen=listen, poll_seconds=self._poll_seconds, lost=self.metrics.lost,
            runner_id=lambda: self.id,
        )  # fmt: skip
        self.scheduler = self.duties.scheduler
        self.heartbeat = Heartbeat(
            opened.database, events=self._events, on_declared_dead=self._on_declared_dead, on_unconfirmed=self._on_unconfirmed,
            on_outdated=self._on_outdated, troubles=self.troubles, listener=lambda: self.listening.backend_pid,
            heartbeat_seconds=settings.heartbeat, runner_timeout_seconds=settings.runner_timeout,
            stall_after_seconds=settings.stall_after, stall_limit_seconds=settings.stall_limit, leader=self.duties.leader,
        )  # fmt: skip
        self.acker = self._make_acker(stubs)
        self.attempts = Attempts(
            handlers, self.coordinators, self._surroundings(open_context, hooks),
            put=self.acker.put, settle=self.settler.settle, wake=self.acker.wake, note=self.metrics.ended,
            pool=opened.pool, ended=self.gate.ended if guarded else None, is_held=self.gate.is_held,
        )  # fmt: skip
        self.listening = Listening(
            listen, opened.wakes, opened.notifier, events=self._events, notify=settings.notify,
            keepalive_seconds=settings.listener_keepalive,
        )  # fmt: skip
        self.requests = Requests(opened, self.attempts, runner_id=lambda: self.id, poll_seconds=self._poll_seconds)
        self.giving_back = self._make_giving_back()
        self._woken = self._make_woken()
        self._stopping = self._make_stopping()

    def _make_gate(self, guarded: Mapping[str, str]) -> Gate:
        return Gate(
            self._opened.breakers, self._types, guarded, self.coordinators,
            later=self._opened.loop.call_later, hears=lambda: self.listening.hears,
            give_back=self._give_back_waiting,
        )  # fmt: skip

    def _make_acker(self, stubs: Stubs) -> Acker:
        settings = self._opened.settings
        return Acker(
            self._opened.database.link("finish"), self, self.coordinators, gate=self.gate, stubs=stubs, wakes=self._opened.wakes,
            tokens=Tokens(secrets.randbits(31)), events=self._events, max_errors=settings.max_errors,
            poll_seconds=self._poll_seconds, reconcile_seconds=settings.runner_timeout,
        )  # fmt: skip

    def _make_giving_back(self) -> GivingBack:
        return GivingBack(
            self._opened.pool, self.attempts, events=self._events, wait_call=self.acker.under_way.wait_over,
            poll_seconds=self._poll_seconds,
        )  # fmt: skip

    def _make_woken(self) -> WokenParts:
        return WokenParts(
            self.coordinators, self.duties, self.requests, self.heartbeat, self.giving_back, runner_id=lambda: self.id
        )

    def _make_stopping(self) -> Stopping:
        return Stopping(
            self._opened, coordinators=self.coordinators, attempts=self.attempts, acker=self.acker, settler=self.settler,
            heartbeat=self.heartbeat, duties=self.duties, runner_id=lambda: self.id,
            end_services=self._end_services, metrics=self.metrics, resources=self.resources, let_go=self._let_go,
        )  # fmt: skip

    def _surroundings(self, open_context: OpenContext, hooks: Sequence[Hook]) -> Surroundings:
        settings = self._opened.settings
        return Surroundings(
            open_context=open_context,
            events=self._events,
            runner_id=lambda: self.id,
            threads=self._threads,
            max_result_bytes=settings.max_result_bytes,
            max_error_bytes=settings.max_error_bytes,
            report_progress=self.progress.report,
            complete=self._complete_here,
            was_committed=lambda attempt, is_patient: self.settler.was_committed(attempt, is_patient=is_patient),
            share=self.resources.use,
            may_begin=self.heartbeat.may_begin,
            loop_ends=lambda: self._opened.is_ending,
            hooks=hooks,
            hook_seconds=settings.hook_timeout,
        )

    @property
    def runner_id(self) -> int:
        """Under which this runner is registered now; another one after it was declared dead."""
        return self.id

    @property
    def other_runners(self) -> int:
        """How many other runners were alive at the last beat."""
        return self.heartbeat.other_runners

    @property
    def queues(self) -> Sequence[str]:
        """The queues it serves."""
        return self._queues

    @property
    def is_confirmed(self) -> bool:
        """Whether it may claim and begin: nobody can have declared this runner dead, and it is not too old for the schema."""
        return self.heartbeat.may_begin()

    def running_ids(self) -> Collection[int]:
        """The jobs whose handlers run here, or whose completion inside a transaction is not settled yet."""
        running, settling = self.attempts.ids, self.settler.ids
        return {*running, *settling} if settling else running

    def may_take_suspect(self, scan: Scan) -> bool:
        """Whether a job that may have killed its runner may be claimed with this scan."""
        return self.attempts.may_take_suspect(scan)

    def start_attempt(self, job: Claimed, scan: Scan) -> None:
        """Run a claimed job."""
        self.attempts.start(job, scan)

    def _give_back_waiting(self, condition: Callable[[Claimed], bool]) -> None:
        self.attempts.give_back_waiting(condition)

    def health(self) -> RunnerHealth:
        """How this runner is, without asking the database."""
        turn_age = time.monotonic() - self.acker.turned_at
        return RunnerHealth(
            id=self.id,
            queues=self._queues,
            notify=self.listening.mode,
            is_listening=self.listening.is_connected,
            running=len(self.attempts.all),
            waiting=self.attempts.waiting,
            stuck=self.attempts.stuck,
            free_slots=sum(coordinator.slots.concurrency - coordinator.slots.taken for coordinator in self.coordinators),
            unwritten=self.acker.unwritten,
            answered_age_seconds=time.monotonic() - self.acker.answered_at,
            turn_age_seconds=turn_age,
            beat_age_seconds=self.heartbeat.turn_age_seconds,
            loop_stalled_seconds=self.heartbeat.loop_stalled_seconds,
            is_alive=self.heartbeat.loop_stalled_seconds < self.heartbeat.stall_limit_seconds and turn_age < STANDSTILL_SECONDS,
            leases=self.duties.leader.held(),
            schedules_age_seconds=self.scheduler.turn_age_seconds,
            failed_schedules=sorted(self.scheduler.failed),
            is_confirmed=self.heartbeat.is_confirmed,
            outdated_by=self.heartbeat.outdated_by,
            is_stopping=self._stopping.has_begun,
            error=None if self.acker.error is None else f"{type(self.acker.error).__name__}: {self.acker.error}",
        )

    def troubles(self) -> list[str]:
        """Parts of the app and of this runner that were started again of late, in words. From any thread."""
        return [*self._opened.parts.troubles(within=RECENT_SECONDS), *self.heartbeat.troubles(within=RECENT_SECONDS)]

    # Starting.

    async def start(self) -> None:
        """Register, and begin to claim. ConfigurationError for notify="listen" where notifications do not arrive."""
        async with asyncio.timeout(self._opened.settings.connect_timeout):
            await self.duties.check()
            await self._register()
        await self.gate.open()
        self.heartbeat.start()
        self._forget = self._opened.wakes.add(self._woken)
        services: list[Service] = [
            self.listening,
            self.progress,
            self.attempts.probation,
            self.metrics,
            self.requests,
            StuckCheck(self.attempts, events=self._events),
        ]
        if any(coordinator.prefetch for coordinator in self.coordinators):
            services.append(self.giving_back)
        start = self._opened.parts.start
        self._parts = [start("acker", self.acker.run), *(start(service.name, service.run) for service in services)]
        self._parts += self.duties.start(start)
        self._opened.runners.append(self)
        self.started_at = time.monotonic()
        self._parts.append(start("start", self._tell_start))
        try:
            await self.scheduler.wait_declared()
            if self._opened.settings.notify == "listen":
                await self.listening.wait_settled()
        except BaseException:
            await self.stop(timeout=0)
            raise

    async def _tell_start(self) -> None:
        """Tell what runs where, as soon as it is known whether notifications arrive."""
        with contextlib.suppress(TimeoutError, ConfigurationError):
            async with asyncio.timeout(_TOLD_SECONDS):
                await self.listening.wait_settled()
        slots = {one.queue: one.slots.concurrency for one in self.coordinators}
        database, place = self._opened.database, place_of(self._opened.database.dsn)
        self._events.emit(
            RunnerStarted(
                runner_id=self.id, database=place, schema=database.schema, queues=slots, types=self._types,
                notify=self.listening.mode,
            )
        )  # fmt: skip

    async def _register(self) -> None:
        """Make this runner known under a new id. One that was known before tries until that works, whatever is wrong there."""
        failures = 0
        former = self.id or None
        while True:
            sent_at = boottime()
            runner_id = runners.new_runner_id()
            try:
                await self._insert_row(runner_id)
            except asyncio.CancelledError:
                await self._withdraw(runner_id)
                raise
            except Exception as error:
                failures += 1
                self._events.emit(DatabaseFailed(during="register", error=error))
                is_hopeless = failures >= _REGISTER_TRIES and self._opened.settings.connect_timeout is not None
                if former is None and (is_hopeless or not is_passing(error)):
                    raise  # later it would end the app, enqueues and all, in a process that goes on
                await asyncio.sleep(backoff_seconds(failures, 2.0, 0.5))
            else:
                break
        self.id = runner_id
        self._opened.wakes.pauses()
        self.heartbeat.follow(runner_id, sent_at=sent_at)
        self._events.emit(RunnerRegistered(runner_id=runner_id, formerly=former))

    async def _insert_row(self, runner_id: int) -> None:
        async with self._opened.pool.take() as link:
            await runners.register(
                link,
                runner_id,
                host=socket.gethostname(),
                pid=os.getpid(),
                version=version("asyncjobs"),
                queues=self._queues,
                types=self._types,
                versions=self._versions,
                duties=self.duties.names,
                slots={coordinator.queue: coordinator.slots.sizes for coordinator in self.coordinators},
                prefetch={coordinator.queue: coordinator.prefetch for coordinator in self.coordinators if coordinator.prefetch},
            )

    async def _withdraw(self, runner_id: int) -> None:
        """Take away a row that may be there although its insert was not answered: others would take it for a runner."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_WITHDRAW_SECONDS), self._opened.pool.take() as link:
                await runners.leave(link, runner_id, timeout=_WITHDRAW_SECONDS)

    def wake(self) -> None:
        """Look for work now, in every queue."""
        self._woken.wake_all()

    def _ask(self) -> None:
        self.acker.wake()

    def _poll_seconds(self) -> float:
        given = self._opened.settings.poll_interval
        if given is not None:
            return given
        return _POLL_SECONDS if self.listening.mode == "listen" else _POLL_SECONDS_WITHOUT_LISTEN

    # Being declared dead.

    def declared_dead(self) -> None:
        """The runner's row is gone: give up what runs, and register anew."""
        if self._registering is None and not self._stopping.has_begun:
            self.attempts.cancel_all("claim lost")
            self._registering = self._opened.parts.start("register", self._register_anew)

    async def _register_anew(self) -> None:
        try:
            await self._register()
        finally:
            self._registering = None
        self.acker.resume()
        self.wake()

    def _on_declared_dead(self, runner_id: int) -> None:
        if runner_id == self.id:
            self.declared_dead()

    def _on_unconfirmed(self, runner_id: int) -> None:
        if runner_id == self.id:
            self.attempts.cancel_all("claim lost")

    def _on_outdated(self, runner_id: int, migration: str) -> None:
        self._events.emit(RunnerOutdated(runner_id=runner_id, migration=migration))
        self.attempts.give_back_waiting()

    # Completions inside a handler's transaction.

    async def _complete_here(self, attempt: Attempt, connection: Connection, result: str | None, dropped: str | None) -> None:
        claimed = attempt.claimed
        if not await callers.complete(
            connection,
            self._opened.database,
            claimed.id,
            claimed.token,
            result=result,
            dropped=dropped,
            progress=attempt.unwritten_progress,
        ):
            raise ClaimLost(f"job {claimed.id} is not this attempt's any more: let its transaction roll back.")

    def _settled(self, ack: Ack) -> None:
        self.acker.announce(ack)

    def _lost(self, ack: Ack) -> None:
        self._events.emit(ClaimWasLost(job_id=ack.id, token=ack.token, runner_id=self.id, during="ack"))

    # Stopping.

    async def stop(self, *, timeout: Duration | None = None) -> None:
        """Stop; `timeout` is the grace (None: as configured). Returns when the runner has stopped.

        Called again it cuts the grace of the first call short. Called by a handler of this runner it only asks: waiting would
        wait for that handler.
        """
        await self._stopping.stop(self._grace if timeout is None else config_seconds(timeout, name="timeout"))

    async def wait_stopped(self) -> None:
        """Wait until the runner has stopped."""
        await self._stopping.wait_stopped()

    async def see_stopped(self) -> None:
        """Stop it if nobody does; return when it has stopped. For an app whose loop is being ended."""
        if not self._stopping.has_begun:
            await self.stop()
        await self.wait_stopped()

    def _end_services(self) -> None:
        for part in (*self._parts, *filter(None, [self._registering])):
            part.stop()

    def _let_go(self) -> None:
        self.acker.abort()
        self.duties.let_go()
        self.gate.close()
        self._threads.close()
        self._forget()
        if self in self._opened.runners:
            self._opened.runners.remove(self)
