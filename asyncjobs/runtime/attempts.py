"""The attempts that run here: started from claims, ended into the acker, cancelled together.

They are not in a task group: a group waits for its tasks, and a handler that ignores its cancellation must not keep a shutdown
from ending in time. Every attempt is held here until it has ended, and none of them raises (see `runtime/attempt.py`).

Jobs that were claimed beyond the free slots (`prefetch`) wait here for a general slot, in the order of their claims. They are
this runner's, and nobody else's; a stop gives them back at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from asyncjobs.model.claim import Ack, Claimed, Scan
from asyncjobs.model.outcome import Outcome
from asyncjobs.model.request import Request
from asyncjobs.runtime.attempt import Attempt, CancelReason, Handler, Surroundings
from asyncjobs.runtime.coordinator import Coordinator
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
        ended: Callable[[Claimed], None] = lambda _: None,
    ) -> None:
        self._handlers = handlers
        self._coordinators = {coordinator.queue: coordinator for coordinator in coordinators}
        self._surroundings = surroundings
        self._put = put
        self._settle = settle  # for a job that was completed inside its handler's transaction
        self._wake = wake
        self._note = note  # for the roll-ups
        self._tell_ended = ended
        self._running: dict[int, Attempt] = {}
        self._waiting: dict[str, deque[Claimed]] = {queue: deque() for queue in self._coordinators}
        self._reported: set[tuple[int, int]] = set()
        self._rescued = 0
        self._all_ended = asyncio.Event()
        self._all_ended.set()

    @property
    def ids(self) -> Collection[int]:
        """The jobs whose handlers run here, or wait for a slot."""
        return {*self._running, *(job.id for line in self._waiting.values() for job in line)}

    @property
    def all(self) -> list[Attempt]:
        """The attempts that run here."""
        return list(self._running.values())

    @property
    def rescued(self) -> int:
        """How many of them are jobs that were taken back from a dead runner."""
        return self._rescued

    @property
    def stuck(self) -> int:
        """How many of them go on long after they should have ended."""
        return sum(attempt.overdue_seconds >= STUCK_SECONDS for attempt in self._running.values())

    def start(self, job: Claimed, scan: Scan) -> None:
        """Run a claimed job in a slot of the scan that found it, or when one is free."""
        self._rescued += job.rescues > 0
        if scan.lane is None and not self._coordinators[job.queue].slots.free(None):
            self._waiting[job.queue].append(job)
            self._coordinators[job.queue].waiting += 1
        else:
            self._start(job, scan.lane)

    def _start(self, job: Claimed, lane: str | None) -> None:
        attempt = Attempt(job, self._handlers[job.type], lane, self._surroundings)
        self._coordinators[job.queue].slots.take(lane)
        self._running[job.id] = attempt
        self._all_ended.clear()
        attempt.start(self._ended)

    def _ended(self, attempt: Attempt, ack: Ack) -> None:
        """The handler has ended: its slot is free, whatever becomes of the outcome."""
        job = attempt.claimed
        self._note(attempt, ack)
        del self._running[job.id]
        self._rescued -= job.rescues > 0
        self._reported.discard((job.id, job.token))
        self._coordinators[job.queue].slots.give_back(attempt.lane)
        if attempt.lane is None and self._waiting[job.queue]:
            self._coordinators[job.queue].waiting -= 1
            self._start(self._waiting[job.queue].popleft(), None)
        if attempt.completed_here:
            self._settle(attempt, ack)
        else:
            self._put(ack)
        self._tell_ended(job)
        self._wake()
        if job.rescues > 0:  # the next of its kind was passed over while this one ran: the scans that came back short lied
            for coordinator in self._coordinators.values():
                coordinator.wake(front=True)
        if not self._running:
            self._all_ended.set()

    def give_back_waiting(self) -> None:
        """Give back the jobs that wait for a slot."""
        for queue, line in self._waiting.items():
            self._coordinators[queue].waiting = 0
            for job in line:
                self._rescued -= job.rescues > 0
                self._put(Ack(job.id, job.token, Outcome(kind="interrupted")))
            line.clear()

    def obey(self, request: Request) -> None:
        """Ask the handler of this claim to end; what it answers from now on counts for nothing."""
        attempt = self._running.get(request.id)
        if attempt is not None and attempt.claimed.token == request.token:
            attempt.obey(request)
            return
        for queue, line in self._waiting.items():
            for job in [job for job in line if (job.id, job.token) == (request.id, request.token)]:
                line.remove(job)
                self._coordinators[queue].waiting -= 1
                self._rescued -= job.rescues > 0
                self._put(Ack(job.id, job.token, Outcome(kind="interrupted")))

    def cancel_all(self, reason: CancelReason) -> None:
        """Ask every handler to end, and give back what waits for one."""
        self.give_back_waiting()
        for attempt in self.all:
            attempt.cancel(reason)

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
