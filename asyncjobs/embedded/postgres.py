"""One postgres process: started on a free port, watched until it is ready, stopped."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from asyncjobs.embedded.cluster import disk_full, disk_is_full
from asyncjobs.embedded.errors import ServerFailed
from asyncjobs.embedded.layout import Layout, replace_text
from asyncjobs.embedded.leftovers import end_leftovers
from asyncjobs.embedded.locks import wait_for
from asyncjobs.embedded.process import as_options, clean_environment, die_with_parent
from asyncjobs.embedded.user import Identity

_PORT_TRIES = 10
#: Recovery after a crash takes its time, and there is progress to wait for as long as the process lives.
_READY_SECONDS = 600.0
_LOOK_SECONDS = 0.005
_STATUS_LINE = 7
#: SIGINT rolls back and writes a checkpoint; SIGQUIT leaves that to the next start's recovery.
_STOPS = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))
_DEFAULTS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a socket's path is limited to 107 bytes
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "logging_collector": "off",
}
#: Commits still reach the kernel: only a crash of the machine can lose them.
_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}
_STATISTICS = "pg_stat_statements"


class Postgres:
    """The server in a data folder. `start` may be called again after the process ended."""

    def __init__(self, layout: Layout, binaries: Path, identity: Identity, *, settings: Mapping[str, str], durable: bool) -> None:
        self.port = 0
        self._layout = layout
        self._binaries = binaries
        self._identity = identity
        statistics = {"shared_preload_libraries": _STATISTICS} if _has_library(binaries, _STATISTICS) else {}
        self._options = _DEFAULTS | statistics | ({} if durable else _NOT_DURABLE) | dict(settings)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The postmaster's process id; 0 before the first start."""
        return self._process.pid if self._process else 0

    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait until connections are accepted. Raises `DiskFull` or `ServerFailed`."""
        end_leftovers(self._layout.data)
        said = ""
        for port in self._ports():
            said = self._try_start(port)
            if self.is_running():
                self.port = port
                replace_text(self._layout.last_port, str(port))
                return
            if "could not create any TCP/IP sockets" not in said:
                break
        if disk_is_full(said):
            raise disk_full(self._layout)
        raise ServerFailed(f"postgres did not start; the last lines of {self._layout.log}: {said.strip()[-2000:]}")

    def _ports(self) -> Iterator[int]:
        """The last one, so that a DSN outlives a restart; then free ones, each of which may be taken before postgres has it."""
        with suppress(FileNotFoundError, ValueError):
            yield int(self._layout.last_port.read_text(encoding="ascii"))
        for _ in range(_PORT_TRIES):
            yield free_port()

    def _try_start(self, port: int) -> str:
        """Start, and wait until it is ready or has ended. What it said."""
        with self._layout.log.open("ab") as log:
            begin = log.seek(0, os.SEEK_END)
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._layout.data, "-p", str(port), *as_options(self._options)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=clean_environment(),
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGINT),  # noqa: PLW1509 - the supervisor has one thread
                **self._identity.run_as(),
            )
        if not wait_for(lambda: self._is_ready() or not self.is_running(), _READY_SECONDS, every=_LOOK_SECONDS):
            self.stop()
        with self._layout.log.open("rb") as log:
            log.seek(begin)
            return log.read().decode(errors="replace")

    def _is_ready(self) -> bool:
        try:
            lines = (self._layout.data / "postmaster.pid").read_text(encoding="utf-8").split("\n")
        except FileNotFoundError:
            return False
        return lines[0] == str(self.pid) and len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() == "ready"

    def stop(self, *, at_once: bool = False) -> None:
        """End it: asked first (unless `at_once`), then told, then killed."""
        process = self._process
        if process is None:
            return
        for number, seconds in _STOPS[at_once:]:
            if process.poll() is None:
                process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
                return


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _has_library(binaries: Path, name: str) -> bool:
    """Whether PostgreSQL could load it; to preload one that is not there keeps the server from starting."""
    library = binaries.parent / "lib"
    places = (library, library / "postgresql")
    return any((place / f"{name}{suffix}").exists() for place in places for suffix in (".so", ".dylib"))
