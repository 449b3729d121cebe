"""Waiting for something to become true, without a bare sleep."""

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

T = TypeVar("T")


@overload
async def eventually(
    predicate: Callable[[], Coroutine[Any, Any, T]], *, description: str, timeout: float = 5.0, interval: float = 0.01
) -> T: ...
@overload
async def eventually(predicate: Callable[[], T], *, description: str, timeout: float = 5.0, interval: float = 0.01) -> T: ...
async def eventually(predicate: Callable[[], Any], *, description: str, timeout: float = 5.0, interval: float = 0.01) -> Any:
    """The predicate's first true answer. Fails after `timeout` seconds, saying what was awaited and the last answer.

    The predicate may be a coroutine function. It is asked at least once after the time is over, so that a slow machine does not
    fail what a fast one would pass.
    """
    ends = time.monotonic() + timeout
    while True:
        late = time.monotonic() >= ends
        answer = predicate()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if late:
            raise AssertionError(f"not within {timeout:g} s: {description} (last answer: {answer!r})")
        await asyncio.sleep(interval)
