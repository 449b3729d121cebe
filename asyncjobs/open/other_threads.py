"""What a thread without the app's event loop does with the app: it has something awaited in that loop, and waits for it.

    job = wait_in(loop, lambda: jobs.get(17), ...)

1. In the loop's own thread that would wait for itself: WouldBlock, with what to write instead.
2. Context variables of the thread are seen in the loop: the current attempt, a test's captured jobs.
3. An exception that strikes the waiting thread (KeyboardInterrupt) cancels what is awaited.
4. A loop that ends meanwhile never answers: the waiting thread is told so (NotOpen), within a second.

In a fork the parent's loop never goes on, and what waited in it is never collected (`never_collected`): a coroutine that is
thrown away runs its `finally`, and would close connections that are the parent's.

Where a test keeps the jobs in memory there may be no loop that runs: then it is awaited in one of the thread's own
(`wait_wherever`).

`without_loop` is for coroutines that wait for nothing: they need no loop at all, and do not keep one from turning.
"""

import asyncio
import concurrent.futures
import ctypes
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from asyncjobs.errors import NotOpen, UsageError, WouldBlock

T = TypeVar("T")

_LOOK_SECONDS: Final = 1.0


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that the caller runs in, if it does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def check_may_block(loop: asyncio.AbstractEventLoop, call: str, *, what: str = "enqueue_sync") -> None:
    """WouldBlock in the event loop's own thread."""
    if running_loop() is loop:
        raise WouldBlock(f"{what} called in the event loop's own thread would block it: {call}.")


def wait_in(loop: asyncio.AbstractEventLoop, awaited: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What comes of it in this loop, which is another thread's."""
    coroutine = awaited()
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:
        coroutine.close()
        raise _ended() from None
    try:
        while not concurrent.futures.wait([future], timeout=_LOOK_SECONDS).done and not loop.is_closed():
            pass
    except BaseException:
        future.cancel()
        raise
    if not future.done():
        coroutine.close()
        raise _ended()
    if future.cancelled():
        raise _ended()
    return future.result()


def never_collected(loop: asyncio.AbstractEventLoop, *others: object) -> None:
    """In a fork: keep the parent's loop, all that waits in it, and these, also at the interpreter's end."""
    for kept in (loop, *others, *asyncio.all_tasks(loop)):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def wait_wherever(
    loop: asyncio.AbstractEventLoop | None, call: str, what: str, awaited: Callable[[], Coroutine[Any, Any, T]]
) -> T:
    """What comes of it in this loop if it runs, in another thread, else in one of the thread's own. WouldBlock where one runs, as
    of `check_may_block`.
    """
    if loop is not None and loop.is_running() and running_loop() is not loop:
        return wait_in(loop, awaited)
    if (running := running_loop()) is not None:
        check_may_block(running, call, what=what)
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(awaited())


def _ended() -> NotOpen:
    return NotOpen("the event loop that AsyncJobs was opened in has ended: what was asked of it may have been done, or not.")


def without_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """What comes of it, here and now. What waits in it for something gets a UsageError there."""
    try:
        waits_for = coroutine.send(None)
        while True:
            if waits_for is None:  # a turn for others, of whom there are none
                waits_for = coroutine.send(None)
            else:
                waits_for = coroutine.throw(
                    UsageError("it waits for something, which it cannot round an enqueue_sync on a connection: no loop runs it.")
                )
    except StopIteration as end:
        result: T = end.value
        return result
