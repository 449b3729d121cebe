"""Which app a job type means: the current attempt's, else the one open app of this process that includes the type."""

import asyncio
import os
from collections.abc import Sequence
from threading import current_thread
from typing import TYPE_CHECKING

from asyncjobs.context import current
from asyncjobs.errors import AmbiguousApp, NotIncluded, NotOpen, UsageError, WouldBlock, WrongLoop
from asyncjobs.in_memory import keeper

if TYPE_CHECKING:
    from asyncjobs.app import AsyncJobs
    from asyncjobs.handlers import Handler
    from asyncjobs.router import JobRouter

#: The apps that are open in this process, in the order in which they were opened.
_open: list["AsyncJobs"] = []


def opened(app: "AsyncJobs") -> None:
    """Take note that the app is open."""
    if app not in _open:
        _open.append(app)


def closed(app: "AsyncJobs") -> None:
    """Take note that the app is closed."""
    if app in _open:
        _open.remove(app)


def open_apps() -> Sequence["AsyncJobs"]:
    """The apps that are open here: not those that a parent process had opened when it forked this one."""
    return [app for app in _open if app.opened_in == os.getpid()]


def app_for(handler: "Handler", router: "JobRouter") -> "AsyncJobs":
    """The app that this job type's enqueue goes to. NotIncluded, NotOpen or AmbiguousApp say what to write."""
    context = current.get()
    if context is not None and context.jobs.includes(handler):
        return context.jobs
    kept = keeper.get()
    if kept is not None and kept.app.includes(handler):
        return kept.app
    candidates = [app for app in open_apps() if app.includes(handler)]
    if len(candidates) == 1:
        return candidates[0]
    raise _ambiguous(handler, candidates) if candidates else _nowhere(handler, router)


def _ambiguous(handler: "Handler", candidates: Sequence["AsyncJobs"]) -> UsageError:
    schemas = ", ".join(app.settings.schema for app in candidates)
    call = f"jobs.enqueue({handler.function_name}.new(...))"
    return AmbiguousApp(f'job "{handler.name}" is in {_number(len(candidates))} open AsyncJobs ({schemas}): write {call}.')


def _number(count: int) -> str:
    return "two" if count == 2 else str(count)  # noqa: PLR2004 - a word for a message


def _nowhere(handler: "Handler", router: "JobRouter") -> UsageError:
    includers = router.declarations.apps()
    if not includers:
        place = router.variable or "router"
        return NotIncluded(
            f'job "{handler.name}" belongs to a JobRouter ({router.declared_at}) that no AsyncJobs includes: '
            f"AsyncJobs(routers=[{place}])."
        )
    return not_open(f'"{handler.name}" was enqueued', next(iter(includers)))


def not_open(what: str, app: "AsyncJobs") -> NotOpen:
    """NotOpen in the words that suit the app's state: never opened, closed again, or opened before a fork."""
    if app.opened_in is not None and app.opened_in != os.getpid():
        return NotOpen(
            f"{what} in process {os.getpid()}, a fork of process {app.opened_in}, which had opened AsyncJobs: "
            "connections do not survive a fork, open it in this process."
        )
    if app.opened_in is not None:
        return NotOpen(f"{what} after the event loop that AsyncJobs was opened in had ended: open it again in this loop.")
    when = "after AsyncJobs was closed" if app.was_opened else "before AsyncJobs was opened"
    return NotOpen(
        f"{what} {when}. Use lifespan=jobs.lifespan or `async with jobs:`. "
        "Lifespans do not run for mounted sub-apps nor under httpx.ASGITransport."
    )


def check_loop(loop: asyncio.AbstractEventLoop, opened_in_thread: str) -> None:
    """WrongLoop unless this is the loop that the app was opened in."""
    running = _running_loop()
    if running is not loop:
        here = "no event loop" if running is None else f"loop {id(running):#x}"
        raise WrongLoop(
            f"opened in loop {id(loop):#x} of thread {opened_in_thread}, used from {here} of thread {current_thread().name}: "
            "use enqueue_sync there."
        )


def check_may_block(loop: asyncio.AbstractEventLoop, call: str) -> None:
    """WouldBlock in the event loop's own thread."""
    if _running_loop() is loop:
        raise WouldBlock(f"enqueue_sync called in the event loop's own thread would block it: {call}.")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
