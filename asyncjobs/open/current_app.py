"""Which app a job type means: the current attempt's, else the one open app of this process that includes the type.

In a test without a database something else may stand in an app's place, and keep in memory what is enqueued (`Keeper`).
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from threading import current_thread
from typing import Final, Protocol

from asyncjobs.context import current
from asyncjobs.declare.definition import JobDefinition
from asyncjobs.declare.registry import Declarations
from asyncjobs.errors import AmbiguousApp, NotIncluded, NotOpen, UsageError, WrongLoop
from asyncjobs.open.other_threads import running_loop
from asyncjobs.open.owning_app import Breaker, Keeper, OwningApp


class Router(Protocol):
    """Where a job type or a circuit breaker was declared."""

    @property
    def declarations(self) -> Declarations:
        """What was declared there, and who includes it."""
        ...

    @property
    def declared_at(self) -> str:
        """Where the router was made, as file:line."""
        ...

    @property
    def variable(self) -> str | None:
        """`module.name` of the module's variable that holds it."""
        ...


#: The apps that are open in this process, in the order in which they were opened: a fork has none.
_open: list[OwningApp] = []
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_open.clear)


def opened(app: OwningApp) -> None:
    """Take note that the app is open."""
    if app not in _open:
        _open.append(app)


def closed(app: OwningApp) -> None:
    """Take note that the app is closed."""
    if app in _open:
        _open.remove(app)


def open_apps() -> Sequence[OwningApp]:
    """The apps that are open here: not those that a parent process had opened when it forked this one."""
    return tuple(_open)


def app_for(definition: JobDefinition, router: Router) -> OwningApp:
    """The app that this job type's enqueue goes to. NotIncluded, NotOpen or AmbiguousApp say what to write."""
    if len(_open) == 1 and current.get() is None and keeper.get() is None:  # as it nearly always is: asked by each enqueue
        [app] = _open
        if app.includes(definition):
            return app
    candidates = _candidates(lambda app: app.includes(definition))
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise _ambiguous(f'job "{definition.name}"', candidates, f"write jobs.enqueue({definition.function_name}.new(...))")
    raise _nowhere(f'job "{definition.name}"', f'"{definition.name}" was enqueued', router)


def app_of_connection(definition: JobDefinition, router: Router) -> OwningApp:
    """The app that an enqueue on a caller's synchronous connection goes to: as for others, and where none is open, the only one
    that includes the type, since it needs nothing that is open. NotIncluded, AmbiguousApp.
    """
    candidates = _candidates(lambda app: app.includes(definition))
    which = "open AsyncJobs"
    if not candidates:
        candidates, which = router.declarations.apps(), "AsyncJobs"
    if len(candidates) == 1:
        return candidates[0]
    what = f'job "{definition.name}"'
    if candidates:
        remedy = f"write jobs.enqueue_sync({definition.function_name}.new(...), connection=...)"
        raise _ambiguous(what, candidates, remedy, which=which)
    raise _nowhere(what, f'"{definition.name}" was enqueued', router)


def app_of_breaker(breaker: Breaker, router: Router) -> OwningApp:
    """The app that this circuit breaker works for. NotIncluded, NotOpen, AmbiguousApp."""
    candidates = _candidates(lambda app: app.includes_breaker(breaker))
    if len(candidates) == 1:
        return candidates[0]
    what = f'circuit breaker "{breaker.service}"'
    if candidates:
        raise _ambiguous(what, candidates, "declare one for each, or open one of them")
    raise _nowhere(what, f"{what} was used", router)


def _candidates(includes: Callable[[OwningApp], bool]) -> Sequence[OwningApp]:
    context = current.get()
    if context is not None and includes(context.jobs):
        return [context.jobs]
    kept = keeper.get()
    if kept is not None and includes(kept.app):
        return [kept.app]
    return [app for app in open_apps() if includes(app)]


def _ambiguous(what: str, candidates: Sequence[OwningApp], remedy: str, *, which: str = "open AsyncJobs") -> UsageError:
    schemas = ", ".join(app.settings.schema for app in candidates)
    return AmbiguousApp(f"{what} is in {_number(len(candidates))} {which} ({schemas}): {remedy}.")


def _number(count: int) -> str:
    return "two" if count == 2 else str(count)  # noqa: PLR2004 - a word for a message


def _nowhere(what: str, happened: str, router: Router) -> UsageError:
    includers = router.declarations.apps()
    if not includers:
        place = router.variable or "router"
        return NotIncluded(
            f"{what} belongs to a JobRouter ({router.declared_at}) that no AsyncJobs includes: AsyncJobs(routers=[{place}])."
        )
    return not_open(happened, next(iter(includers)))


def not_open(what: str, app: OwningApp) -> NotOpen:
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
        f"{what} {when}. Use lifespan=jobs.lifespan or `async with jobs:`, without an event loop `with jobs.sync():`. "
        "Lifespans do not run for mounted sub-apps nor under httpx.ASGITransport, and with a TestClient only in "
        "`with TestClient(app):`."
    )


def check_loop(loop: asyncio.AbstractEventLoop, opened_in_thread: str, *, instead: str) -> None:
    """WrongLoop unless this is the loop that the app was opened in; it says what to do `instead`."""
    running = running_loop()
    if running is not loop:
        here = "no event loop" if running is None else f"loop {id(running):#x}"
        raise WrongLoop(
            f"opened in loop {id(loop):#x} of thread {opened_in_thread}, used from {here} of thread {current_thread().name}: "
            f"{instead}."
        )


#: What to do instead in another loop, or in a thread.
ENQUEUE_SYNC: Final = "use enqueue_sync there"
CLOSE_IT_THERE: Final = "close it there first, or enqueue with enqueue_sync"
AWAIT_IT_THERE: Final = "await it in that loop, from a thread with asyncio.run_coroutine_threadsafe(..., loop).result()"


#: Who keeps what the current task enqueues, and what tasks and threads that it starts do.
keeper: ContextVar[Keeper | None] = ContextVar("asyncjobs_keeper", default=None)


def keeper_of(app: OwningApp) -> Keeper | None:
    """Who keeps what is enqueued in this app; None: it is written."""
    kept = keeper.get()
    return kept if kept is not None and kept.app is app else app.memory


def refuse_in_memory(app: OwningApp, what: str) -> None:
    """UsageError, in words that begin with `what`, when a test keeps the app's jobs in memory, where there is no such thing."""
    if app.memory is not None:
        raise UsageError(
            f"{what}, but this test keeps jobs in memory (in_memory), which does not do that: use a database for it."
        )
