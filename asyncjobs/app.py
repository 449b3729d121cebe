"""The facade: what an application makes once, and reaches everything through. What it does is done elsewhere."""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from asyncjobs.admin import Admin
from asyncjobs.circuit_breaker import CircuitBreaker, breakers_of
from asyncjobs.connections import Connection
from asyncjobs.context import current
from asyncjobs.declare.definition import JobDefinition, NewJob
from asyncjobs.declare.hooks import Hook, check_hooks, enqueue_through
from asyncjobs.declare.new_job import (
    admit,
    admit_all,
    check_job_id,
    check_jobs,
    check_placed,
    in_slices,
    named,
    one_connection,
    only,
)
from asyncjobs.declare.options import Options
from asyncjobs.declare.schedules import made_schedules
from asyncjobs.dsn import parse_dsn
from asyncjobs.errors import ConfigurationError
from asyncjobs.handles import JobHandle, ended
from asyncjobs.model.job import Job
from asyncjobs.model.new_row import NewRow
from asyncjobs.model.outcome import Duration
from asyncjobs.model.schedule import Schedule
from asyncjobs.open.current_app import check_loop, keeper_of, not_open, refuse_in_memory, running_loop
from asyncjobs.open.job_wait import check_wait
from asyncjobs.open.lifecycle import Lifecycle
from asyncjobs.open.owning_app import Breaker, Memory
from asyncjobs.open.run import check_guarded, lifespan, run_until_signal, running
from asyncjobs.router import JobRouter
from asyncjobs.runner import Runner
from asyncjobs.runtime.breakers import Breakers
from asyncjobs.runtime.health import Health
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.settings import MoreSettings, Queue, check_queues, make_settings
from asyncjobs.store.migrate import Status as Migrations
from asyncjobs.telemetry.events import Events

N = TypeVar("N")


class AsyncJobs(JobRouter):
    """The jobs of an application: where they are, what there is, and how many run at a time.

    Making one does no I/O, reads no environment and needs no loop. Declarations end at the first open, which is one of:
    `async with jobs` (to enqueue only), `jobs.runner()`, `jobs.lifespan`, `jobs.run()`. Opens nest in one loop and are counted;
    after the last exit it may be opened again, also in another loop.

    `dsn=None` is read from $ASYNCJOBS_DSN at open. `embedded://` is a private PostgreSQL, for development and tests.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = "asyncjobs",
        queues: Sequence[Queue] = (Queue("default"),),
        routers: Sequence[JobRouter] = (),
        auto_migrate: bool = False,
        notify: Literal["auto", "listen", "poll"] = "auto",
        listen_dsn: str | None = None,
        pool_size: int = 2,
        grace: Duration | None = None,
        connect_timeout: Duration | None = 10,
        poll_interval: Duration | None = None,
        hooks: Sequence[Hook] = (),
        **more: Unpack[MoreSettings],
    ) -> None:
        super().__init__()
        if dsn is not None:
            parse_dsn(dsn)
        self.dsn = dsn
        self.settings = make_settings(
            {"schema": schema, "auto_migrate": auto_migrate, "notify": notify, "listen_dsn": listen_dsn, "pool_size": pool_size,
             "grace": grace, "connect_timeout": connect_timeout, "poll_interval": poll_interval, **more}
        )  # fmt: skip
        self.queues = check_queues(queues)
        self.events = Events()
        self.hooks = check_hooks(hooks)
        self.stand_ins: Mapping[object, object] = {}  # for what `ctx.use` is given, in tests
        self.declarations.belong_to(self)
        self._handlers: dict[str, JobDefinition] | None = None
        self.schedules: list[Schedule] = []  # since the first open
        self.breakers: Mapping[str, CircuitBreaker] = {}  # by service, since then
        self.lifecycle = Lifecycle(self)
        self.admin = Admin(self._opened_for, self._breaker_of, self.lifecycle.ground)
        self.memory: Memory | None = None  # what stands in for the database, in tests
        self.runners: list[Runner] = []  # that run now, in this process
        if isinstance(routers, JobRouter):
            raise ConfigurationError("routers= is one router: write routers=[router].")
        for router in routers:
            self.include_router(router)

    def __repr__(self) -> str:
        return f"<AsyncJobs schema={self.settings.schema!r} {'open' if self.lifecycle.opened else 'closed'}>"

    # -- what there is

    @property
    def handlers(self) -> Mapping[str, JobDefinition]:
        """Every job type of the app, by name and by alias."""
        return self._handlers if self._handlers is not None else self.declarations.all_handlers()

    def includes(self, handler: JobDefinition) -> bool:
        """Whether this very declaration is part of the app."""
        return self.handlers.get(handler.name) is handler

    def includes_breaker(self, breaker: Breaker) -> bool:
        """Whether this very circuit breaker is part of the app."""
        breakers = self.breakers if self._handlers is not None else breakers_of(self.declarations)
        return breakers.get(breaker.service) is breaker

    def _breaker_of(self, type: str) -> str | None:
        handler = self.handlers.get(type)
        return None if handler is None else handler.breaker

    def close_declarations(self) -> None:
        """Hold the declarations together, once, at the first open; after it there are no more.

        ConfigurationError of all kinds: unknown queues, lanes and breakers, annotations that cannot be resolved, schedules whose
        job cannot be enqueued.
        """
        if self._handlers is not None:
            return
        handlers = self.declarations.all_handlers()
        breakers = breakers_of(self.declarations)
        for handler in handlers.values():
            handler.resolve()
            check_placed(handler, self.queues)
            check_guarded(handler, breakers)
        self.schedules = made_schedules(self.declarations.all_planned(), handlers, self.queues, self.settings)
        self.breakers = breakers
        self._handlers = handlers
        self.declarations.is_closed = True

    # -- opening and closing

    async def __aenter__(self) -> Self:
        if self.memory is None:
            await self.lifecycle.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self.memory is None:
            await self.lifecycle.leave()

    def lifespan(self, app: object, /) -> AbstractAsyncContextManager[None]:
        """`runner()` in Starlette's shape: `FastAPI(lifespan=jobs.lifespan)`, or `async with jobs.lifespan(app)` in another."""
        del app
        return lifespan(self) if self.memory is None else self.memory.lifespan()

    def runner(
        self,
        *,
        queues: Iterable[str | Queue] | None = None,
        types: Iterable[str] | None = None,
        grace: Duration | None = None,
    ) -> AbstractAsyncContextManager[Runner]:
        """Run jobs from entering to leaving: of these queues (all), of these types (all). Opens the app if it is not open."""
        if self.memory is not None:
            return self.memory.entered()
        return running(self, queues=queues, types=types, grace=grace)

    async def run(self, *, queues: Iterable[str | Queue] | None = None, types: Iterable[str] | None = None) -> None:
        """Run jobs until SIGTERM or SIGINT; a second signal cuts the grace short. The only call that touches signals."""
        refuse_in_memory(self, "jobs.run() was called")
        await run_until_signal(self, queues=queues, types=types)

    async def migrate(self) -> list[str]:
        """Bring the schema up to date, whether the app is open or not; what was applied, in order."""
        return await self.lifecycle.migrate()

    async def migrations(self) -> Migrations:
        """Which migrations are applied, and which this program would apply; reads only. Whether the app is open or not."""
        return await self.lifecycle.migrations()

    def migration_script(self) -> str:
        """All migrations as one SQL script for a new schema; asks no database."""
        return self.lifecycle.migration_script()

    def health(self, *, runs: bool = False) -> Health:
        """How the app and its runners are in this process, without asking the database. Also when it is closed.

        With `runs=True` a process in which no runner has started yet, or whose runner has ended, is not ready: for workers.
        """
        if self.memory is not None:
            return Health(is_open=True, runners=[])
        opened = self.lifecycle.opened
        is_open = opened is not None and opened.pid == os.getpid()
        runners = [runner.health() for runner in self.runners] if is_open else []
        troubles = [] if opened is None or not is_open else opened.parts.troubles()
        if opened is not None and opened.has_ended:
            troubles = [*troubles, "the app's own task was ended from outside: it is closed, and has to be opened again"]
        for runner in self.runners if is_open else ():
            troubles += runner.heartbeat.troubles()
        return Health(is_open=is_open, runners=runners, troubles=troubles, needs_runner=runs)

    @property
    def opened_in(self) -> int | None:
        """The process that the app is open in, None when it is closed."""
        if self.memory is not None:
            return self.memory.pid
        opened = self.lifecycle.opened
        return None if opened is None else opened.pid

    @property
    def was_opened(self) -> bool:
        """Whether it has ever been open."""
        return self._handlers is not None

    def loop(self, what: str) -> asyncio.AbstractEventLoop:
        """The loop that the app is open in, or NotOpen in words that begin with `what`."""
        if self.memory is not None and self.memory.loop is not None:
            return self.memory.loop
        return self._opened(what).loop

    def _opened(self, what: str) -> OpenApp:
        refuse_in_memory(self, what)
        opened = self.lifecycle.opened
        if opened is None or opened.pid != os.getpid() or opened.loop.is_closed():
            raise not_open(what, self)
        return opened

    def _opened_for(self, what: str) -> OpenApp:
        opened = self._opened(what)
        check_loop(opened.loop, self.lifecycle.thread_name)
        return opened

    def open_breakers(self, what: str) -> Breakers:
        """The breakers of the open app, for its own loop; NotOpen, WrongLoop."""
        if self.memory is not None:
            return self.memory.breakers
        opened = self._opened(what)
        check_loop(opened.loop, self.lifecycle.thread_name, instead="breaker.sync()")
        return opened.breakers

    def breakers_in(self, what: str) -> Breakers:
        """The breakers of the open app, whoever asks; NotOpen."""
        return self.memory.breakers if self.memory is not None else self._opened(what).breakers

    # -- jobs

    @overload
    async def enqueue(self, job: NewJob[N], /, *, connection: Connection | None = None) -> JobHandle[N]: ...
    @overload
    async def enqueue(self, type: str, payload: Mapping[str, Any], /, **options: Unpack[Options]) -> JobHandle[Any]: ...
    async def enqueue(self, job: Any, payload: Mapping[str, Any] | None = None, /, **options: Any) -> JobHandle[Any]:
        """Make a job durable: `job_type.new(...)`, or a name with the payload by field.

        With `connection` the job is part of that connection's transaction. An EnqueueError says that nothing was written;
        UnknownType that no job of that name is declared.
        """
        new = named(job, payload, options, self.handlers, self.settings) if isinstance(job, str) else only(job, payload, options)
        if new.connection is None and not options and not self.hooks.enqueue and keeper_of(self) is None:
            check_jobs([new], self.handlers)
            return await self.enqueue_one(new)
        return (await self.enqueue_many([new], connection=options.get("connection")))[0]

    async def enqueue_many(self, jobs: Iterable[NewJob[N]], /, *, connection: Connection | None = None) -> list[JobHandle[N]]:
        """Make all of these jobs durable, or none; the handles in the same order."""
        news = check_jobs(jobs, self.handlers)
        if not self.hooks.enqueue:
            return await self._write(news, connection)
        return await enqueue_through(
            self.hooks.enqueue, news, lambda through: self._write(through, connection), events=self.events
        )

    async def enqueue_one(self, new: NewJob[N], /) -> JobHandle[N]:
        """`enqueue` where nothing but the job matters: there are no hooks, it is of this app, and to be written on its own."""
        row = admit(new.row, new.handler, self.queues, self.settings)
        opened = self.lifecycle.opened
        if opened is None or running_loop() is not opened.loop:  # which no fork has, nor a loop that is closed
            opened = self._opened_for(f'"{row.type}" was enqueued')
        one = await opened.enqueue_one(row)
        return JobHandle(one.id, self._itself, new.handler.decode_result, one.created)

    async def _write(self, news: list[NewJob[Any]], connection: Connection | None) -> list[JobHandle[Any]]:
        rows: list[NewRow] = []
        async for some in in_slices(news):
            rows += admit_all(some, self.queues, self.settings)
        on = one_connection(news, connection)
        keeper = keeper_of(self)
        if keeper is not None:
            enqueued = keeper.keep(rows)
        else:
            opened = self._opened_for(f'"{news[0].type}" was enqueued' if news else "enqueue_many was called")
            enqueued = await opened.enqueue(rows, connection=on, many=len(rows) != 1)
        itself = self._itself  # and one decoder for each type: what is made for each job, the garbage collector walks
        decoders = {handler: handler.decode_result for handler in {new.handler for new in news}}
        handles: list[JobHandle[Any]] = []
        pairs = zip(enqueued, news, strict=True)
        async for some in in_slices(news):
            handles += [JobHandle(one.id, itself, decoders[new.handler], one.created) for one, new in islice(pairs, len(some))]
        return handles

    async def get(self, job_id: int, /) -> Job | None:
        """The job as it is now, also while it waits behind others of its key; None when there is none (yet, or any more)."""
        keeper = keeper_of(self)
        if keeper is not None:
            return await keeper.get(check_job_id(job_id))
        return await self._opened_for(f"job {job_id} was asked for").get(check_job_id(job_id))

    def handle(self, job_id: int, /) -> JobHandle[Any]:
        """The handle of a job that is known by its id. Nothing is looked up yet; its result is plain JSON."""
        return JobHandle(check_job_id(job_id), self._itself)

    def _itself(self) -> Self:
        return self

    async def wait_final(self, job_id: int, timeout: float | None) -> Job:
        """The job's final row; JobNotFound, WaitTimeout. What handles wait with."""
        keeper = keeper_of(self)
        if keeper is not None:
            return await keeper.wait_final(job_id, timeout)
        opened = self._opened_for(f"job {job_id} was waited for")
        context = current.get()
        if timeout is None and context is not None and context.jobs is self:
            await check_wait(opened, context.claimed, job_id, self.queues)
        if timeout == 0:  # a time-out of nothing would end before the first look
            return ended(job_id, await opened.get(job_id))
        return await opened.wait_final(job_id, timeout)
