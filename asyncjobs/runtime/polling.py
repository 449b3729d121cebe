"""The time-out of a runner's coordinators: one timer, so that it rings for all of them in the same turn of the loop.

What they look for then is handed to the call line together, and a hundred idle queues cost one statement.

Where notifications arrive, and other runners serve the same, it is enough when some of them look: each time the timer rings with
a chance of four in as many as they are, and the eighth time for certain. So up to four ring each time. Of more, at least one has
looked within the interval in 99 of 100 cases, and together they look 4 to 6 times an interval where 5 to 32 did, 14 times where
a hundred did. Runners that die are no peers any more at the next beats: then the others ring more often.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from asyncjobs.model.chance import CHANCE

#: Of all that serve the same, so many ring, in the mean.
LOOK_TOGETHER: Final = 4
#: At the latest, each time of so many.
MOST_TIMES: Final = 8


class Polling:
    """Rings after so many seconds, or a multiple, as often as a coordinator waits for it. `shared_by` so many runners."""

    def __init__(self, seconds: Callable[[], float], shared_by: Callable[[], int] = lambda: 1) -> None:
        self._seconds = seconds
        self._shared_by = shared_by
        self._passed_over = 0
        self._ring: dict[Callable[[], None], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, ring: Callable[[], None]) -> None:
        """Ring here, too. Twice is the same as once."""
        self._ring[ring] = None

    def begin(self) -> None:
        """A coordinator begins to wait."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds(), self._rings)

    def _rings(self) -> None:
        self._timer = None
        self._passed_over += 1
        if self._passed_over < MOST_TIMES and CHANCE.random() * self._shared_by() >= LOOK_TOGETHER:
            self.begin()
            return
        self._passed_over = 0
        for ring in self._ring:
            ring()

    def close(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._ring.clear()
