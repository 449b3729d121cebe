"""One postgres process: started on a free port, watched until it is ready, stopped."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from asyncjobs.embedded.cluster import disk_full, disk_is_full
from asyncjobs.embedded.errors import ServerFailed
from asyncjobs.embedded.layout import Layout, replace_text
from asyncjobs.embedded.process import Identity, as_options, clean_environment, die_with_parent

_PORT_TRIES = 10
_READY_SECONDS = 300.0
_LOOK_SECONDS = 0.005
#: SIGINT rolls back and writes a checkpoint; SIGQUIT leaves that to the next start's recovery.
_STOPS = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))
_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Postgres:
    """The server in a data folder. `start` may be called again after the process ended."""

    def __init__(
        self, layout: Layout, binaries: Path, identity: Identity, *, settings: Mapping[str, str], durable: bool
    ) -> None:
        self.port = 0
        self._layout = layout
        self._binaries = binaries
        self._identity = identity
        self._options = self._defaults() | ({} if durable else _NOT_DURABLE) | dict(settings)
        self._process: subprocess.Popen[bytes] | None = None

    def _defaults(self) -> dict[str, str]:
        defaults = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",  # their path is limited to 107 bytes
            "max_connections": "200",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "logging_collector": "off",
        }
        if _has_library(self._binaries, "pg_stat_statements.so"):
            defaults["shared_preload_libraries"] = "pg_stat_statements"
        return defaults

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        return self._process.pid if self._process else 0

    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait until connections are accepted. Raises `DiskFull` or `ServerFailed`."""
        for port in self._ports():
            said = self._try_start(port)
            if said is None:
                self.port = port
                replace_text(self._layout.last_port, str(port))
                return
            if "could not create any TCP/IP sockets" not in said:
                break
        if disk_is_full(said):
            raise disk_full(self._layout)
        raise ServerFailed(f"postgres ended while starting; the last lines of {self._layout.log}: {said.strip()[-2000:]}")

    def _ports(self) -> Iterator[int]:
        with suppress(FileNotFoundError, ValueError):
            yield int(self._layout.last_port.read_text(encoding="ascii"))
        for _ in range(_PORT_TRIES):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port: int = probe.getsockname()[1]
            yield port

    def _try_start(self, port: int) -> str | None:
        """None when it is ready, else what it said before it ended."""
        with self._layout.log.open("ab") as log:
            begin = log.seek(0, os.SEEK_END)
            self._process = subprocess.Popen(  # noqa: S603
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
        if self._wait_ready(self._process):
            return None
        with self._layout.log.open("rb") as log:
            log.seek(begin)
            return log.read().decode(errors="replace")

    def _wait_ready(self, process: "subprocess.Popen[bytes]") -> bool:
        deadline = time.monotonic() + _READY_SECONDS
        while process.poll() is None:
            if self._says_ready(process.pid):
                return True
            if time.monotonic() > deadline:
                self.stop()
                return False
            time.sleep(_LOOK_SECONDS)
        return False

    def _says_ready(self, pid: int) -> bool:
        try:
            lines = (self._layout.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"  # noqa: PLR2004 - its eighth line

    def stop(self) -> None:
        """End it: asked first, then told, then killed."""
        process = self._process
        if process is None:
            return
        for number, seconds in _STOPS:
            if process.poll() is None:
                process.send_signal(number)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
            return


def _has_library(binaries: Path, name: str) -> bool:
    library = binaries.parent / "lib"
    return any((place / name).exists() for place in (library, library / "postgresql"))
