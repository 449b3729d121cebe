"""The time-out of a runner's coordinators: one timer, so that it rings for all of them in the same turn of the loop.

What they look for then is handed to the call line together, and a hundred idle queues cost one statement.
"""

import asyncio
from collections.abc import Callable


class Polling:
    """Rings after so many seconds, as often as a coordinator waits for it."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
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
        for ring in self._ring:
            ring()

    def close(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._ring.clear()
