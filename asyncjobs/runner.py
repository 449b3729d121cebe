"""A runner: how its parts start, what wakes which, and how it is. What it is made of: `runtime/runner_parts.py`.

Start: register → heartbeat → listen, claim, promote, rescue, fire schedules. Everything that became pending before the
LISTEN is found by the claim that follows it.

Declared dead: `runtime/registration.py`. Stop: `runtime/stopping.py`.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final, final

from asyncjobs.dsn import place_of
from asyncjobs.errors import ConfigurationError
from asyncjobs.model.outcome import Duration
from asyncjobs.model.peers import Lot
from asyncjobs.runtime.duty_set import Duties
from asyncjobs.runtime.health import STANDSTILL_SECONDS, RunnerHealth
from asyncjobs.runtime.heartbeat import Heartbeat
from asyncjobs.runtime.idle import Idle
from asyncjobs.runtime.listening import Listening
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.runtime.parts import RECENT_SECONDS, Part
from asyncjobs.runtime.runner_parts import RunnerPlan, make_parts
from asyncjobs.runtime.stopping import Stopping
from asyncjobs.settings import config_seconds
from asyncjobs.telemetry.events import RunnerStarted

_TOLD_SECONDS: Final = 4.0


@final
class Runner:
    """Runs jobs until it is stopped. Made by `AsyncJobs.runner()`."""

    def __init__(self, opened: OpenApp, declared: RunnerPlan, *, grace: float) -> None:
        self.started_at: float | None = None
        self.name = declared.name
        self.parts = make_parts(opened, declared)
        self._opened, self._events, self._grace = opened, opened.events, grace
        self._types = sorted(declared.handlers)
        self.idle = Idle(
            opened, self.parts, {name: one.version for name, one in declared.handlers.items()}, budget=declared.budget
        )
        self._running: list[Part] = []
        self._registering: Part | None = None
        self._forget: Callable[[], None] | None = None
        self._stopping = Stopping(opened, self.parts, end_tasks=self._end_tasks, let_go=self._let_go)
        self.parts.registration.when_gone(self._register_anew_once)
        self.parts.heartbeat.parts_troubles = self.troubles

    @property
    def id(self) -> int:
        """Under which this runner is registered now; another one after it was declared dead."""
        return self.parts.registration.id

    @property
    def queues(self) -> Sequence[str]:
        """The queues it serves."""
        return [coordinator.queue for coordinator in self.parts.queues]

    @property
    def heartbeat(self) -> Heartbeat:
        """Its beats."""
        return self.parts.heartbeat

    @property
    def listening(self) -> Listening:
        """Its connection to which notifications come."""
        return self.parts.listening

    @property
    def duties(self) -> Duties:
        """What it does for all."""
        return self.parts.duties

    def running_ids(self) -> Collection[int]:
        """The jobs that are this runner's: their handlers run, or wait for a slot, or what they ended in is not written yet."""
        return self.parts.line.claims.keys()

    def health(self) -> RunnerHealth:
        """How this runner is, without asking the database."""
        parts = self.parts
        line, heartbeat, scheduler = parts.line, parts.heartbeat, parts.duties.scheduler
        turn_age = time.monotonic() - line.turned_at
        return RunnerHealth(
            id=self.id,
            name=self.name,
            queues=[*self.queues],
            notify=parts.listening.mode,
            is_listening=parts.listening.is_connected,
            running=len(parts.attempts),
            waiting=parts.queues.waiting,
            stuck=parts.attempts.stuck,
            free_slots=parts.queues.free_slots,
            unwritten=line.unwritten + parts.keys.unwritten,
            refused=line.refused,
            refused_rows=parts.duties.refused + parts.keys.refused,
            answered_age_seconds=time.monotonic() - line.answered_at,
            turn_age_seconds=turn_age,
            beat_age_seconds=heartbeat.turn_age_seconds,
            loop_stalled_seconds=heartbeat.loop_stalled_seconds,
            is_alive=heartbeat.loop_stalled_seconds < heartbeat.stall_limit_seconds and turn_age < STANDSTILL_SECONDS,
            leases=parts.duties.leader.held(),
            schedules_age_seconds=scheduler.turn_age_seconds,
            failed_schedules=sorted(scheduler.failed),
            differing_limits=[*parts.registration.differing],
            is_confirmed=heartbeat.is_confirmed,
            outdated_by=heartbeat.outdated_by,
            is_stopping=self._stopping.has_begun,
            error=None if line.error is None else f"{type(line.error).__name__}: {line.error}",
        )

    def troubles(self) -> list[str]:
        """Parts of the app and of this runner that were started again of late, in words. From any thread."""
        return [
            *self._opened.parts.troubles(within=RECENT_SECONDS), *self.parts.heartbeat.troubles(within=RECENT_SECONDS)
        ]  # fmt: skip

    # Starting.

    async def start(self) -> None:
        """Register, and begin to claim. ConfigurationError for notify="listen" where notifications do not arrive."""
        parts, start = self.parts, self._opened.parts.start
        async with asyncio.timeout(self._opened.settings.connect_timeout):
            await parts.duties.check()
            await self._register()
        await parts.turnstile.open()
        parts.heartbeat.start()
        self._forget = self._opened.wakes.add(self)
        self._running = [start(name, run) for name, run in parts.tasks()]
        self._running += parts.duties.start(start)
        self._opened.runners.append(self)
        self.started_at = time.monotonic()
        self._running.append(start("start", self._tell_start))
        try:
            await parts.duties.scheduler.wait_declared()
            if self._opened.settings.notify == "listen":
                await parts.listening.wait_decided()
        except BaseException:
            await self.stop(timeout=0)
            raise

    async def _tell_start(self) -> None:
        """Tell what runs where, as soon as it is known whether notifications arrive."""
        parts = self.parts
        with contextlib.suppress(TimeoutError, ConfigurationError):
            async with asyncio.timeout(_TOLD_SECONDS):
                await parts.listening.wait_decided()
        slots = {one.queue: one.concurrency for one in parts.queues}
        database, place = self._opened.database, place_of(self._opened.database.dsn)
        self._events.emit(
            RunnerStarted(
                runner_id=self.id, name=self.name, database=place, schema=database.schema, queues=slots, types=self._types,
                notify=parts.listening.mode,
            )
        )  # fmt: skip

    async def _register(self) -> None:
        sent_at = await self.parts.registration.register(self.parts.duties.names)
        self._opened.wakes.pauses()
        self.parts.heartbeat.follow(self.id, sent_at=sent_at)

    def _register_anew_once(self) -> None:
        """The runner's row is gone: give up what runs, and register anew."""
        if self._registering is None and not self._stopping.has_begun:
            self.parts.registration.give_up_claims()
            self._registering = self._opened.parts.start("register", self._register_anew)

    async def _register_anew(self) -> None:
        try:
            await self._register()
        finally:
            self._registering = None
        self.parts.line.resume()
        self.wake()

    # What wakes which part.

    def wake(self) -> None:
        """Look for work now, in every queue: anything may have changed, as when nobody listened for a while."""
        parts, duties = self.parts, self.parts.duties
        parts.queues.look_at_the_front()
        for service in (duties.promoter, duties.serializer, duties.pauser, duties.scheduler, parts.requests, parts.giving_back):
            service.wake()

    def wake_queue(self, queue: str, *, front: bool) -> None:
        """Jobs of the queue became pending."""
        coordinator = self.parts.queues.get(queue)
        if coordinator is not None:
            coordinator.wake(front=front)

    def answers_for(self, queue: str, type: str, version: int) -> bool:
        """Whether it claims a job of the queue that is pending now, and answers for it."""
        coordinator = self.parts.queues.get(queue)
        return coordinator is not None and coordinator.answers_for(type, version)

    def hear_queue(self, queue: str, lot: Lot | None, *, front: bool, is_own: bool) -> None:
        """The same, as a notification says."""
        coordinator = self.parts.queues.get(queue)
        if coordinator is not None:
            coordinator.hear(lot, front=front, is_own=is_own)

    def wake_keys(self) -> None:
        """Heads of keys are to be dispatched."""
        self.parts.duties.serializer.wake()

    def wake_schedules(self) -> None:
        """A schedule was enabled."""
        self.parts.duties.scheduler.wake()

    def wake_pauses(self) -> None:
        """Something was paused or resumed."""
        self.parts.duties.pauser.wake()
        self.parts.giving_back.wake()

    def wake_requests(self) -> None:
        """The end of jobs that run was asked for."""
        self.parts.requests.wake()

    def wake_due(self, seconds: float) -> None:
        """Something becomes due in so many seconds."""
        self.parts.duties.promoter.hint(seconds)

    def wake_leases(self, runner_id: int) -> None:
        """Leases are free, and that runner is to take them."""
        if runner_id == self.id:
            self.parts.heartbeat.beat_now()
        else:
            self.parts.duties.scheduler.handed_over()

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

    def _end_tasks(self) -> None:
        for part in (*self._running, *filter(None, [self._registering])):
            part.stop()

    def _let_go(self) -> None:
        parts = self.parts
        parts.line.abort()
        parts.duties.let_go()
        parts.turnstile.close()
        parts.polling.close()
        parts.threads.close()
        if self._forget is not None:
            self._forget()
        if self in self._opened.runners:
            self._opened.runners.remove(self)
