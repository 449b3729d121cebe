"""An app that plain threads open: `with jobs.sync():`, to enqueue, to wait and to look, where no event loop is.

1. The app is opened in an event loop in a thread of its own, one for all who enter, whatever threads they are.
2. An app that is open already, in whatever loop, is entered once more there. Opens are counted together: the last one that
   leaves, synchronous or not, closes the app.
3. The thread ends with the last who leaves it. Entered again, the app gets another.
4. What the open raises is raised from entering, and no thread stays. An exception in the block closes as its end does.
5. A fork has none of it: there the app is not open, can be opened anew, and leaving what was entered before the fork does
   nothing. What waited in the parent's loop is never collected there.
6. What is still entered when the interpreter exits is left then.
7. Nobody enters or leaves in an event loop's own thread, which it would block: WouldBlock.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final
from weakref import WeakSet

from asyncjobs.errors import WouldBlock
from asyncjobs.open.lifecycle import Lifecycle
from asyncjobs.open.other_threads import never_collected, running_loop, wait_in

_LAST_SECONDS: Final = 5.0


class SyncOpens:
    """Who has entered one app from plain threads."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._turn = threading.Lock()
        self._own: _LoopThread | None = None
        self._entered_own = 0
        _all.add(self)

    @contextmanager
    def entered(self) -> Generator[None]:
        """The app, open for as long as the block."""
        if running_loop() is not None:
            raise WouldBlock("jobs.sync() entered in an event loop's own thread would block it: async with jobs.")
        pid = os.getpid()
        with self._turn:
            loop = self._enter()
        try:
            yield
        finally:
            if pid == os.getpid():
                with self._turn:
                    self._leave(loop)

    def _enter(self) -> asyncio.AbstractEventLoop:
        opened = self._lifecycle.opened
        if self._own is None and opened is not None and opened.pid == os.getpid() and not opened.loop.is_closed():
            wait_in(opened.loop, self._lifecycle.enter)
            return opened.loop
        own = self._own
        if own is None:
            own = self._own = _LoopThread()
            atexit.register(self._leave_all)
        try:
            wait_in(own.loop, self._lifecycle.enter)
        except BaseException:
            self._end_if_unused()
            raise
        self._entered_own += 1
        return own.loop

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop.is_closed():  # with everything that was open in it
            return
        try:
            wait_in(loop, self._lifecycle.leave)
        finally:
            if self._own is not None and self._own.loop is loop:
                self._entered_own -= 1
                self._end_if_unused()

    def _end_if_unused(self) -> None:
        if self._own is not None and self._entered_own == 0:
            self._own.end()
            self._own = None
            atexit.unregister(self._leave_all)

    def _leave_all(self) -> None:
        with suppress(Exception):
            while self._own is not None:
                self._leave(self._own.loop)

    def forget(self) -> None:
        """In a fork: the thread is the parent's, and so may the turn be."""
        if self._own is not None:
            never_collected(self._own.loop)
        self._turn = threading.Lock()
        self._own, self._entered_own = None, 0


_all: Final["WeakSet[SyncOpens]"] = WeakSet()


def _forget_all() -> None:
    for one in _all:
        one.forget()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_all)


class _LoopThread:
    """A thread that runs an event loop until it is told to end. The interpreter does not wait for it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="asyncjobs sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._wait_over())

    async def _wait_over(self) -> None:
        await self._over.wait()

    def end(self) -> None:
        """End it, and wait for that."""
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_LAST_SECONDS)
