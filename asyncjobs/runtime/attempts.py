"""The attempts that run here, by job: asked to end together or one by one, waited for, and reported when they go on too long.

They are not in a task group: a group waits for its tasks, and a handler that ignores its cancellation must not keep a shutdown
from ending in time. Every attempt is held here until it has ended, and none of them raises (see `runtime/attempt.py`).
"""

import asyncio
from typing import Final

import anyio

from asyncjobs.model.request import Request
from asyncjobs.runtime.attempt import Attempt, CancelReason
from asyncjobs.telemetry.events import Events, HandlerStuck

#: For how long a handler may go on after it should have ended before it is reported.
STUCK_SECONDS: Final = 5.0


class Attempts:
    """Coordinators add attempts when they start them, and take them away when they have ended."""

    def __init__(self, *, events: Events) -> None:
        self._events = events
        self._running: dict[int, Attempt] = {}
        self._reported: set[tuple[int, int]] = set()
        self._all_ended: asyncio.Event | None = None  # while a task waits for it

    def __len__(self) -> int:
        return len(self._running)

    @property
    def all(self) -> list[Attempt]:
        """The attempts that run here."""
        return list(self._running.values())

    @property
    def stuck(self) -> int:
        """How many of them go on long after they should have ended."""
        return sum(attempt.overdue_seconds >= STUCK_SECONDS for attempt in self._running.values())

    def add(self, attempt: Attempt) -> None:
        """One starts."""
        self._running[attempt.claimed.id] = attempt

    def remove(self, attempt: Attempt) -> None:
        """One has ended."""
        del self._running[attempt.claimed.id]
        if self._reported:
            self._reported.discard((attempt.claimed.id, attempt.claimed.token))
        if not self._running and self._all_ended is not None:
            self._all_ended.set()
            self._all_ended = None

    def obey(self, request: Request) -> bool:
        """Ask the handler of this claim to end; what it answers from now on counts for nothing. False: it does not run here."""
        attempt = self._running.get(request.id)
        if attempt is None or attempt.claimed.token != request.token:
            return False
        attempt.obey(request)
        return True

    def cancel_all(self, reason: CancelReason) -> None:
        """Ask every handler to end."""
        for attempt in self.all:
            attempt.cancel(reason)

    def abandon(self) -> None:
        """Wait no longer for those that still run."""
        for attempt in self.all:
            attempt.abandon()

    async def wait_ended(self, seconds: float) -> bool:
        """Wait until no handler runs; False if some still did after so many seconds."""
        with anyio.move_on_after(seconds):
            while self._running and seconds > 0:
                self._all_ended = self._all_ended or asyncio.Event()
                await self._all_ended.wait()
        return not self._running

    def report_stuck(self) -> None:
        """Report, once each, the handlers that go on although they should have ended."""
        for attempt in self._running.values():
            key = (attempt.claimed.id, attempt.claimed.token)
            if attempt.overdue_seconds >= STUCK_SECONDS and key not in self._reported:
                self._reported.add(key)
                reason = attempt.cancel_reason or "timeout"
                self._events.emit(
                    HandlerStuck(
                        job_id=key[0],
                        type=attempt.claimed.type,
                        since_seconds=attempt.overdue_seconds,
                        reason=reason,
                        hook=attempt.in_hook,
                    )
                )
