"""The attempts that run here: started from claims, ended into the acker, cancelled together.

They are not in a task group: a group waits for its tasks, and a handler that ignores its cancellation must not keep a shutdown
from ending in time. Every attempt is held here until it has ended, and none of them raises (see `runtime/attempt.py`).

Jobs that were claimed ahead of the free slots wait for one in `runtime/prefetched.py`, and start when an attempt ends.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from asyncjobs.model.claim import Ack, Claimed, Scan
from asyncjobs.model.outcome import Outcome
from asyncjobs.model.request import Request
from asyncjobs.runtime.attempt import Attempt, CancelReason, Surroundings
from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.runtime.handler import Handler
from asyncjobs.runtime.prefetched import Prefetched
from asyncjobs.runtime.probation import Probation
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import HandlerStuck

#: For how long a handler may go on after it should have ended before it is reported.
STUCK_SECONDS: Final = 5.0


class Attempts:
    """Starts attempts in slots, and frees the slots when their handlers have ended."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        coordinators: Sequence[Coordinator],
        surroundings: Surroundings,
        *,
        put: Callable[[Ack], None],
        settle: Callable[[Attempt, Ack], None],
        wake: Callable[[], None],
        note: Callable[[Attempt, Ack], None],
        pool: Pool,
        ended: Callable[[Claimed], None] | None = None,
        is_held: Callable[[Claimed], bool] = lambda _: False,
    ) -> None:
        self._handlers = handlers
        self._coordinators = {coordinator.queue: coordinator for coordinator in coordinators}
        self._surroundings = surroundings
        self._put = put
        self._settle = settle  # for a job that was completed inside its handler's transaction
        self._wake = wake
        self._note = note  # for the roll-ups
        self.probation = Probation(pool, events=surroundings.events, released=self._look_for_suspects)
        self._tell_ended = ended
        self._is_held = is_held  # by a circuit breaker
        self._running: dict[int, Attempt] = {}
        self._waiting = {queue: Prefetched(coordinator) for queue, coordinator in self._coordinators.items()}
        self._reported: set[tuple[int, int]] = set()
        self._all_ended = asyncio.Event()
        self._all_ended.set()

    @property
    def ids(self) -> Collection[int]:
        """The jobs whose handlers run here, or wait for a slot, as of now: it may change with them."""
        waiting = [line.ids for line in self._waiting.values() if line.ids]
        return self._running.keys() | set().union(*waiting) if waiting else self._running.keys()

    @property
    def waiting(self) -> int:
        """How many jobs were claimed ahead, and wait for a slot."""
        return sum(len(line.ids) for line in self._waiting.values())

    @property
    def all(self) -> list[Attempt]:
        """The attempts that run here."""
        return list(self._running.values())

    @property
    def stuck(self) -> int:
        """How many of them go on long after they should have ended."""
        return sum(attempt.overdue_seconds >= STUCK_SECONDS for attempt in self._running.values())

    def start(self, job: Claimed, scan: Scan) -> None:
        """Run a claimed job in a slot of the scan that found it, or when one is free."""
        if job.losses:
            self.probation.claimed(job)
        slots = self._coordinators[job.queue].slots
        if scan.lane is not None or slots.free(None):
            self._start(job, scan.lane)
        elif job.lane in slots.lanes and slots.free(job.lane):
            self._start(job, job.lane)
        elif job.suspicion or self._is_held(job):  # a suspect that waited would be on probation before it runs
            self._give_back([job])
        else:
            self._waiting[job.queue].add(job)

    def _start(self, job: Claimed, lane: str | None) -> None:
        attempt = Attempt(job, self._handlers[job.type], lane, self._surroundings)
        self._coordinators[job.queue].slots.take(lane)
        self._running[job.id] = attempt
        if job.losses:
            self.probation.began(job)
        if len(self._running) == 1:
            self._all_ended.clear()
        attempt.start(self._ended)

    def _ended(self, attempt: Attempt, ack: Ack) -> None:
        """The handler has ended: its slot is free, whatever becomes of the outcome."""
        job = attempt.claimed
        self._note(attempt, ack)
        del self._running[job.id]
        if self._reported:
            self._reported.discard((job.id, job.token))
        coordinator = self._coordinators[job.queue]
        coordinator.slots.give_back(attempt.lane)
        if coordinator.waiting and (waited := self._waiting[job.queue].take(attempt.lane)) is not None:
            self._start(waited, attempt.lane)
        if self._tell_ended is not None:
            self._tell_ended(job)
        if attempt.completed_here:
            self._settle(attempt, ack)
            self._wake()
        else:
            self._put(ack)
        if job.losses:
            self.probation.ended(job)
        if not self._running:
            self._all_ended.set()

    def may_take_suspect(self, scan: Scan) -> bool:
        """Whether a suspect may be claimed with this scan: none is on probation here, and there is a slot for it now."""
        return self.probation.is_free and self._coordinators[scan.queue].slots.free(scan.lane) > 0

    def _look_for_suspects(self) -> None:
        """The next was passed over while one was on probation here: the scans that came back short lied."""
        for coordinator in self._coordinators.values():
            coordinator.wake(front=True)

    def give_back_waiting(self, condition: Callable[[Claimed], bool] = lambda _: True) -> None:
        """Give back the jobs that wait for a slot, all or those of which this is true."""
        for line in self._waiting.values():
            self._give_back(line.take_if(condition))

    def _give_back(self, jobs: Sequence[Claimed]) -> None:
        for job in jobs:
            if job.losses:
                self.probation.ended(job)
            self._put(Ack(job.id, job.token, Outcome(kind="interrupted", is_begun=False)))
            if self._tell_ended is not None:
                self._tell_ended(job)

    def obey(self, request: Request) -> None:
        """Ask the handler of this claim to end; what it answers from now on counts for nothing. One that waits does not start."""
        attempt = self._running.get(request.id)
        if attempt is not None and attempt.claimed.token == request.token:
            attempt.obey(request)
            return
        for line in self._waiting.values():
            self._give_back(line.take_if(lambda job: job.token == request.token, among=[request.id]))

    def cancel_all(self, reason: CancelReason) -> None:
        """Ask every handler to end, and give back what waits for one."""
        self.give_back_waiting()
        for attempt in self.all:
            attempt.cancel(reason)

    def hand_over(self, *, put: Callable[[Ack], None], settle: Callable[[Attempt, Ack], None]) -> None:
        """Give to others what the attempts end in from now on."""
        self._put, self._settle = put, settle

    def abandon(self) -> None:
        """Wait no longer for those that still run."""
        for attempt in self.all:
            attempt.abandon()

    async def wait_ended(self, seconds: float) -> bool:
        """Wait until no handler runs; False if some still did after so many seconds."""
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._all_ended.wait()
            except TimeoutError:
                return False
        return not self._running

    def report_stuck(self) -> None:
        """Report, once each, the handlers that go on although they should have ended."""
        for attempt in self._running.values():
            key = (attempt.claimed.id, attempt.claimed.token)
            if attempt.overdue_seconds >= STUCK_SECONDS and key not in self._reported:
                self._reported.add(key)
                reason = attempt.cancel_reason or "timeout"
                self._surroundings.events.emit(
                    HandlerStuck(job_id=key[0], type=attempt.claimed.type, since_seconds=attempt.overdue_seconds, reason=reason)
                )
