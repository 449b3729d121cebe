"""Opening and closing an app: counted, in one loop, by whichever tasks.

The first `enter` resolves the DSN, starts the private PostgreSQL when that is asked for, and opens; the last `leave` closes. Two
that meet wait for each other. After a failed open, and after a fork, the next `enter` starts from nothing.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import current_thread
from typing import Any, Final, Protocol
from weakref import WeakSet

from asyncjobs.admin.desk import Ground
from asyncjobs.admin.on_connection import Unopened
from asyncjobs.circuit_breaker import CircuitBreaker
from asyncjobs.dsn import Dsn, resolve_dsn
from asyncjobs.errors import NotOpen
from asyncjobs.open.current_app import CLOSE_IT_THERE, check_loop, closed, opened, refuse_in_memory
from asyncjobs.open.other_threads import never_collected
from asyncjobs.open.owning_app import OwningApp
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.store import migrate
from asyncjobs.store.database import Database
from asyncjobs.store.migrate import Status
from asyncjobs.telemetry.events import EmbeddedStarted, Events
from asyncjobs.telemetry.logs import log_events


class OpeningApp(OwningApp, Protocol):
    """The app that is opened and closed."""

    @property
    def dsn(self) -> str | None:
        """Where its jobs are; None: as the environment says."""
        ...

    @property
    def events(self) -> Events:
        """Where it tells what happens."""
        ...

    @property
    def breakers(self) -> Mapping[str, CircuitBreaker]:
        """Its circuit breakers by service, once its declarations are closed."""
        ...

    @property
    def redactions(self) -> Mapping[str, Sequence[str]]:
        """Fields that nobody is shown, by type."""
        ...

    def close_declarations(self) -> None:
        """Hold its declarations together."""
        ...


class Lifecycle:
    """How often an app was entered, and what it holds meanwhile."""

    def __init__(self, app: OpeningApp) -> None:
        self._app = app
        self.opened: OpenApp | None = None
        self.thread_name = ""
        self._entered = 0
        self._turn: asyncio.Lock | None = None
        self._turn_in: asyncio.AbstractEventLoop | None = None
        self._server: Any = None  # of embedded://
        self._forget_logs: Callable[[], None] = _nothing
        self._texts: Database | None = None
        _all.add(self)

    async def enter(self) -> OpenApp:
        """Open the app, or count one more open of it. WrongLoop when it is open in another loop."""
        self._forget_gone()
        if self.opened is not None:
            check_loop(self.opened.loop, self.thread_name, instead=CLOSE_IT_THERE)
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn_in is not loop:
            self._turn, self._turn_in = asyncio.Lock(), loop
        self._entered += 1
        try:
            async with self._turn:
                if self.opened is None:
                    self.opened = await self._open()
                return self.opened
        except BaseException:
            self._entered -= 1
            raise

    async def leave(self) -> None:
        """Undo one `enter`; the last one closes."""
        if self._turn is None or self._entered == 0:
            raise NotOpen("AsyncJobs was left without having been entered.")
        async with self._turn:
            self._entered -= 1
            if self._entered == 0:
                await self._close()

    def _forget_gone(self) -> None:
        """What a parent process or a loop that has ended had opened is no use any more, and cannot be closed from here."""
        if self.opened is None:
            return
        is_fork = self.opened.pid != os.getpid()
        if is_fork or self.opened.loop.is_closed():
            closed(self._app)
            if not is_fork:
                self._let_go()
            self.opened, self._entered, self._turn, self._server = None, 0, None, None

    async def _open(self) -> OpenApp:
        self._app.close_declarations()
        dsn = resolve_dsn(self._app.dsn)
        self._forget_logs = log_events(self._app.events)
        try:
            database = self._database(dsn, await self._text_of(dsn))
            migrates = self._app.settings.auto_migrate or dsn.is_embedded
            policies = [breaker.policy for breaker in self._app.breakers.values()]
            running = await OpenApp.open(database, self._app.settings, self._app.events, migrates=migrates, breakers=policies)
        except BaseException:
            self._let_go()
            raise
        self.thread_name = current_thread().name
        opened(self._app)
        return running

    async def _close(self) -> None:
        closed(self._app)
        running, self.opened = self.opened, None
        try:
            if running is not None:
                await running.close()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._forget_logs()
        self._forget_logs = _nothing
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _text_of(self, dsn: Dsn) -> str:
        if not dsn.is_embedded:
            return dsn.text
        from asyncjobs.embedded import start

        self._server = await start(None if dsn.folder is None else Path(dsn.folder))
        self._app.events.emit(EmbeddedStarted(folder=str(self._server.folder), port=self._server.port))
        return str(self._server.dsn)

    def _database(self, dsn: Dsn, text: str | None = None) -> Database:
        settings = self._app.settings
        return Database(
            text or dsn.text,
            schema=settings.schema,
            place=dsn.place,
            connect_timeout=settings.reach_seconds,
            connect_kwargs=settings.connect_kwargs,
        )

    async def migrate(self) -> list[str]:
        """Bring the schema up to date; what was applied."""
        async with self.reached() as database:
            return await migrate.migrate(database)

    async def migrations(self) -> Status:
        """What is applied and what is not."""
        async with self.reached() as database:
            return await migrate.status(database)

    @asynccontextmanager
    async def reached(self) -> AsyncGenerator[Database]:
        """Where the jobs are, open or not and whatever state the schema is in; a private PostgreSQL is started for so long."""
        refuse_in_memory(self._app, "the database was asked for")
        if self.opened is not None and self.opened.pid == os.getpid():
            yield self.opened.database
            return
        dsn = resolve_dsn(self._app.dsn)
        try:
            yield self._database(dsn, await self._text_of(dsn))
        finally:
            self._let_go()

    @asynccontextmanager
    async def ground(self) -> AsyncGenerator[Ground]:
        """What the doctor stands on, whether the app is open or not."""
        async with self.reached() as database:
            yield Ground(database, self.listening_database(database), self._app.settings.runner_timeout)

    def migration_script(self) -> str:
        """All migrations as SQL."""
        return migrate.script(self.texts())

    def texts(self) -> Database:
        """The app's SQL, for a connection of somebody else's: whether it is open or not, and without a DSN."""
        schema = self._app.settings.schema
        if self._texts is None or self._texts.schema != schema:
            self._texts = Database("", schema=schema)
        return self._texts

    def unopened(self) -> Unopened:
        """What verbs on a connection of somebody else's need of the app."""
        refuse_in_memory(self._app, "a verb on a connection was called")
        return Unopened(self.texts(), self._app.settings, self._app.events, self._app.redactions)

    def database(self) -> Database:
        """Where the app's jobs are, whether it is open or not. NotOpen for embedded:// that nobody has started."""
        refuse_in_memory(self._app, "the database was asked for")
        if self.opened is not None and self.opened.pid == os.getpid():
            return self.opened.database
        dsn = resolve_dsn(self._app.dsn)
        if dsn.is_embedded:
            raise NotOpen("where embedded:// is, is not known before AsyncJobs is opened: open it first.")
        return self._database(dsn)

    def listening_database(self, database: Database) -> Database:
        """Where to LISTEN: around the pooler when there is a way."""
        given = self._app.settings.listen_dsn
        return database if given is None else self._database(resolve_dsn(given))


def _nothing() -> None:
    pass


_all: Final["WeakSet[Lifecycle]"] = WeakSet()


def _keep_what_is_the_parents() -> None:
    for one in _all:
        if one.opened is not None:
            never_collected(one.opened.loop, one.opened)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_keep_what_is_the_parents)
