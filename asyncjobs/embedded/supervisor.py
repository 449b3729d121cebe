"""The process that owns postgres: `python -m asyncjobs.embedded.supervisor '<JSON>'`. The protocol is told in `asyncjobs.embedded`.

Only modules of the standard library are imported: it starts fast and stays small.
"""

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from asyncjobs.embedded.cluster import ensure_cluster
from asyncjobs.embedded.errors import EmbeddedError
from asyncjobs.embedded.finder import major_version
from asyncjobs.embedded.layout import Layout, State
from asyncjobs.embedded.locks import Lock
from asyncjobs.embedded.postgres import Postgres
from asyncjobs.embedded.process import adopt_orphans
from asyncjobs.embedded.user import executable_binaries, server_identity

_LOOK_SECONDS = 0.25
_ALREADY = "already"


@dataclass(frozen=True, slots=True)
class Order:
    """What a client asks a new supervisor to run."""

    folder: str
    binaries: str
    linger: float
    durable: bool
    settings: Mapping[str, str]

    def encode(self) -> str:
        """As the program's one argument."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> "Order":
        """From the program's one argument."""
        return cls(**json.loads(text))


class Supervisor:
    """Runs postgres for as long as there are clients, and a while longer."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._layout = Layout(Path(order.folder))
        self._own = Lock(self._layout.supervisor_lock)
        self._start = Lock(self._layout.start_lock)
        self._clients = Lock(self._layout.clients_lock)
        self._bell = _Bell()
        self._postgres: Postgres | None = None

    def take(self) -> bool:
        """Become the folder's supervisor; False when there is one."""
        return self._own.try_exclusive()

    def start(self) -> None:
        """Bring the server up and say so in the state file."""
        identity = server_identity()
        binaries = executable_binaries(Path(self._order.binaries), identity)
        major = major_version(binaries)
        self._layout.state.unlink(missing_ok=True)
        ensure_cluster(self._layout, binaries, major, identity, durable=self._order.durable)
        server = Postgres(self._layout, binaries, identity, settings=self._order.settings, durable=self._order.durable)
        server.start()
        self._postgres = server
        State(
            port=server.port,
            pid=server.pid,
            supervisor_pid=os.getpid(),
            major=major,
            durable=self._order.durable,
            settings=self._order.settings,
        ).write(self._layout.state)

    def watch(self) -> None:
        """Return when the server is no longer wanted, holding the locks that keep new clients waiting."""
        unused_since: float | None = None
        while not self._bell.told_to_end and self._own.is_current():
            assert self._postgres is not None
            if not self._postgres.is_running():
                return
            if self._clients.try_exclusive():
                self._clients.release()
                now = time.monotonic()
                unused_since = now if unused_since is None else unused_since
                if now - unused_since >= self._order.linger and self._close_door():
                    return
            else:
                unused_since = None
            self._bell.wait(_LOOK_SECONDS)

    def _close_door(self) -> bool:
        if not self._start.try_exclusive():
            return False
        if self._clients.try_exclusive():
            return True
        self._start.release()
        return False

    def stop(self) -> None:
        """End the server."""
        if self._postgres is not None:
            self._postgres.stop()
        self._layout.state.unlink(missing_ok=True)


class _Bell:
    """Signals end a wait at once: a child's end, and being told to end."""

    def __init__(self) -> None:
        self.told_to_end = False
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
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


def _answer(verdict: Mapping[str, str]) -> None:
    """Tell the client that waits, if it still does, and let it go."""
    try:
        os.write(1, json.dumps(verdict).encode() + b"\n")
    except BrokenPipeError:
        pass
    finally:
        os.dup2(2, 1)


def _detach() -> None:
    """Go on as a process that nobody has to wait for."""
    if os.fork() > 0:
        os._exit(0)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    adopt_orphans()


def main() -> None:
    """Run the order in the first argument."""
    _detach()
    supervisor = Supervisor(Order.decode(sys.argv[1]))
    if not supervisor.take():
        _answer({"error": _ALREADY, "message": ""})
        return
    try:
        supervisor.start()
        _answer({})
        supervisor.watch()
    except EmbeddedError as error:
        _answer({"error": type(error).__name__, "message": str(error)})
    finally:
        supervisor.stop()


if __name__ == "__main__":
    main()
