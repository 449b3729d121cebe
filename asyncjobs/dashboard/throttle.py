"""How many wrong tokens an address may send: ten a minute, in this process; then it is refused, right ones included.

A session goes on meanwhile, since its cookie is no guess. Behind a proxy the address is the proxy's, unless the server is told to
believe its headers (`uvicorn --proxy-headers`).
"""

import time
from collections import OrderedDict
from typing import Final

from asyncjobs.dashboard.problems import Refused

MOST_WRONG: Final = 10
_SECONDS: Final = 60.0
_MOST_ADDRESSES: Final = 4_096


class TooManyTokens(Refused):
    """So many wrong tokens came from there that none is looked at. `.seconds`: for how long."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, round(seconds))
        super().__init__(429, f"Too many wrong tokens came from here. Try again in {self.seconds} s.")


class Throttle:
    """Counts wrong tokens by address."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, tuple[float, int]] = OrderedDict()  # since when, and how many

    def check(self, address: str) -> None:
        """TooManyTokens when no more are taken from there."""
        since, count = self._wrong.get(address, (0.0, 0))
        left = since + _SECONDS - time.monotonic()
        if count >= MOST_WRONG and left > 0:
            raise TooManyTokens(left)

    def wrong(self, address: str) -> int:
        """Take note of a wrong token; how many it is within the minute."""
        now = time.monotonic()
        since, count = self._wrong.pop(address, (now, 0))
        if now - since >= _SECONDS:
            since, count = now, 0
        self._wrong[address] = since, count + 1
        if len(self._wrong) > _MOST_ADDRESSES:
            self._wrong.popitem(last=False)
        return count + 1
