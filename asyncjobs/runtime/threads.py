"""Threads for handlers that are plain functions.

Why not those of `concurrent.futures`, `asyncio.to_thread` or anyio: the interpreter waits for them before it exits. A handler
that cannot be interrupted would keep a process from ending for as long as it likes; these do not (P10).
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Threads:
    """As many threads as functions run at a time, used again. For one event loop; its user limits how many run."""

    def __init__(self) -> None:
        self._idle: list[_Thread] = []
        self._closed = False

    def run(self, function: Callable[[], T]) -> "asyncio.Future[T]":
        """Call a function that never raises, in a copy of the caller's context. Cancelling the future does not end it."""
        call = _Call(function)
        if not self._idle:
            thread = _Thread(self._free)
            thread.start()
        else:
            thread = self._idle.pop()
        thread.calls.put(call)
        return call.future

    def close(self) -> None:
        """End the threads that are idle, and each other as soon as its function has returned."""
        self._closed = True
        while self._idle:
            self._idle.pop().calls.put(None)

    def _free(self, thread: "_Thread") -> None:
        if self._closed:
            thread.calls.put(None)
        else:
            self._idle.append(thread)


class _Call(Generic[T]):
    """A function and where its result goes."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self._function = function
        self._context = contextvars.copy_context()

    def __call__(self) -> Callable[[], None]:
        """Call the function; what is to be done in the loop."""
        result = self._context.run(self._function)

        def answer() -> None:
            if not self.future.done():
                self.future.set_result(result)

        return answer


class _Thread(threading.Thread):
    def __init__(self, free: Callable[["_Thread"], None]) -> None:
        super().__init__(name="asyncjobs handler", daemon=True)
        self.calls: queue.SimpleQueue[_Call[Any] | None] = queue.SimpleQueue()
        self._free = free

    def run(self) -> None:
        while (call := self.calls.get()) is not None:
            answer = call()
            with suppress(RuntimeError):  # the loop is closed: no task waits
                call.loop.call_soon_threadsafe(answer)
                call.loop.call_soon_threadsafe(self._free, self)
            del call, answer  # else they would be kept until the next call


async def to_the_end(thread: "asyncio.Future[T]") -> tuple[T, asyncio.CancelledError | None]:
    """Wait for a thread's function however often this task is cancelled: the slot is not free while the function runs."""
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            answer = await asyncio.shield(thread)
        except asyncio.CancelledError as error:
            if thread.done():
                raise
            cancelled = error
            continue
        return answer, cancelled
