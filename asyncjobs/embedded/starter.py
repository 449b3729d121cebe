"""One client's way to a server that is up: join the one that is there, or start it, with the start lock in hand."""

import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from asyncjobs.embedded import errors
from asyncjobs.embedded.cluster import data_major, said_clearly
from asyncjobs.embedded.errors import OtherSettings, ServerFailed
from asyncjobs.embedded.finder import find_binaries
from asyncjobs.embedded.layout import Layout, Order, State
from asyncjobs.embedded.locks import Lock, is_held

#: Recovery after a crash may take longer; then the next attempt finds a server that is further on.
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.01
_LOG_BYTES = 10_000_000
_ANSWER_SECONDS = 1.0
#: SSLRequest: https://www.postgresql.org/docs/current/protocol-message-formats.html
_ASK_FOR_TLS = struct.pack("!ii", 8, 80877103)
_PROGRAM = Path(__file__).with_name("launch.py")


@dataclass(frozen=True, slots=True)
class _Patience:
    """How long a caller waits."""

    folder: Path
    given_up: threading.Event
    deadline: float

    def pause(self, why: str) -> None:
        """Wait a moment; raises `ServerFailed` when the caller waits no longer."""
        if self.given_up.wait(_LOOK_SECONDS) or time.monotonic() > self.deadline:
            raise ServerFailed(f"gave up waiting for {self.folder}: {why}.")


class Starter:
    """What one client asked for, and how to get it, at first and when the server died."""

    def __init__(self, layout: Layout, *, linger: float, settings: Mapping[str, str], durable: bool) -> None:
        self.layout = layout
        self._linger = linger
        self._settings = settings
        self._durable = durable

    def join(self, given_up: threading.Event) -> tuple[State, str, Lock]:
        """The server, its password, and the lock that keeps it up."""
        patience = self._patience(given_up)
        with said_clearly(self.layout), self._door(patience):
            client = self._take(self.layout.clients_lock, Lock.try_shared, patience)
            try:
                state = self._running(patience) or self._spawn(patience)
                self._check(state)
                return state, self.layout.password.read_text(encoding="ascii"), client
            except BaseException:
                client.close()
                raise

    def again(self) -> State:
        """The server, for a client that has its lock already."""
        patience = self._patience(threading.Event())
        with said_clearly(self.layout), self._door(patience):
            return self._running(patience) or self._spawn(patience)

    def _patience(self, given_up: threading.Event) -> _Patience:
        return _Patience(self.layout.folder, given_up, time.monotonic() + _START_SECONDS)

    @contextmanager
    def _door(self, patience: _Patience) -> Generator[None]:
        lock = self._take(self.layout.start_lock, Lock.try_exclusive, patience)
        try:
            yield
        finally:
            lock.close()

    def _take(self, path: Path, take: Callable[[Lock], bool], patience: _Patience) -> Lock:
        while True:
            lock = Lock(path)
            if take(lock) and lock.is_current():
                return lock
            lock.close()
            patience.pause(f"another process holds {path}")

    def _running(self, patience: _Patience) -> State | None:
        """The server that is up, waited for if it is starting; None when there is no supervisor.

        A process that was just killed holds its locks for a moment, and what it said is still there: the server is asked, too.
        """
        while is_held(self.layout.supervisor_lock):
            state = State.read(self.layout.state)
            if state is not None and _answers(state.port):
                return state
            patience.pause("its supervisor has not brought the server up")
        return None

    def _spawn(self, patience: _Patience) -> State:
        layout = self.layout
        binaries = find_binaries(major=data_major(layout))
        # What a killed supervisor said must not be taken for the new one's word.
        layout.state.unlink(missing_ok=True)
        order = Order(str(layout.folder), str(binaries), self._linger, self._durable, self._settings)
        verdict = self._run_supervisor(order, patience)
        kind = getattr(errors, verdict.get("error", ""), None)
        if kind is not None:
            raise kind(verdict["message"])
        state = self._running(patience)
        if state is None:
            raise ServerFailed(f"the server ended at once; see {layout.log}.")
        return state

    def _run_supervisor(self, order: Order, patience: _Patience) -> dict[str, str]:
        self._shorten_log()
        with self.layout.log.open("ab") as log:
            begin = log.seek(0, os.SEEK_END)
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", _PROGRAM, order.encode()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        with process:
            answer = _read_line(process, patience)
        if not answer:
            raise ServerFailed(f"the supervisor ended without an answer; {self.layout.log} says: {self._log_from(begin)}")
        verdict: dict[str, str] = json.loads(answer)
        return verdict

    def _shorten_log(self) -> None:
        with suppress(FileNotFoundError):
            if self.layout.log.stat().st_size > _LOG_BYTES:
                self.layout.log.replace(self.layout.old_log)

    def _log_from(self, begin: int) -> str:
        with self.layout.log.open("rb") as log:
            log.seek(begin)
            return log.read().decode(errors="replace").strip()[-2000:]

    def _check(self, state: State) -> None:
        if self._durable and not state.durable:
            raise OtherSettings(f"the server in {self.layout.folder} runs with durable=False; this client wants durable=True.")
        differing = sorted(name for name, value in self._settings.items() if state.settings.get(name) != value)
        if differing:
            raise OtherSettings(f"the server in {self.layout.folder} was started with other settings: {', '.join(differing)}.")


def _answers(port: int) -> bool:
    """Whether a server replies to the question for TLS, which needs no password and leaves no line in the log.

    A connection alone proves nothing: the kernel accepts it for as long as a killed server's socket is there.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS) as connection:
            connection.sendall(_ASK_FOR_TLS)
            return connection.recv(1) in (b"N", b"S")
    except OSError:
        return False


def _read_line(process: "subprocess.Popen[bytes]", patience: _Patience) -> bytes:
    """The supervisor's answer; empty when it ended without one."""
    if process.stdout is None:
        return b""
    answer, fd = b"", process.stdout.fileno()
    while not answer.endswith(b"\n"):
        if not select.select([fd], [], [], _LOOK_SECONDS)[0]:
            patience.pause("it is still starting")
            continue
        part = os.read(fd, 65536)
        if not part:
            return b""
        answer += part
    return answer
