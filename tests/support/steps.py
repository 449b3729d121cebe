"""Cancelling a coroutine at each of its awaits, one after the other.

    step = 1
    while await cancelled_at(step, enqueue):
        step += 1

Counted are the times it really waits. How often that is may differ from run to run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any


class _Counted(Awaitable[Any]):
    """Cancels the task that awaits it when the coroutine waits for the n-th time."""

    def __init__(self, step: int, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._step = step
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        inner = self._coroutine.__await__()
        waits = 0
        raised: BaseException | None = None
        while True:
            try:
                future = next(inner) if raised is None else inner.throw(raised)
            except StopIteration as stop:
                return stop.value
            waits += 1
            if waits == self._step:
                loop.call_soon(task.cancel)
            raised = None
            try:
                yield future
            except BaseException as error:  # noqa: BLE001 - it goes to the coroutine
                raised = error


async def cancelled_at(step: int, function: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
    """Whether the function waited so often: then it was cancelled there. Errors are its own."""

    async def run() -> None:
        await _Counted(step, function())

    task = asyncio.create_task(run())
    await asyncio.wait({task})
    if task.cancelled():
        return True
    task.result()
    return False
