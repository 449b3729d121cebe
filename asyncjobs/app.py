"""The facade: what an application makes once, and reaches everything through. What it does is done elsewhere."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from asyncjobs.admin import Admin
from asyncjobs.admin.on_connection import on, on_sync
from asyncjobs.circuit_breaker import CircuitBreaker, breakers_of
from asyncjobs.connections import AsyncConnection, Connection, SyncConnection
from asyncjobs.declare.definition import JobDefinition, NewJob
from asyncjobs.declare.hooks import Hook, check_hooks, enqueue_through
from asyncjobs.declare.new_job import admit, check_job_id, check_jobs, is_nobodys, named, one_connection, only
from asyncjobs.declare.options import Options
from asyncjobs.dsn import parse_dsn
from asyncjobs.errors import ConfigurationError
from asyncjobs.handles import JobHandle, Watching, ended
from asyncjobs.model.job import Job
from asyncjobs.model.outcome import Duration
from asyncjobs.model.schedule import Schedule
from asyncjobs.open.app_health import health_of
from asyncjobs.open.current_app import AWAIT_IT_THERE, ENQUEUE_SYNC, check_loop, keeper_of, not_open, refuse_in_memory
from asyncjobs.open.declared import close_declarations
from asyncjobs.open.job_wait import check_wait
from asyncjobs.open.lifecycle import Lifecycle
from asyncjobs.open.other_threads import check_may_block, running_loop, wait_in, wait_wherever, without_loop
from asyncjobs.open.owning_app import Breaker, Memory
from asyncjobs.open.run import check_until, lifespan, resting, run_until_signal, running
from asyncjobs.open.sync_opens import SyncOpens
from asyncjobs.open.write import write
from asyncjobs.router import JobRouter
from asyncjobs.runner import Runner
from asyncjobs.runtime.breakers import Breakers
from asyncjobs.runtime.health import Health
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.runtime.watch import Watch
from asyncjobs.settings import MoreSettings, Queue, check_queues, make_settings
from asyncjobs.store import verbs
from asyncjobs.store.migrate import Status as Migrations
from asyncjobs.telemetry.events import Events
from asyncjobs.workflow import Workflows

N = TypeVar("N")
T = TypeVar("T")


class AsyncJobs(JobRouter, Workflows):
    """The jobs of an application: where they are, what there is, and how many run at a time.

    Making one does no I/O, reads no environment and needs no loop. Declarations end at the first open, which is one of:
    `async with jobs` (to enqueue only), `with jobs.sync()` (the same, where there is no loop), `jobs.runner()`, `jobs.lifespan`,
    `jobs.run()`. Opens nest in one loop and are counted; after the last exit it may be opened again, also in another loop.

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
        self._sync_opens = SyncOpens(self.lifecycle)
        self.admin = Admin(self.opened_for, self.lifecycle.ground, self.lifecycle.unopened)
        self.memory: Memory | None = None  # what stands in for the database, in tests
        self.rests = False  # lifespans and `runner()` open the app and run nothing, in tests
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

    @property
    def redactions(self) -> Mapping[str, Sequence[str]]:
        """The fields that nobody is shown, by job type."""
        return {one.name: one.redact for one in self.handlers.values() if one.redact}

    def includes(self, definition: JobDefinition) -> bool:
        """Whether this very declaration is part of the app."""
        return self.handlers.get(definition.name) is definition

    def includes_breaker(self, breaker: Breaker) -> bool:
        """Whether this very circuit breaker is part of the app."""
        breakers = self.breakers if self._handlers is not None else breakers_of(self.declarations)
        return breakers.get(breaker.service) is breaker

    def close_declarations(self) -> None:
        """Hold the declarations together, once, at the first open; after it there are no more. ConfigurationError."""
        if self._handlers is None:
            declared = close_declarations(self.declarations, self.queues, self.settings)
            self._handlers, self.breakers, self.schedules = declared

    # -- opening and closing

    async def __aenter__(self) -> Self:
        if self.memory is None:
            await self.lifecycle.enter()
        else:
            self.memory.enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.memory is None:
            await self.lifecycle.leave()
        else:
            self.memory.leave()

    @contextmanager
    def sync(self) -> Generator[Self]:
        """Open to enqueue only, as `async with jobs`, from a thread without an event loop: `with jobs.sync():`.

        The app is in a loop in a thread of its own meanwhile, for all threads; `open/sync_opens.py` has the rules. WouldBlock in
        an event loop's own thread.
        """
        with self._sync_opens.entered() if self.memory is None else nullcontext():
            yield self

    @overload
    def lifespan(self, app: object, /, *, run: bool = True) -> AbstractAsyncContextManager[None]: ...
    @overload
    def lifespan(self, /, *, run: bool) -> Callable[[object], AbstractAsyncContextManager[None]]: ...
    def lifespan(self, app: object = ..., /, *, run: bool = True) -> Any:
        """`runner()` in Starlette's shape: `FastAPI(lifespan=jobs.lifespan)`, or `async with jobs.lifespan(app)` in another.

        With `jobs.lifespan(run=False)` the app is opened to enqueue only, and other processes run the jobs.
        """
        return partial(self.lifespan, run=run) if app is ... else lifespan(self, run=run and not self.rests)

    def runner(
        self,
        *,
        queues: Iterable[str | Queue] | None = None,
        types: Iterable[str] | None = None,
        grace: Duration | None = None,
        name: str | None = None,
    ) -> AbstractAsyncContextManager[Runner]:
        """Run jobs from entering to leaving: of these queues (all), of these types (all). Opens the app if it is not open.
        `name` is what people call the runner, in lists, in health and in its log.
        """
        return resting(self) if self.rests else running(self, queues=queues, types=types, grace=grace, name=name)

    async def run(
        self,
        *,
        queues: Iterable[str | Queue] | None = None,
        types: Iterable[str] | None = None,
        until_idle: bool = False,
        max_jobs: int | None = None,
        max_time: Duration | None = None,
        name: str | None = None,
    ) -> None:
        """Run jobs until SIGTERM or SIGINT; a second signal cuts the grace short. The only call that touches signals.

        It ends by itself, as for a signal: with `until_idle` when nothing is due that this runner could run, and what ran has
        enqueued nothing more (its schedules and your duties rest); when `max_jobs` were started, never one more, and have ended;
        after `max_time`. `name` as for `runner()`.
        """
        refuse_in_memory(self, "jobs.run() was called")
        await run_until_signal(self, queues=queues, types=types, until=check_until(until_idle, max_jobs, max_time), name=name)

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
        return health_of(self.lifecycle.opened, self.runners, needs_runner=runs and not self.rests)

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

    def wait_in_loop(self, happened: str, call: str, what: str, awaited: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What comes of it in the app's loop. NotOpen in words that begin with what `happened`; WouldBlock in the loop's thread:
        `call` is to be made there instead of `what`.
        """
        keeper = keeper_of(self)
        if keeper is not None:
            return wait_wherever(keeper.loop, call, what, awaited)
        loop = self.loop(happened)
        check_may_block(loop, call, what=what)
        return wait_in(loop, awaited)

    def _opened(self, what: str) -> OpenApp:
        refuse_in_memory(self, what)
        opened = self.lifecycle.opened
        if opened is None or opened.pid != os.getpid() or opened.loop.is_closed():
            raise not_open(what, self)
        return opened

    def opened_for(self, what: str, instead: str = AWAIT_IT_THERE) -> OpenApp:
        """The open app, for its own loop; NotOpen, WrongLoop in words that begin with `what`, and say what to do `instead`."""
        opened = self._opened(what)
        check_loop(opened.loop, self.lifecycle.thread_name, instead=instead)
        return opened

    def open_breakers(self, what: str) -> Breakers:
        """The breakers of the open app, for its own loop; NotOpen, WrongLoop."""
        if self.memory is not None:
            return self.memory.breakers
        return self.opened_for(what, "use breaker.sync() there").breakers

    def breakers_in(self, what: str) -> Breakers:
        """The breakers of the open app, whoever asks; NotOpen."""
        return self.memory.breakers if self.memory is not None else self._opened(what).breakers

    # -- jobs

    @overload
    async def enqueue(self, job: NewJob[N], /, *, connection: AsyncConnection | None = None) -> JobHandle[N]: ...
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

    async def enqueue_many(
        self, jobs: Iterable[NewJob[N]], /, *, connection: AsyncConnection | None = None
    ) -> list[JobHandle[N]]:
        """Make all of these jobs durable, or none; the handles in the same order."""
        return await self._enqueue(check_jobs(jobs, self.handlers), connection, blocks=False)

    @overload
    def enqueue_sync(self, job: NewJob[N], /, *, connection: SyncConnection | None = None) -> JobHandle[N]: ...
    @overload
    def enqueue_sync(self, type: str, payload: Mapping[str, Any], /, **options: Unpack[Options]) -> JobHandle[Any]: ...
    def enqueue_sync(self, job: Any, payload: Mapping[str, Any] | None = None, /, **options: Any) -> JobHandle[Any]:
        """`enqueue` without awaiting it, as `enqueue_many_sync`."""
        new = named(job, payload, options, self.handlers, self.settings) if isinstance(job, str) else only(job, payload, options)
        call = f"await {getattr(getattr(new, 'handler', None), 'function_name', 'jobs')}.enqueue(...)"
        return self._enqueue_sync(check_jobs([new], self.handlers), options.get("connection"), "enqueue_sync", call)[0]

    def enqueue_many_sync(self, jobs: Iterable[NewJob[N]], /, *, connection: SyncConnection | None = None) -> list[JobHandle[N]]:
        """`enqueue_many` without awaiting it.

        On a synchronous `connection` in any thread, also where the app was never opened, and no loop is. Without one, from a
        thread without the loop that the app is open in: NotOpen, WouldBlock.
        """
        news = check_jobs(jobs, self.handlers)
        return self._enqueue_sync(news, connection, "enqueue_many_sync", "await jobs.enqueue_many(...)")

    def _enqueue_sync(self, news: list[NewJob[Any]], connection: Connection | None, what: str, call: str) -> list[JobHandle[Any]]:
        if one_connection(news, connection) is not None:
            return without_loop(self._enqueue(news, connection, blocks=True))
        happened = f'"{news[0].type}" was enqueued' if news else f"{what} was called"
        return self.wait_in_loop(happened, call, what, lambda: self._enqueue(news, None, blocks=False))

    async def _enqueue(self, news: list[NewJob[Any]], connection: Connection | None, *, blocks: bool) -> list[JobHandle[Any]]:
        written = partial(write, self, connection=connection, blocks=blocks, opened_for=self.opened_for, itself=self._itself)
        if not self.hooks.enqueue:
            return await written(news)
        return await enqueue_through(self.hooks.enqueue, news, written, events=self.events)

    async def enqueue_one(self, new: NewJob[N], /) -> JobHandle[N]:
        """`enqueue` where nothing but the job matters: there are no hooks, it is of this app, and to be written on its own."""
        row = admit(new.row, new.handler, self.queues, self.settings)
        opened = self.lifecycle.opened
        if opened is None or running_loop() is not opened.loop:  # which no fork has, nor a loop that is closed
            opened = self.opened_for(f'"{row.type}" was enqueued', ENQUEUE_SYNC)
        one = await opened.enqueue_one(row)
        return JobHandle(one.id, self._itself, new.handler.decode_result, one.did)

    async def get(self, job_id: int, /, *, connection: AsyncConnection | None = None) -> Job | None:
        """The job as it is now, also while it waits behind others of its key; None when there is none (yet, or any more).

        So it is for a number that no job can have (0, -1, 2**63). Ids can be guessed: check whose job it is before you show it.
        With `connection`, as that connection's transaction sees it: also a job that was enqueued in it.
        """
        keeper = keeper_of(self)
        if keeper is None and connection is not None:
            return (
                None if is_nobodys(job_id) else await on(connection, verbs.get(check_job_id(job_id)), self.lifecycle.unopened())
            )
        looked = self.opened_for(f"job {job_id} was asked for") if keeper is None else keeper
        return None if is_nobodys(job_id) else await looked.get(check_job_id(job_id))

    def get_sync(self, job_id: int, /, *, connection: SyncConnection | None = None) -> Job | None:
        """`get` in a thread without the app's loop (NotOpen, WouldBlock); on a synchronous `connection` in any, open or not."""
        if connection is not None and keeper_of(self) is None:
            return None if is_nobodys(job_id) else on_sync(connection, verbs.get(check_job_id(job_id)), self.lifecycle.unopened())
        happened = f"job {job_id} was asked for"
        return self.wait_in_loop(happened, "await jobs.get(...)", "get_sync", lambda: self.get(job_id))

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
        opened = await self._awaited([job_id], f"job {job_id} was waited for", timeout)
        if timeout == 0:  # a time-out of nothing would end before the first look
            return ended(job_id, await opened.get(job_id))
        return await opened.wait_final(job_id, timeout)

    async def watch(self, job_ids: Sequence[int], told: Callable[[], None], *, timeout: float | None) -> Watching:
        """Watch these jobs until they have ended. What waiting for many does with each app."""
        keeper = keeper_of(self)
        if keeper is not None:
            return await keeper.watch(job_ids, told, timeout=timeout)
        return Watch(await self._awaited(job_ids, f"{len(job_ids)} jobs were waited for", timeout), job_ids, told)

    async def _awaited(self, job_ids: Sequence[int], happened: str, timeout: float | None) -> OpenApp:
        opened = self.opened_for(happened)
        if timeout is None:
            await check_wait(self, opened, job_ids)
        return opened
