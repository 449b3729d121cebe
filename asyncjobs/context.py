"""What a handler is told about its attempt, and how code that it calls finds out."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, final

from asyncjobs.connections import AsyncConnection, SyncConnection
from asyncjobs.errors import ConfigurationError, LeaseLost, UsageError, WouldBlock
from asyncjobs.model.claim import Claimed
from asyncjobs.model.job import Job
from asyncjobs.model.trace import own_trace
from asyncjobs.open.other_threads import running_loop, wait_in

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@final
class Resource(Generic[T_co]):
    """What the attempts of one runner share, made by `resource`: an HTTP client, a pool. `ctx.use(it)` gives the open one."""

    __slots__ = ("name", "provider")

    def __init__(self, provider: Callable[[], AbstractAsyncContextManager[T_co]]) -> None:
        self.provider = provider
        self.name = str(getattr(provider, "__qualname__", None) or type(provider).__name__)

    def __repr__(self) -> str:
        return f"<Resource {self.name}>"


def resource(provider: Callable[[], AbstractAsyncContextManager[T]], /) -> Resource[T]:
    """As a decorator: make what the provider opens one per runner, for `ctx.use`.

    Opened when the first attempt asks, once, however many ask; closed when the runner stops, after its attempts. One that fails
    to open fails the attempts that asked (ResourceFailed), and the next one tries again.
    """
    if not callable(provider):
        raise ConfigurationError(f"resource({provider!r}): give a function without parameters that makes a context manager.")
    return Resource(provider)


class AttemptSide(Protocol):
    """What the running attempt does for its context."""

    @property
    def claimed(self) -> Claimed:
        """What was claimed."""
        ...

    @property
    def job(self) -> Job:
        """The job as it was claimed."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where it runs."""
        ...

    @property
    def log(self) -> "FilteringBoundLogger":
        """A logger that names the job."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the attempt should end."""
        ...

    def progress(self, done: float, note: str) -> None:
        """Take note of how far it is."""
        ...

    def complete(self, connection: AsyncConnection, result: object) -> Coroutine[Any, Any, None]:
        """Complete the job on this connection."""
        ...

    def complete_sync(self, connection: SyncConnection, result: object) -> None:
        """Complete the job on this synchronous connection."""
        ...

    async def share(self, resource: Resource[T], /) -> T:
        """The runner's own."""
        ...


class Attempting(Protocol):
    """What a context asks of the app."""

    @property
    def stand_ins(self) -> Mapping[object, object]:
        """What is used in place of what, in tests."""
        ...

    def spawn_for(self, context: "JobContext[Any]", first: int, jobs: Sequence[Any], /) -> Coroutine[Any, Any, list[Any]]:
        """Add jobs to the workflow of the context's."""
        ...


App_co = TypeVar("App_co", bound=Attempting, covariant=True)


@final
class JobContext(Generic[App_co]):
    """One attempt of one job, as its handler sees it. Asked for by annotating the first parameter with it.

    Generic over the app, which cannot be imported here: its decorators take functions that have a context. To type checkers
    `asyncjobs.JobContext`, which users import, is that of an `AsyncJobs`.
    """

    __slots__ = ("_attempt", "_job", "_log", "jobs", "resources", "spawned")

    def __init__(self, *, jobs: App_co, attempt: AttemptSide) -> None:
        self.jobs = jobs
        self.resources: AsyncExitStack | None = None  # what `use` opened; the attempt closes it
        self.spawned = 0  # jobs, by this attempt
        self._attempt = attempt
        self._job: Job | None = None  # made when it is asked for, like the logger: most handlers never do
        self._log: FilteringBoundLogger | None = None

    @property
    def claimed(self) -> Claimed:
        """What was claimed: less than `job`, and there at no cost."""
        return self._attempt.claimed

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._attempt.claimed.attempt

    @property
    def max_attempts(self) -> int:
        """How many the job has at most."""
        return self._attempt.claimed.max_attempts

    @property
    def correlation_id(self) -> str:
        """The job's, given at its enqueue or its own."""
        claimed = self._attempt.claimed
        return claimed.correlation_id or own_trace(claimed.id)

    @property
    def job(self) -> Job:
        """The job as it was when it was claimed."""
        if self._job is None:
            self._job = self._attempt.job
        return self._job

    @property
    def log(self) -> "FilteringBoundLogger":
        """A structlog logger that names the job."""
        if self._log is None:
            self._log = self._attempt.log
        return self._log

    def __repr__(self) -> str:
        return f"<JobContext job={self.job.id} type={self.job.type!r} attempt={self.attempt}/{self.max_attempts}>"

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for the job's end, or the claim was lost: a plain `def` handler looks here now and then."""
        return self._attempt.cancelled

    def progress(self, done: float, note: str = "") -> None:
        """Show how far the job is: `done` from 0 to 1; never waits.

        Written now and then, not at every call; the last word with the outcome, and in the transaction of `complete`.
        """
        self._attempt.progress(done, note)

    def use(
        self, provider: Callable[["JobContext[App_co]"], AbstractAsyncContextManager[T]] | Resource[T], /
    ) -> Coroutine[Any, Any, T]:
        """Open what the provider makes, and close it when the attempt ends, the last one first.

        A `resource` is the runner's, and is not closed with the attempt; ResourceFailed when it does not open. In a plain `def`,
        which cannot await it, UsageError: `use_sync` is for those.
        """
        if running_loop() is None:
            raise UsageError("ctx.use(...) is to be awaited, which a plain def cannot do: call ctx.use_sync(...).")
        return self._use(provider)

    def use_sync(self, provider: Callable[["JobContext[App_co]"], AbstractAsyncContextManager[T]] | Resource[T], /) -> T:
        """`use` for a plain `def` handler, in its thread; WouldBlock in the event loop's own.

        It is opened and closed in the event loop: what may only be used there is of no use in the thread.
        """
        if running_loop() is not None:
            raise WouldBlock("ctx.use_sync called in the event loop's own thread would block it: await ctx.use(...).")
        return wait_in(self._attempt.loop, lambda: self._use(provider))

    async def _use(self, provider: Callable[["JobContext[App_co]"], AbstractAsyncContextManager[T]] | Resource[T]) -> T:
        provider = cast("Any", self.jobs.stand_ins.get(provider, provider))
        if isinstance(provider, Resource):
            return await self._attempt.share(provider)
        if self.resources is None:
            self.resources = AsyncExitStack()
        return await self.resources.enter_async_context(provider(self))

    def spawn(self, *jobs: Any) -> Coroutine[Any, Any, list[Any]]:
        """Add jobs to the workflow of this one: whoever waits for this job waits for them, too, and so does the workflow.

        They are written at once; their handles in the same order. An attempt that comes after another finds what that has
        spawned, call by call: the same jobs. UsageError where the job is of no workflow: enqueue them there. ClaimLost when the
        attempt's claim was taken away.
        """
        first = self.spawned
        self.spawned += len(jobs)
        return self.jobs.spawn_for(self, first, jobs)

    def complete(self, connection: AsyncConnection, result: object = None) -> Coroutine[Any, Any, None]:
        """Complete the job in the caller's transaction: its effects and its completion commit together.

        A handler that returns before that is committed has failed (NotCommitted), and is tried again as after any error.
        ClaimLost when the attempt's claim was taken away: let the transaction roll back. In a plain `def`, which cannot await it,
        UsageError: `complete_sync` is for those. In a transaction that is repeatable read or serializable, a progress that was
        written since it began is in the way, as any write to the job is (PostgreSQL's error 40001, a failed attempt): tell of
        none in there.
        """
        if running_loop() is None:
            raise UsageError("ctx.complete(...) is to be awaited, which a plain def cannot do: call ctx.complete_sync(...).")
        return self._attempt.complete(connection, result)

    def complete_sync(self, connection: SyncConnection, result: object = None) -> None:
        """`complete` for a plain `def`, in its thread, on a synchronous connection; WouldBlock in the event loop's own."""
        if running_loop() is not None:
            raise WouldBlock("ctx.complete_sync called in the event loop's own thread would block it: await ctx.complete(...).")
        self._attempt.complete_sync(connection, result)


@final
class DutyContext:
    """One pass of a duty."""

    __slots__ = ("_hold", "log", "name")

    def __init__(
        self, *, name: str, log: "FilteringBoundLogger", hold: Callable[[object], Awaitable[bool]] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._hold = hold

    async def hold(self, connection: AsyncConnection) -> None:
        """See to it, in the caller's transaction, that no other runner takes the duty over before it ends; or LeaseLost.

        Call it before the first write of what must never be done by two at a time: what a process writes that was stopped and
        goes on after another has taken over is then rolled back. The transaction may idle for 4 s at most. With the strategies
        `everyone`, `share` and `advisory` there is nothing to hold, and nothing is done.
        """
        if self._hold is not None and not await self._hold(connection):
            raise LeaseLost(self.name)


#: The attempt that the current task, or the thread that it started, works for.
current: ContextVar[JobContext[Any] | None] = ContextVar("asyncjobs_current_attempt", default=None)
