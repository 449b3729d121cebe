"""Waiting for something to become true, without a bare sleep, and giving up when it does not.

Patience is counted in turns of the waiter's own loop, and a turn counts for little more than it was meant to take. So a machine
that stands still for a while, or runs everything slowly, uses up none of it, and what never happens is given up all the same.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar, overload

T = TypeVar("T")

_TICK_SECONDS = 0.05


@overload
async def eventually(
    predicate: Callable[[], Coroutine[Any, Any, T]], *, description: str, timeout: float = 5.0, interval: float = 0.01
) -> T: ...
@overload
async def eventually(predicate: Callable[[], T], *, description: str, timeout: float = 5.0, interval: float = 0.01) -> T: ...
async def eventually(predicate: Callable[[], Any], *, description: str, timeout: float = 5.0, interval: float = 0.01) -> Any:
    """The predicate's first true answer. Fails after turns of `timeout` seconds, saying what was awaited and the last answer.

    The predicate may be a coroutine function. It is asked at least once after the time is over.
    """
    left = timeout
    while True:
        late, began = left <= 0, time.monotonic()
        answer = predicate()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if late:
            raise AssertionError(f"not within {timeout:g} s: {description} (last answer: {answer!r})")
        await asyncio.sleep(interval)
        left -= min(time.monotonic() - began, interval + _TICK_SECONDS)


@asynccontextmanager
async def patience(seconds: float) -> AsyncGenerator[None]:
    """Cancels its body, with TimeoutError, after so many seconds of turns: for what happens at once, or never."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as scope:
        ticks = iter(range(int(seconds / _TICK_SECONDS)))

        def tick() -> None:
            if next(ticks, None) is None:
                scope.reschedule(loop.time())
            else:
                handles[:] = [loop.call_later(_TICK_SECONDS, tick)]

        handles = [loop.call_later(_TICK_SECONDS, tick)]
        try:
            yield
        finally:
            handles[0].cancel()


class Stopwatch:
    """How long the loop has been turning since this was made: for bounds on what a stop, or an answer, may take."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = 0.0
        self._ticked_at = self._loop.time()
        self._ticking = self._loop.call_later(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._seconds += _TICK_SECONDS
        self._ticked_at = self._loop.time()
        self._ticking = self._loop.call_later(_TICK_SECONDS, self._tick)

    @property
    def seconds(self) -> float:
        """So far."""
        return self._seconds + min(self._loop.time() - self._ticked_at, _TICK_SECONDS)

    def stop(self) -> float:
        """The seconds, at the end."""
        self._ticking.cancel()
        return self.seconds
