"""Signals: `jobs.run()` is told by them to stop. A start only looks at them; one is handled otherwise while a runner is entered.

Several runs in one process are told by the same signals, in whatever order they came and end: what was handled before the first
is handled again after the last.

Under `asyncio.run` a first Ctrl-C cancels the main task, and a second one raises KeyboardInterrupt wherever the main thread just
is: in the first step of a stop, in an outcome's write, in the loop between taking a callback and calling it. What it struck never
went on: jobs stayed `processing`, and threads went on into the interpreter's exit, where nothing is safe. So while a runner is
entered a second Ctrl-C cuts the grace of its stop short (or begins a stop without one), and raises nothing. A third one is
Python's again.

A child that is forked while jobs run has the signals' handlers and the loop's wake-up socket of its parent: a SIGTERM for the
child came out of that socket in the parent, which stopped, and the child lived on. So in such a child signals are as in a new
process. Handlers are put back only if they are those of `jobs.run()` or of a uvicorn; an application's own stay.
"""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, cast

from asyncjobs.errors import DatabaseUnavailable, UsageError

_NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)
_LOOK_SECONDS: Final = 0.1

#: Called at once for each signal that `handled` handles, even while the loop is blocked. For who owns the process.
at_once: ContextVar[Callable[[], None] | None] = ContextVar("at_once", default=None)


class _Block(NamedTuple):
    """One block of `handled`."""

    on_signal: Callable[[], None]
    tells: Sequence[Callable[[], None]]  # at once


_handling: Final[list[_Block]] = []
_before: Final[dict[signal.Signals, Any]] = {}  # Python's handlers outside of all of them
_running: Final[list[object]] = []  # those of `children_apart`


@contextmanager
def children_apart() -> Generator[None]:
    """Children that are forked within the block mind signals by themselves."""
    mark = object()
    _running.append(mark)
    try:
        yield
    finally:
        _running.remove(mark)


def _put_back() -> None:
    """In a forked child."""
    if _running:
        with suppress(ValueError):  # not the main interpreter's
            signal.set_wakeup_fd(-1)
            for number, default in ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
                if _handling or _is_uvicorn(getattr(signal.getsignal(number), "__self__", None)):
                    signal.signal(number, default)
    _handling.clear()


def _is_uvicorn(server: object) -> bool:
    return hasattr(server, "should_exit") and hasattr(server, "force_exit")


os.register_at_fork(after_in_child=_put_back)


@contextmanager
def handled(on_signal: Callable[[], None], *, noted: Callable[[], None] | None = None) -> Generator[None]:
    """Call back in the loop for each SIGTERM and SIGINT; afterwards they are handled as before. UsageError in another thread.

    `noted` is called at once, even while the loop is blocked.
    """
    loop = asyncio.get_running_loop()
    try:
        if not _handling:
            _before.update({number: signal.getsignal(number) for number in _NUMBERS})
        for number in _NUMBERS:
            loop.add_signal_handler(number, _hear)
            signal.signal(number, _tell)  # the loop hears of it by a socket, whatever Python's handler is
    except (ValueError, RuntimeError):
        raise UsageError(
            "jobs.run() handles signals, which only the main thread can: use `async with jobs.runner()` in others."
        ) from None
    block = _Block(on_signal, [tell for tell in (at_once.get(), noted) if tell is not None])
    _handling.append(block)
    try:
        yield
    finally:
        with suppress(ValueError):  # a forked child has none of its parent's
            _handling.remove(block)
        for number, handler in () if _handling else tuple(_before.items()):
            loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)


def _hear() -> None:
    for block in tuple(_handling):
        block.on_signal()


def _tell(number: int, frame: object) -> None:
    del number, frame
    for block in tuple(_handling):
        for tell in block.tells:
            tell()


class _Interrupts:
    """Python's handler of SIGINT for as long as runners are entered under `asyncio.run`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, before: Callable[[int, object], object]) -> None:
        self._loop = loop
        self._before = before  # asyncio's
        self._count = 0
        self.hurries: list[Callable[[], None]] = []

    def __call__(self, number: int, frame: object) -> None:
        self._count += 1
        if self._count == 2 and self.hurries and not self._loop.is_closed():  # noqa: PLR2004 - the second
            self._loop.call_soon_threadsafe(self._hurry)
        else:
            self._before(number, frame)

    def _hurry(self) -> None:
        for hurry in tuple(self.hurries):
            hurry()

    def put_back(self) -> None:
        """Undo it, if nobody has put a handler of theirs there. asyncio's is that of one `run`: that may be over by now."""
        before: Any = self._before
        if before.keywords["main_task"].done():
            before = signal.default_int_handler
        if signal.getsignal(signal.SIGINT) is self:
            signal.signal(signal.SIGINT, before)


@contextmanager
def interrupted_in_order(hurry: Callable[[], None]) -> Generator[None]:
    """Call `hurry` in the loop for a second Ctrl-C within the block. It changes nothing but under `asyncio.run`."""
    before: Any = signal.getsignal(signal.SIGINT)
    is_ours = isinstance(before, _Interrupts)
    if threading.current_thread() is not threading.main_thread() or not (is_ours or _is_asyncios(before)):
        yield
        return
    interrupts: _Interrupts = before if is_ours else _Interrupts(asyncio.get_running_loop(), before)
    interrupts.hurries.append(hurry)
    signal.signal(signal.SIGINT, interrupts)
    try:
        yield
    finally:
        interrupts.hurries.remove(hurry)
        if not interrupts.hurries:
            interrupts.put_back()


def _is_asyncios(handler: object) -> bool:
    return getattr(getattr(handler, "func", None), "__qualname__", None) == "Runner._on_sigint" and "main_task" in getattr(
        handler, "keywords", {}
    )


@asynccontextmanager
async def heeding_the_server() -> AsyncGenerator[None]:
    """End the block with DatabaseUnavailable when the server that this is the start-up of is told to exit meanwhile.

    A uvicorn that gets a signal then waits for the end of the start-up, and tells the app by no other way.
    """
    task = cast("asyncio.Task[None]", asyncio.current_task())
    gave_up = False

    async def watch() -> None:
        nonlocal gave_up
        await _wait_flag("should_exit")
        gave_up = True
        task.cancel()

    watching = asyncio.get_running_loop().create_task(watch(), name="asyncjobs start")
    try:
        yield
    except asyncio.CancelledError:
        if gave_up and not task.uncancel():
            raise DatabaseUnavailable("the server was told to exit before the database had answered.") from None
        raise
    finally:
        watching.cancel()


@contextmanager
def hurried_by_the_server(hurry: Callable[[], Awaitable[None]]) -> Generator[None]:
    """Call `hurry` when the server is told again to exit while it waits for the block. Uvicorn minds a second SIGINT so."""

    async def watch() -> None:
        await _wait_flag("force_exit")
        await hurry()

    watching = asyncio.get_running_loop().create_task(watch(), name="asyncjobs stop")
    try:
        yield
    finally:
        watching.cancel()


async def _wait_flag(what: str) -> None:
    """Wait until the uvicorn that serves us, if one does, has been told so."""
    while True:
        server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        if getattr(server, what, False) is True:
            return
        await asyncio.sleep(_LOOK_SECONDS)  # it has no event to wait for
