"""Sleep of one task, until it is woken or an instant has come.

A timer is kept from one sleep to the next, as long as it rings early enough: who sleeps between any two of many small events, and
never for as long as he might, would make and cancel one each time. So a sleep may end early, for an instant that was asked for
before. A wake-up counts only while the task sleeps: it looks at everything before, and does not wait in between.
"""

import asyncio
import time
from math import inf


class Alarm:
    """Wakes its one sleeper."""

    def __init__(self) -> None:
        self.is_asleep = False
        self._sleeper: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf

    async def sleep(self, until: float) -> None:
        """Until `wake` is called, and not beyond this instant of the monotonic clock."""
        loop = asyncio.get_running_loop()
        if until < self._rings_at:
            self.close()
            self._rings_at = until
            self._timer = loop.call_later(until - time.monotonic(), self._ring)
        self._sleeper = loop.create_future()
        self.is_asleep = True
        try:
            await self._sleeper
        finally:
            self.is_asleep = False

    def wake(self) -> None:
        """End the sleep, if there is one. Who calls this for each of many may look first whether it is `is_asleep`."""
        if self.is_asleep and self._sleeper is not None and not self._sleeper.done():
            self.is_asleep = False
            self._sleeper.set_result(None)

    def _ring(self) -> None:
        self._timer, self._rings_at = None, inf
        self.wake()

    def close(self) -> None:
        """Let no timer run any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = None, inf
