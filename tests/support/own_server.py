"""A PostgreSQL of the test's own, to be stopped, killed, filled up and copied.

Its supervisor starts it again, on the same port, whatever ends it. `away` keeps the supervisor from doing so for a while.

with started(folder) as server:
    server.end("immediate")              # it recovers, and is back at once
    with server.away("crash"):
        …                                # nobody listens on its port
    await server.back()
"""

import os
import signal
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import psycopg

from asyncjobs.embedded.client import Server, start_sync
from asyncjobs.embedded.layout import DATABASE, Layout, State
from asyncjobs.embedded.leftovers import processes_on
from asyncjobs.embedded.locks import wait_for
from asyncjobs.testing.server import FAST
from tests.support.embedded import answers, copy_cluster, fetch
from tests.support.eventually import eventually

#: As the tests' server, but what was committed outlives the death of the server's processes.
SETTINGS: Final[Mapping[str, str]] = {**FAST, "synchronous_commit": "on", "shared_buffers": "32MB", "max_connections": "24"}

End = Literal["fast", "immediate", "crash"]
_SIGNALS: Final = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "crash": signal.SIGKILL}


class OwnServer:
    """A server that is up, in a folder of its own."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.layout = Layout(server.folder)
        self._ended: int | None = None  # the postmaster that was told to end
        self._database = DATABASE
        self._databases = 0

    @property
    def dsn(self) -> str:
        """Where its latest database is; the same after a restart."""
        return self.server.dsn_of(self._database)

    def fresh(self) -> None:
        """Make another database as its first one is."""
        self._databases += 1
        self._database = f"fresh_{self._databases}"
        strategy = "STRATEGY FILE_COPY" if self.server.major >= 15 else ""
        fetch(self.server.dsn_of("postgres"), f"CREATE DATABASE {self._database} TEMPLATE {DATABASE} {strategy}")

    def use(self, other: "OwnServer") -> None:
        """The database of the same name as the other's."""
        self._database = other._database

    def tidy(self) -> None:
        """Take back every change of settings."""
        self.fetch("ALTER SYSTEM RESET ALL")
        self.fetch("SELECT pg_reload_conf()")

    @property
    def address(self) -> str:
        """Its host and port."""
        return f"127.0.0.1:{self.server.port}"

    @property
    def _state(self) -> State:
        state = State.read(self.layout.state)
        assert state is not None
        return state

    def fetch(self, statement: str) -> Any:
        """The first value that a statement returns, in a connection of its own."""
        return fetch(self.dsn, statement)

    def set(self, **settings: str) -> None:
        """Change settings, said as SHOW says them, for sessions that begin from now on and soon for those that are there."""
        for name, value in settings.items():
            self.fetch(f"ALTER SYSTEM SET {name} = '{value}'")
        self.fetch("SELECT pg_reload_conf()")
        for name, value in settings.items():
            assert wait_for(partial(self._shows, name, value), 5), name

    def _shows(self, name: str, value: str) -> bool:
        return bool(self.fetch(f"SELECT current_setting('{name}') = '{value}'"))

    def reset(self, *names: str) -> None:
        """Take such changes back."""
        for name in names:
            self.fetch(f"ALTER SYSTEM RESET {name}")
        self.fetch("SELECT pg_reload_conf()")

    def kill_backend(self, role: str) -> int:
        """SIGKILL those who serve this role, and count them: PostgreSQL ends all others, too, and recovers."""
        pids = f"SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE application_name = 'asyncjobs {role}'"
        found = str(self.fetch(pids) or "").split()
        for pid in found:
            os.kill(int(pid), signal.SIGKILL)
        return len(found)

    def use_up_log(self) -> None:
        """Go on to the next file of the log until there is none, and the server stays away: it ends, or recovers in vain.

        Where it was something smaller that had no room, it may come back by itself, and has files left.
        """
        for _ in range(100):
            with suppress(psycopg.OperationalError):
                while True:
                    self.fetch("SELECT pg_switch_wal(), pg_logical_emit_message(true, 'asyncjobs', 'text')")
            if not wait_for(lambda: answers(self.dsn), 1):
                return
        raise AssertionError("the server goes on without room for its log")

    def end(self, how: End) -> None:
        """Tell the postmaster to end, and return at once. It comes back by itself."""
        self._ended = self._state.pid
        os.kill(self._ended, _SIGNALS[how])

    async def back(self) -> None:
        """Wait until the server that came after the one that was ended answers."""

        def is_back() -> bool:
            state = State.read(self.layout.state)
            return state is not None and state.pid != self._ended and answers(self.dsn)

        await eventually(is_back, description="the server is back", timeout=30)

    @contextmanager
    def away(self, how: End) -> Generator[None]:
        """End the server; for as long as the block it is down, and nobody starts it."""
        supervisor = self._state.supervisor_pid
        os.kill(supervisor, signal.SIGSTOP)
        try:
            self.end(how)
            assert wait_for(lambda: not processes_on(self.layout.data), 20), "it does not end"
            yield
        finally:
            os.kill(supervisor, signal.SIGCONT)

    @contextmanager
    def crowded(self) -> Generator[None]:
        """End the connections of asyncjobs and take every place there is, for as long as the block."""
        with ExitStack() as crowd:
            first = crowd.enter_context(psycopg.connect(self.dsn, autocommit=True))
            theirs = "FROM pg_stat_activity WHERE application_name LIKE 'asyncjobs %'"
            while True:
                first.execute(f"SELECT pg_terminate_backend(pid, 5000) {theirs}".encode())
                with suppress(psycopg.OperationalError):
                    while True:
                        crowd.enter_context(psycopg.connect(self.dsn, connect_timeout=5))
                if first.execute(f"SELECT count(*) {theirs}".encode()).fetchone() == (0,):
                    break
            yield


@contextmanager
def started(folder: Path, settings: Mapping[str, str] | None = None) -> Generator[OwnServer]:
    """A server on the data in this folder, down again at the end of the block."""
    server = start_sync(folder, linger=0, durable=False, settings={**SETTINGS, **(settings or {})})
    try:
        yield OwnServer(server)
    finally:
        server.close()
        server.wait_stopped()


@contextmanager
def standby_of(primary: OwnServer, folder: Path) -> Generator[OwnServer]:
    """A server that streams from this one, which waits for it at every commit."""
    with primary.away("fast"):
        copy_cluster(primary.layout.folder, folder)
    _follow(Layout(folder), primary)
    with started(folder) as standby:
        primary.set(synchronous_standby_names="standby")
        in_step = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')"
        assert wait_for(lambda: bool(primary.fetch(in_step)), 20), "the standby does not follow"
        yield standby


def _follow(layout: Layout, primary: OwnServer) -> None:
    parts = urlsplit(primary.dsn)
    conninfo = f"host={parts.hostname} port={parts.port} user={parts.username} password={parts.password}"
    with (layout.data / "postgresql.auto.conf").open("a") as configuration:
        configuration.write(f"primary_conninfo = '{conninfo} application_name=standby'\n")
    (layout.data / "standby.signal").touch()
