"""A job type as users hold it: what a decorator leaves in place of the function."""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack, final

from asyncjobs.declare.definition import JobDefinition, NewJob
from asyncjobs.declare.new_job import check_job_id, empty_row, fill_row
from asyncjobs.declare.options import NONE_GIVEN, Checked, Options, check_options
from asyncjobs.handles import JobHandle
from asyncjobs.model.new_row import NewRow
from asyncjobs.open.current_app import Router, app_for, check_may_block, keeper_of, run_here
from asyncjobs.open.owning_app import OwningApp
from asyncjobs.settings import Settings

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class LimitingRouter(Router, Protocol):
    """The router that the type was declared on."""

    def limits(self) -> Settings:
        """The settings of the app that includes it, the defaults when none does (yet)."""
        ...


@final
class JobType(Generic[P, R_co]):
    """A job's type, typed by its handler's signature. Immutable, and not callable: `handler` is the function.

    Which app an enqueue goes to: inside an attempt that attempt's, else the one open AsyncJobs that includes the type.
    NotOpen, NotIncluded and AmbiguousApp say what to write otherwise.
    """

    __slots__ = ("_empty", "_handler", "_options", "_router")

    def __init__(self, handler: JobDefinition, router: LimitingRouter, options: Checked = NONE_GIVEN) -> None:
        self._handler = handler
        self._router = router
        self._options = options
        self._empty: NewRow | None = None  # what its rows have in common, since the first

    def __repr__(self) -> str:
        return f"<JobType {self.name!r} declared at {self._handler.declared_at}>"

    @property
    def name(self) -> str:
        """The stable name that is stored with each job."""
        return self._handler.name

    @property
    def handler(self) -> Callable[..., Any]:
        """The function itself, for calling it without a job."""
        return self._handler.function

    @property
    def declaration(self) -> JobDefinition:
        """What was declared, with all defaults filled in."""
        return self._handler

    @property
    def options(self) -> Checked:
        """What `using` gave."""
        return self._options

    def new(self, *args: P.args, **kwargs: P.kwargs) -> NewJob[R_co]:
        """A job that is not enqueued yet. InvalidPayload, PayloadTooLarge or InvalidOption when it cannot be."""
        if self._empty is None:
            self._empty = empty_row(self._handler, self._options)
        row = fill_row(self._empty, self._handler, args, kwargs, self._router.limits())
        return NewJob(self._handler, row, self._options.connection)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Make the job durable: when this returns it is committed, or will be with the transaction of `using(connection=…)`.

        An EnqueueError says that nothing was written.
        """
        new, app = self.new(*args, **kwargs), self._app()
        if new.connection is None and not app.hooks.enqueue and keeper_of(app) is None:
            return await app.enqueue_one(new)
        return await app.enqueue(new)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """`enqueue` for a plain `def` in another thread than the event loop's; WouldBlock in the loop's own."""
        new = self.new(*args, **kwargs)
        app = self._app()
        instead = f"await {self._handler.function_name}.enqueue(...)"
        if keeper_of(app) is not None:
            return run_here(app.enqueue(new), instead)
        loop = app.loop(f'"{self.name}" was enqueued')
        check_may_block(loop, instead)
        return asyncio.run_coroutine_threadsafe(app.enqueue(new), loop).result()

    def using(self, **options: Unpack[Options]) -> "JobType[P, R_co]":
        """This type with options for what is enqueued through it; later ones over earlier ones. InvalidOption."""
        return JobType(self._handler, self._router, check_options(options, over=self._options))

    def handle(self, job_id: int, /) -> JobHandle[R_co]:
        """The handle of a job of this type that is known by its id. Nothing is looked up yet."""
        return JobHandle(check_job_id(job_id), self._app, decode=self._handler.decode_result)

    def serialize_by(self, key: Callable[P, str | None], /) -> Callable[P, str | None]:
        """As a decorator: jobs whose key is the same run one at a time, in order. A key of None: not serialized.

        The function gets the handler's arguments by name; InvalidHandler when it cannot take them.
        """
        self._router.declarations.refuse_when_open(f'serialize_by of job "{self.name}"')
        self._handler.set_key(key)
        return key

    def _app(self) -> OwningApp:
        return app_for(self._handler, self._router)
