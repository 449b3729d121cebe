"""The process that owns postgres. The protocol is told in `asyncjobs.embedded`.

It has one thread: postgres is to end with the thread that started it. It imports only the standard library, and starts through
`launch.py`, because with all of asyncjobs it took 0.4 s more to start, and 40 MB.
"""

import json
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from asyncjobs.embedded.cluster import ensure_cluster, said_clearly
from asyncjobs.embedded.copies import executable_binaries
from asyncjobs.embedded.errors import EmbeddedError, ServerFailed
from asyncjobs.embedded.finder import major_version
from asyncjobs.embedded.layout import Layout, Order, State
from asyncjobs.embedded.locks import Lock, wait_for
from asyncjobs.embedded.postgres import Postgres
from asyncjobs.embedded.user import server_identity

#: How often it looks whether there are clients: a fortieth of the linger time, within these. Signals wake it at once.
_LOOK_SECONDS = (0.02, 0.25)
#: Those who only ask hold the lock for a moment.
_TAKE_SECONDS = 1.0
#: A postmaster that dies more often than this within a minute is given up.
_RESTARTS_A_MINUTE = 5


class Supervisor:
    """Runs postgres for as long as there are clients, and a while longer."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._layout = Layout(Path(order.folder))
        self._own = Lock(self._layout.supervisor_lock)
        self._start = Lock(self._layout.start_lock)
        self._clients = Lock(self._layout.clients_lock)
        self._bell = _Bell()
        self._look_seconds = min(max(_LOOK_SECONDS[0], order.linger / 40), _LOOK_SECONDS[1])
        self._postgres: Postgres | None = None
        self._major = 0
        self._restarts: deque[float] = deque(maxlen=_RESTARTS_A_MINUTE)
        self._unused_since: float | None = None

    def take(self) -> bool:
        """Become the folder's supervisor; False when there is one."""
        return wait_for(self._own.try_exclusive, _TAKE_SECONDS)

    def start(self) -> None:
        """Bring the server up and say so in the state file. Raises what the client is to raise."""
        with said_clearly(self._layout):
            self._make()
            self._up()

    def _make(self) -> None:
        order, identity = self._order, server_identity()
        binaries = executable_binaries(Path(order.binaries), identity)
        self._major = major_version(binaries)
        ensure_cluster(self._layout, binaries, self._major, identity, durable=order.durable)
        self._postgres = Postgres(self._layout, binaries, identity, settings=order.settings, durable=order.durable)

    def _up(self) -> None:
        server = self._server
        server.start()
        State(
            port=server.port,
            pid=server.pid,
            supervisor_pid=os.getpid(),
            major=self._major,
            durable=self._order.durable,
            settings=self._order.settings,
        ).write(self._layout.state)

    @property
    def _server(self) -> Postgres:
        if self._postgres is None:
            raise ServerFailed("not started")
        return self._postgres

    def watch(self) -> None:
        """Return when the server is no longer wanted; then clients that come wait for this process to end."""
        while not self._bell.told_to_end and self._own.is_current():
            if not self._server.is_running():
                self._restart()
            if self._is_unwanted():
                return
            self._bell.wait(self._look_seconds)

    def _restart(self) -> None:
        """The postmaster died by itself, or was killed: PostgreSQL recovers at its next start, on the same port if it can."""
        self._layout.state.unlink(missing_ok=True)
        now = time.monotonic()
        if len(self._restarts) == _RESTARTS_A_MINUTE and now - self._restarts[0] < 60:  # noqa: PLR2004 - a minute
            raise ServerFailed(f"postgres died {_RESTARTS_A_MINUTE + 1} times within a minute")
        self._restarts.append(now)
        _log("postgres died; starting it again")
        with said_clearly(self._layout):
            self._up()

    def _is_unwanted(self) -> bool:
        """Whether there was no client for the linger time, and none gets in any more."""
        if not self._clients.try_exclusive():
            self._unused_since = None
            return False
        self._clients.release()
        now = time.monotonic()
        if self._unused_since is None:
            self._unused_since = now
        if now - self._unused_since < self._order.linger or not self._start.try_exclusive():
            return False
        if self._clients.try_exclusive():
            return True
        self._start.release()
        return False

    def stop(self) -> None:
        """End the server. The locks go with the process."""
        self._layout.state.unlink(missing_ok=True)
        if self._postgres is not None:
            self._postgres.stop(at_once=not self._own.is_current())


class _Bell:
    """Signals end a wait at once: a child's end, and being told to end."""

    def __init__(self) -> None:
        self.told_to_end = False
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._tell)

    def _tell(self, _number: int, _frame: object) -> None:
        self.told_to_end = True

    def wait(self, seconds: float) -> None:
        """Until a signal, at most that long."""
        if select.select([self._reader], [], [], seconds)[0]:
            self._reader.recv(4096)


def _log(line: str) -> None:
    sys.stderr.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC [{os.getpid()}] supervisor: {line}\n")
    sys.stderr.flush()


def _answer(verdict: Mapping[str, str]) -> None:
    """Tell the client that waits, if it still does, and let go of it."""
    with suppress(BrokenPipeError):
        os.write(1, json.dumps(verdict).encode() + b"\n")
    os.dup2(2, 1)


def _detach() -> None:
    """Go on as a process that nobody has to wait for."""
    if os.fork() > 0:
        os._exit(0)


def main() -> None:
    """Run the order in the last argument."""
    _detach()
    supervisor = Supervisor(Order.decode(sys.argv[-1]))
    if not supervisor.take():
        _answer({})  # the client looks for the one that is there
        return
    try:
        supervisor.start()
        _answer({})
        supervisor.watch()
    except EmbeddedError as error:
        _log(str(error))
        _answer({"error": type(error).__name__, "message": str(error)})
    finally:
        supervisor.stop()


if __name__ == "__main__":
    main()
