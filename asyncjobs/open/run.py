"""Running an app's jobs: from entering a block to leaving it, for the life of a web application, or until a signal.

What one runner serves are the queues and types that were asked for, out of those that there are.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, Protocol, cast

import msgspec

from asyncjobs.context import Attempting, DutyContext, JobContext, current
from asyncjobs.declare.definition import JobDefinition
from asyncjobs.declare.hooks import Hooks
from asyncjobs.declare.limit import declared_limits
from asyncjobs.declare.new_job import declared_types
from asyncjobs.declare.planned import takes_context
from asyncjobs.declare.registry import Declarations
from asyncjobs.errors import ConfigurationError, UnknownQueue, UnknownType
from asyncjobs.model.names import check_name, kind_of, shown
from asyncjobs.model.outcome import Duration
from asyncjobs.model.schedule import Schedule
from asyncjobs.open.lifecycle import Lifecycle
from asyncjobs.open.signals import children_apart, handled, heeding_the_server, hurried_by_the_server, interrupted_in_order
from asyncjobs.runner import Runner
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.budget import Budget
from asyncjobs.runtime.duty_set import DeclaredDuty
from asyncjobs.runtime.open_app import OpenApp, unavailable
from asyncjobs.runtime.runner_parts import RunnerPlan
from asyncjobs.runtime.stubs import Stubs
from asyncjobs.settings import Queue, Settings, config_count, config_seconds
from asyncjobs.store.failures import is_passing

#: What handlers get to end by themselves: in a lifespan, and in a process of their own.
GRACE_SECONDS: Final = 10.0
GRACE_SECONDS_IN_RUN: Final = 25.0


class RunningApp(Attempting, Protocol):
    """The app whose jobs are run."""

    async def __aenter__(self) -> object:
        """Open it to enqueue only."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        ...

    @property
    def settings(self) -> Settings:
        """Its settings."""
        ...

    @property
    def queues(self) -> dict[str, Queue]:
        """Its queues by name; those that a runner serves besides are added."""
        ...

    @property
    def handlers(self) -> Mapping[str, JobDefinition]:
        """Every job type, by name and by alias."""
        ...

    @property
    def hooks(self) -> Hooks:
        """Its hooks."""
        ...

    @property
    def schedules(self) -> Sequence[Schedule]:
        """Its schedules, once it is open."""
        ...

    @property
    def declarations(self) -> Declarations:
        """What was declared, its duties among it."""
        ...

    @property
    def lifecycle(self) -> Lifecycle:
        """How it is opened."""
        ...

    @property
    def runners(self) -> list[Runner]:
        """Those that run now, in this process."""
        ...


@asynccontextmanager
async def running(
    app: RunningApp,
    *,
    queues: Iterable[str | Queue] | None,
    types: Iterable[str] | None,
    grace: Duration | None,
    default_grace: float = GRACE_SECONDS,
    only_jobs: bool = False,
    max_jobs: int | None = None,
    name: str | None = None,
    stopping: Callable[[Callable[[], Awaitable[None]]], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> AsyncGenerator[Runner]:
    """Run jobs from entering to leaving; opens the app if it is not open. `stopping` is given a way to cut the grace short.

    With `only_jobs` the app's schedules and its own duties rest; with `max_jobs` it starts no more jobs than that.
    """
    chosen = served_queues(app.queues, queues)
    admit_to(app.queues, chosen)
    definitions = served_handlers(app.handlers, types)
    seconds = default_grace if app.settings.grace is None else app.settings.grace
    if name is not None:
        check_name("runner", name)
    if grace is not None:
        seconds = config_seconds(grace, name="grace")
    async with AsyncExitStack() as around:
        entered = around.enter_context(_hurried_by_interrupts())
        opened = await app.lifecycle.enter()
        around.push_async_callback(app.lifecycle.leave)
        around.enter_context(children_apart())
        declared = RunnerPlan(
            queues=chosen,
            handlers=definitions,
            stubs=Stubs(definitions, chosen, app.settings),
            schedules=() if only_jobs else app.schedules,
            hooks=app.hooks.attempt,
            open_context=partial(_open_context, app),
            duties=() if only_jobs else _duties(app),
            guarded={name: definition.breaker for name, definition in definitions.items() if definition.breaker is not None},
            listen=app.lifecycle.listening_database(opened.database),
            types=declared_types(definitions, app.queues, app.settings),
            limits=declared_limits(definitions, chosen),
            name=name,
            budget=None if max_jobs is None else Budget(max_jobs),
        )
        runner = Runner(opened, declared, grace=seconds)
        await _start(runner, opened)
        entered.append(runner)
        app.runners.append(runner)
        try:
            yield runner
        finally:
            try:
                with stopping(runner.stop):
                    await runner.stop()
            finally:
                app.runners.remove(runner)


@contextmanager
def _hurried_by_interrupts() -> Generator[list[Runner]]:
    """The runners that a second Ctrl-C has stop without grace: to be filled."""
    entered: list[Runner] = []
    hurrying: list[asyncio.Task[None]] = []

    def hurry() -> None:
        loop = asyncio.get_running_loop()
        hurrying.extend(loop.create_task(runner.stop(timeout=0), name="asyncjobs hurry") for runner in entered)

    with interrupted_in_order(hurry):
        yield entered


def _duties(app: RunningApp) -> list[DeclaredDuty]:
    planned = [one for one in app.declarations.all_planned() if one.what == "duty"]
    return [
        DeclaredDuty(one.name, one.details["every"], one.details["strategy"], _with_context(one.name, one.details["function"]))
        for one in planned
    ]


def _with_context(name: str, function: Callable[..., Awaitable[int | None]]) -> Callable[[DutyContext], Awaitable[int | None]]:
    return function if takes_context(name, function) else lambda _: function()


async def _start(runner: Runner, opened: OpenApp) -> None:
    try:
        await runner.start()
    except Exception as error:
        if is_passing(error):
            raise unavailable(opened.database, opened.settings, error) from error
        raise


@asynccontextmanager
async def lifespan(app: RunningApp, *, run: bool) -> AsyncGenerator[None]:
    """`running` in Starlette's shape, or without `run` the app open and no more. A uvicorn that is told to exit does not wait for
    a database that is away, nor, when it is told again, for handlers.
    """
    runs = partial(running, app, queues=None, types=None, grace=None, stopping=hurried_by_the_server)
    async with AsyncExitStack() as stack:
        async with heeding_the_server():
            await stack.enter_async_context(runs() if run else resting(app))
        yield


@asynccontextmanager
async def resting(app: RunningApp) -> AsyncGenerator[Any]:
    """The app open as `running` has it, and nothing that runs."""
    async with app:
        yield RestingRunner()


class RestingRunner:
    """Stands for a runner where nothing is to run: it has stopped when it was told to."""

    id = 0
    name = None
    queues: Sequence[str] = ()

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    def wake(self) -> None:
        """Nothing sleeps."""

    async def stop(self, *, timeout: Duration | None = None) -> None:
        """Nothing runs."""
        del timeout
        self._stopped.set()

    async def wait_stopped(self) -> None:
        """Wait until somebody has stopped it."""
        await self._stopped.wait()


def _open_context(app: RunningApp, attempt: Attempt) -> JobContext[RunningApp]:
    context = JobContext(jobs=app, attempt=attempt)
    current.set(context)
    return context


class Until(msgspec.Struct, frozen=True):
    """When a run ends by itself. Nothing given: never."""

    idle: bool = False  # there is nothing to do
    max_jobs: int | None = None  # so many were started, and have ended
    seconds: float | None = None  # since its start; what runs then has the grace

    def over(self, runner: Runner) -> list[Coroutine[Any, Any, object]]:
        """What to wait for: it ends with the first."""
        return [
            *([runner.idle.wait()] if self.idle else []),
            *([runner.idle.wait_spent()] if self.max_jobs is not None else []),
            *([asyncio.sleep(self.seconds)] if self.seconds is not None else []),
        ]


def check_until(until_idle: object, max_jobs: object, max_time: Duration | None) -> Until:
    """When the run is to end; ConfigurationError."""
    if not isinstance(until_idle, bool):
        raise ConfigurationError(f"until_idle={shown(until_idle)} is {kind_of(until_idle)}: give True or False.")
    seconds = None if max_time is None else config_seconds(max_time, name="max_time", positive=True)
    return Until(until_idle, None if max_jobs is None else config_count(max_jobs, name="max_jobs", least=1, most=10**9), seconds)


async def run_until_signal(
    app: RunningApp,
    *,
    queues: Iterable[str | Queue] | None,
    types: Iterable[str] | None,
    until: Until,
    name: str | None = None,
) -> None:
    """Run jobs until SIGTERM or SIGINT; a second one cuts the grace short. One that comes during the start ends the start.

    Or until it ends by itself, as `until` says; then as if there had been a signal. A run until nothing is to do leaves schedules
    and the app's own duties to others: it would not wait for their ticks.
    """
    loop = asyncio.get_running_loop()
    task = cast("asyncio.Task[None]", asyncio.current_task())
    asked = asyncio.Event()
    runners: list[Runner] = []
    hurrying: list[asyncio.Task[None]] = []

    def on_signal() -> None:
        if not asked.is_set() and not runners:
            task.cancel()
        elif asked.is_set() and runners:
            hurrying.append(loop.create_task(runners[0].stop()))
        asked.set()

    def noted() -> None:
        for runner in runners:
            runner.heartbeat.note_stop_signal()

    try:
        with handled(on_signal, noted=noted):
            async with running(
                app, queues=queues, types=types, grace=None, default_grace=GRACE_SECONDS_IN_RUN, only_jobs=until.idle,
                max_jobs=until.max_jobs, name=name,
            ) as runner:  # fmt: skip
                runners.append(runner)
                await _first(runner.wait_stopped(), asked.wait(), *until.over(runner))
    except asyncio.CancelledError:
        if runners or not asked.is_set() or task.uncancel():  # cancelled by somebody else, too
            raise


async def _first(*waiting: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them has ended; raises what it raised."""
    tasks = [asyncio.get_running_loop().create_task(one) for one in waiting]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


def served_queues(known: Mapping[str, Queue], asked: Iterable[str | Queue] | None) -> list[Queue]:
    """The queues to serve, all when none are asked for; a Queue asked for replaces its namesake, or is one more.

    `*` in a name stands for any text. UnknownQueue for a name that the app does not have.
    """
    if asked is None:
        return list(known.values())
    if isinstance(asked, str):
        raise ConfigurationError(f'queues="{asked}" is one text: write queues=["{asked}"].')
    served: dict[str, Queue] = {}
    for queue in asked:
        if isinstance(queue, str):
            served |= {name: known[name] for name in names_of(queue, known)}
        else:
            served[queue.name] = queue
    if not served:
        raise ConfigurationError("queues= is empty: leave it out to serve all queues.")
    return list(served.values())


def names_of(name: str, known: Mapping[str, Queue]) -> list[str]:
    """The queue of this name, or those that fit it: `*` stands for any text. UnknownQueue when there is none."""
    if name in known:
        return [name]
    fitting = [one for one in known if "*" in name and fnmatchcase(one, name)]
    if not fitting:
        raise UnknownQueue(name, known)
    return fitting


def admit_to(known: dict[str, Queue], served: Iterable[Queue]) -> None:
    """From now on jobs are enqueued to these, too: what a runner was given is known to the enqueues of its app."""
    for queue in served:
        namesake = known.setdefault(queue.name, queue)
        if not queue.lanes.keys() <= namesake.admitted.keys():
            namesake.admitted = {**queue.lanes, **namesake.admitted}


def served_handlers(known: Mapping[str, JobDefinition], asked: Iterable[str] | None) -> dict[str, JobDefinition]:
    """The handlers to run by name and by alias, all when no types are asked for; never a stub's.

    UnknownType for a name that the app does not have, ConfigurationError for a stub's.
    """
    runnable = {name: definition for name, definition in known.items() if not definition.is_stub}
    if asked is None:
        return runnable
    if isinstance(asked, str):
        raise ConfigurationError(f'types="{asked}" is one text: write types=["{asked}"].')
    served: set[str] = set()
    for name in asked:
        if name not in known:
            raise UnknownType(name, known)
        if name not in runnable:
            raise ConfigurationError(f'job "{name}" is a stub: its handler runs in another service.')
        served.add(known[name].name)
    return {name: definition for name, definition in runnable.items() if definition.name in served}
