"""How many jobs a runner may still start, where that was said (`run(max_jobs=…)`): never one more.

1. A scan asks for no more than what is left, and takes that for as long as it is under way; what it did not bring, or brought and
   did not start, is given back, and every coordinator looks whether it is one that went without.
2. A runner with a budget claims nothing ahead, and its actors of keys claim nothing: the coordinators alone spend it.
3. It is spent when so many have started. An attempt that found that it must not begin any more has started, too.
"""

import asyncio
from collections.abc import Callable


class Budget:
    """One runner's, in its loop."""

    def __init__(self, most: int) -> None:
        self.left = most
        self._unspent = most
        self.spent = asyncio.Event()  # as many have started as may
        self._watching: list[Callable[[], object]] = []

    def watch(self, look: Callable[[], object]) -> None:
        """Look again when something is given back."""
        self._watching.append(look)

    def take(self, count: int) -> int:
        """Take so many, or what is left; how many these are."""
        taken = min(count, self.left)
        self.left -= taken
        return taken

    def give_back(self, count: int) -> None:
        """So many that were taken have not started."""
        self.left += count
        if count:
            for look in self._watching:
                look()

    def started(self, count: int) -> None:
        """So many that were taken have."""
        self._unspent -= count
        if not self._unspent:
            self.spent.set()
