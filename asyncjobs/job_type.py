"""A job type as users hold it: what a decorator leaves in place of the function."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack, cast, final

from asyncjobs.context import JobContext, current
from asyncjobs.declare.definition import JobDefinition, NewJob
from asyncjobs.declare.new_job import check_job_id, empty_row, fill_row
from asyncjobs.declare.options import NONE_GIVEN, Checked, Options, check_options
from asyncjobs.errors import UsageError
from asyncjobs.handles import JobHandle
from asyncjobs.model.new_row import NewRow
from asyncjobs.model.outcome import VERDICTS, Verdict
from asyncjobs.open.current_app import Router, app_for, app_of_connection, keeper_of
from asyncjobs.open.owning_app import OwningApp
from asyncjobs.settings import Settings

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class LimitingRouter(Router, Protocol):
    """The router that the type was declared on."""

    def limits(self) -> Settings:
        """The settings of the app that includes it, the defaults when none does (yet)."""
        ...


class JobType(Generic[P, R_co]):
    """A job's type, typed by its handler's signature. Immutable. Decorators make one of its two kinds, which can be called.

    Which app an enqueue goes to: inside an attempt that attempt's, else the one open AsyncJobs that includes the type.
    NotOpen, NotIncluded and AmbiguousApp say what to write otherwise.
    """

    __slots__ = ("_definition", "_empty", "_options", "_router")

    def __init__(self, definition: JobDefinition, router: LimitingRouter, options: Checked = NONE_GIVEN) -> None:
        self._definition = definition
        self._router = router
        self._options = options
        self._empty: NewRow | None = None  # what its rows have in common, since the first

    def __repr__(self) -> str:
        return f"<JobType {self.name!r} declared at {self._definition.declared_at}>"

    @property
    def name(self) -> str:
        """The stable name that is stored with each job."""
        return self._definition.name

    @property
    def handler(self) -> Callable[..., Any]:
        """The function itself, which takes its context where it has one."""
        return self._definition.function

    @property
    def declaration(self) -> JobDefinition:
        """What was declared, with all defaults filled in."""
        return self._definition

    @property
    def options(self) -> Checked:
        """What `using` gave."""
        return self._options

    def new(self, *args: P.args, **kwargs: P.kwargs) -> NewJob[R_co]:
        """A job that is not enqueued yet. InvalidPayload, PayloadTooLarge or InvalidOption when it cannot be."""
        if self._empty is None:
            self._empty = empty_row(self._definition, self._options)
        row = fill_row(self._empty, self._definition, args, kwargs, self._router.limits())
        return NewJob(self._definition, row, self._options.connection)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Make the job durable: when this returns it is committed, or will be with the transaction of `using(connection=…)`.

        An EnqueueError says that nothing was written.
        """
        new, app = self.new(*args, **kwargs), self._app()
        if new.connection is None and not app.hooks.enqueue and keeper_of(app) is None:
            return await app.enqueue_one(new)
        return await app.enqueue(new)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """`enqueue` for a plain `def` in another thread than the event loop's; WouldBlock in the loop's own.

        On a synchronous `using(connection=…)` no loop is needed, nor an app that is open, and no more is blocked than by the
        connection's own statements.
        """
        new = self.new(*args, **kwargs)
        app = self._app() if new.connection is None else app_of_connection(self._definition, self._router)
        return app.enqueue_sync(new)

    def using(self, **options: Unpack[Options]) -> Self:
        """This type with options for what is enqueued through it; later ones over earlier ones. InvalidOption."""
        return type(self)(self._definition, self._router, check_options(options, over=self._options))

    def handle(self, job_id: int, /) -> JobHandle[R_co]:
        """The handle of a job of this type that is known by its id. Nothing is looked up yet."""
        return JobHandle(check_job_id(job_id), self._app, self._definition.decode_result)

    def serialize_by(self, key: Callable[P, str | None], /) -> Callable[P, str | None]:
        """As a decorator: jobs whose key is the same run one at a time, in order. A key of None: not serialized.

        The function gets the handler's arguments by name; InvalidHandler when it cannot take them.
        """
        self._router.declarations.refuse_when_open(f'serialize_by of job "{self.name}"')
        self._definition.set_key(key)
        return key

    def dedup_by(self, key: Callable[P, str | None], /) -> Callable[P, str | None]:
        """As a decorator: of jobs with the same key one lives at a time, as if each enqueue gave it as its `dedup_key`. A key of
        None: no dedup key.

        The function gets the handler's arguments by name; InvalidHandler when it cannot take them.
        """
        self._router.declarations.refuse_when_open(f'dedup_by of job "{self.name}"')
        self._definition.set_dedup_key(key)
        return key

    def _app(self) -> OwningApp:
        return app_for(self._definition, self._router)

    def _called(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a call of the handler: with the current attempt's context, where it takes one. UsageError."""
        definition = self._definition
        if definition.is_stub:
            raise UsageError(
                f'job "{definition.name}" ({definition.declared_at}) is a stub, its handler runs in another service: '
                f"await {definition.function_name}.enqueue(...)."
            )
        if not definition.takes_context:
            return args
        if args and isinstance(args[0], JobContext):
            raise UsageError(f'"{definition.name}" was called with a context: leave it out, the current attempt\'s is passed.')
        context = current.get()
        if context is None:
            raise UsageError(
                f'"{definition.name}" takes a context and was called outside of an attempt, where there is none: in a test '
                f"await asyncjobs.testing.perform({definition.function_name}.new(...)), elsewhere enqueue it."
            )
        return (context, *args)


@final
class AsyncJobType(JobType[P, R_co]):
    """The type of an `async def` handler. A call of it calls the handler itself: nothing is enqueued, checked or retried."""

    __slots__ = ()

    @property
    def handler(self) -> Callable[..., Awaitable[R_co | Verdict]]:
        """The function itself, which takes its context where it has one."""
        return self._definition.function

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """What the handler returns; a verdict is raised. It gets the current attempt's context, if it takes one.

        UsageError for a stub, and outside of an attempt for a handler that takes a context (in tests: `perform`).
        """
        return cast("R_co", _no_verdict(await self._definition.function(*self._called(args), **kwargs)))


@final
class SyncJobType(JobType[P, R_co]):
    """The type of a plain `def` handler. A call of it calls the handler itself, in the caller's thread."""

    __slots__ = ()

    @property
    def handler(self) -> Callable[..., R_co | Verdict]:
        """The function itself, which takes its context where it has one."""
        return self._definition.function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """What the handler returns; a verdict is raised. Contexts and stubs as of an `AsyncJobType`."""
        return cast("R_co", _no_verdict(self._definition.function(*self._called(args), **kwargs)))


def _no_verdict(answer: object) -> object:
    """The answer; a verdict is raised, so that a caller has a result or none: in a handler it becomes the caller's own."""
    if issubclass(type(answer), VERDICTS):
        raise cast("Verdict", answer)
    return answer
