"""The one loop of every service: interval, jitter, back-off after errors, wake-ups, a signal for tests, and health.

A service does the same small thing again and again. What may happen, in this order:

1. A pass runs. It returns the seconds until the next one, or None for the service's interval (with ±10 % jitter, so that the
   runners of a fleet drift apart). A delay that the pass names is kept to the millisecond: due times depend on it.
2. A `wake()` while the pass runs is not lost: the next pass follows at once. The loop compares a counter that it read
   *before* the pass; a flag that is cleared after the pass would forget what came in between (P6).
3. A pass that raises is reported as `ServicePassFailed` and tried again after 0.1 s, 0.2 s, 0.4 s … up to the smaller of 30 s
   (a service may say less) and the interval. Wake-ups do not shorten that wait (a database that is down would be asked once per
   enqueue), they are served after it. Nothing that a pass raises ends the loop: a service that died would be missed only when
   its work is. A cancellation that leaked out of something the pass awaited, and a SystemExit, are errors of the pass.
4. A cancellation of the loop's own task ends it at the await where it arrives, and nothing else does, unless the pass says
   `stop()`.

Health: `turned_at` is when the loop last ended a pass, well or badly; `failures` counts the bad ones since the last good one.
"""

import asyncio
import time
from collections.abc import Callable
from typing import ClassVar

from asyncjobs.errors import is_meant
from asyncjobs.model.chance import CHANCE
from asyncjobs.telemetry.events import Events, ServicePassFailed

_FIRST_BACKOFF_SECONDS = 0.1


def backoff_seconds(failures: int, maximum_seconds: float, chance: float) -> float:
    """The wait after the nth failure in a row: doubling from 0.1 s up to the maximum; `chance` (0…1) takes up to a half off."""
    doubled = _FIRST_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 16)
    return min(doubled, maximum_seconds) * (1.0 - chance / 2)


class Service:
    """A loop around `pass_`. It runs as a part (`runtime/parts.py`); cancel its task to end it."""

    name: ClassVar[str]
    longest_backoff_seconds: ClassVar[float] = 30.0

    def __init__(
        self,
        *,
        events: Events,
        interval_seconds: float,
        monotonic: Callable[[], float] | None = None,
        chance: Callable[[], float] = CHANCE.random,
    ) -> None:
        self.events = events
        self.interval_seconds = interval_seconds
        self.started_passes = 0
        self.passes = 0  # passes that ended, well or badly
        self.failures = 0  # in a row
        self.turned_at: float | None = None
        self._monotonic = monotonic or time.monotonic
        self._chance = chance
        self._version = 0
        self._wake_at = float("inf")
        self._changed = asyncio.Event()
        self._turned: asyncio.Event | None = None  # while a task waits for the end of a pass
        self._stopped = False

    @property
    def title(self) -> str:
        """What it is called where it is told of."""
        return self.name

    async def pass_(self) -> float | None:
        """One pass. The answer is the seconds until the next one; None means the interval."""
        raise NotImplementedError

    async def _do(self) -> float | None:
        return await self.pass_()

    def wake(self) -> None:
        """Start a pass now, or right after the one that runs. A plain function for the loop's own thread; many calls are one."""
        self._version += 1
        self._changed.set()

    def wake_within(self, seconds: float) -> None:
        """Start a pass in `seconds` at the latest. Costs nothing when one is planned before."""
        at = self._monotonic() + max(seconds, 0.0)
        if at < self._wake_at:
            self._wake_at = at
            self._changed.set()

    def stop(self) -> None:
        """Let the loop end instead of waiting for its next pass. For a pass that found its service has nothing left to do."""
        self._stopped = True
        self._changed.set()

    @property
    def turn_age_seconds(self) -> float | None:
        """Seconds since a pass ended; None before the first."""
        return None if self.turned_at is None else self._monotonic() - self.turned_at

    async def wait_passed(self) -> None:
        """Wait until a pass that started after this call has ended. What tests await instead of sleeping."""
        wanted = self.started_passes + 1
        while self.passes < wanted:
            if self._turned is None:
                self._turned = asyncio.Event()
            await self._turned.wait()

    async def run(self) -> None:
        """Do passes until cancelled."""
        while not self._stopped:
            seen = self._version
            now = self._monotonic()
            if self._wake_at <= now:
                self._wake_at = float("inf")
            delay = await self._turn()
            await self._wait(self._monotonic() + delay, seen)

    async def _turn(self) -> float:
        self.started_passes += 1
        try:
            answer = await self._do()
        except BaseException as error:
            if is_meant(error):
                raise
            self.failures += 1
            self.events.emit(ServicePassFailed(service=self.title, error=error, failures=self.failures))
            delay = backoff_seconds(self.failures, min(self.longest_backoff_seconds, self.interval_seconds), self._chance())
        else:
            self.failures = 0
            delay = self.interval_seconds * (0.9 + 0.2 * self._chance()) if answer is None else answer
        self._end_turn()
        return delay

    def _end_turn(self) -> None:
        self.passes += 1
        self.turned_at = self._monotonic()
        if self._turned is not None:
            self._turned.set()
            self._turned = None

    async def _wait(self, at: float, seen: int) -> None:
        backing_off = self.failures > 0
        has_waited = False
        while not self._stopped:
            if self._version != seen and not backing_off:
                break
            remaining = (at if backing_off else min(at, self._wake_at)) - self._monotonic()
            if remaining <= 0:
                break
            self._changed.clear()
            timer = asyncio.get_running_loop().call_later(remaining, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                timer.cancel()
            has_waited = True
        if not has_waited:  # a pass that never really waits and a loop that never pauses would starve the other tasks
            await asyncio.sleep(0)
