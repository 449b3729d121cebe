"""Starting, sharing and letting go of a private PostgreSQL."""

import asyncio
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from asyncjobs.embedded import errors
from asyncjobs.embedded.cluster import data_major
from asyncjobs.embedded.errors import EmbeddedError, FolderUnusable, ServerFailed
from asyncjobs.embedded.finder import find_binaries
from asyncjobs.embedded.layout import DATABASE, ROLE, Layout, State
from asyncjobs.embedded.locks import Lock, require_flock
from asyncjobs.embedded.user import default_folder, prepare_folder, server_identity

_START_SECONDS = 120.0
_LOOK_SECONDS = 0.01


class Server:
    """A private PostgreSQL that is up, and stays up until this is closed (and lingers for others)."""

    def __init__(self, layout: Layout, state: State, password: str, lock: Lock) -> None:
        #: The folder with its data, its log and its locks.
        self.folder = layout.folder
        #: Its port on 127.0.0.1.
        self.port = state.port
        #: Its major version.
        self.major = state.major
        self._layout = layout
        self._password = password
        self._lock = lock

    @property
    def dsn(self) -> str:
        """Where the database `asyncjobs` is, password included."""
        return self.dsn_of(DATABASE)

    def dsn_of(self, database: str) -> str:
        """The same for another database on this server."""
        return f"postgresql://{ROLE}:{self._password}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def __repr__(self) -> str:
        """Without the password."""
        return f"<Server {self.folder} port={self.port}>"

    def close(self) -> None:
        """Stop being a client: the last one to do so lets the server end after its linger time. Twice is fine."""
        self._lock.close()

    def wait_stopped(self, timeout: float = 30.0) -> bool:
        """After `close`: wait until the server has ended; False when it has not, having other clients for instance."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not _has_supervisor(self._layout):
                return True
            time.sleep(_LOOK_SECONDS)
        return False


async def start(
    folder: Path | None = None, *, linger: float = 10.0, settings: Mapping[str, str] | None = None, durable: bool = True
) -> Server:
    """A private PostgreSQL with its data in the folder (None: this user's state folder), started unless it is up already."""
    given_up = threading.Event()
    work = asyncio.ensure_future(
        asyncio.to_thread(
            start_sync, folder, linger=linger, settings=settings, durable=durable, given_up=given_up.is_set
        )
    )
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        given_up.set()
        with contextlib.suppress(EmbeddedError):
            (await work).close()
        raise


def start_sync(
    folder: Path | None = None,
    *,
    linger: float = 10.0,
    settings: Mapping[str, str] | None = None,
    durable: bool = True,
    given_up: Callable[[], bool] = lambda: False,
) -> Server:
    """`start` without an event loop: blocks for 0.1 s when the server is up, for about a second when it is not."""
    require_flock()
    identity = server_identity()
    if folder is None:
        folder = default_folder(identity)
    else:
        folder = folder.absolute()
        prepare_folder(folder, identity)
    starter = _Starter(Layout(folder), linger=linger, settings=dict(settings or {}), durable=durable, given_up=given_up)
    return starter.run()


class _Starter:
    """One call of `start`."""

    def __init__(
        self, layout: Layout, *, linger: float, settings: Mapping[str, str], durable: bool, given_up: Callable[[], bool]
    ) -> None:
        self._layout = layout
        self._linger = linger
        self._settings = settings
        self._durable = durable
        self._given_up = given_up
        self._deadline = time.monotonic() + _START_SECONDS

    def run(self) -> Server:
        with contextlib.ExitStack() as undo:
            door = self._lock(self._layout.start_lock, Lock.try_exclusive)
            try:
                client = self._lock(self._layout.clients_lock, Lock.try_shared)
                undo.callback(client.close)
                state = self._state_of_running() or self._spawn()
                self._check(state)
                password = self._layout.password.read_text(encoding="ascii")
            finally:
                door.close()
            undo.pop_all()
            return Server(self._layout, state, password, client)

    def _lock(self, path: Path, take: Callable[[Lock], bool]) -> Lock:
        while True:
            lock = Lock(path)
            if take(lock) and lock.is_current():
                return lock
            lock.close()
            self._pause(f"another process holds {path}")

    def _pause(self, why: str) -> None:
        if self._given_up() or time.monotonic() > self._deadline:
            raise ServerFailed(f"gave up waiting for {self._layout.folder}: {why}.")
        time.sleep(_LOOK_SECONDS)

    def _state_of_running(self) -> State | None:
        """The server that is up, waited for if it is starting; None when there is no supervisor."""
        while _has_supervisor(self._layout):
            state = State.read(self._layout.state)
            if state is not None:
                return state
            self._pause("its supervisor has not brought the server up")
        return None

    def _spawn(self) -> State:
        from asyncjobs.embedded.supervisor import Order  # noqa: PLC0415 - not on Windows

        binaries = find_binaries(major=data_major(self._layout))
        order = Order(str(self._layout.folder), str(binaries), self._linger, self._durable, self._settings)
        verdict = self._run_supervisor(order.encode())
        if "error" in verdict and verdict["error"] != "already":
            raise getattr(errors, verdict["error"])(verdict["message"])
        state = self._state_of_running()
        if state is None:
            raise ServerFailed(f"the server ended at once; see {self._layout.log}.")
        return state

    def _run_supervisor(self, order: str) -> dict[str, str]:
        package = Path(__file__).parents[2]
        path = os.pathsep.join(filter(None, (str(package), os.environ.get("PYTHONPATH"))))
        with self._layout.log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "asyncjobs.embedded.supervisor", order],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                env=os.environ | {"PYTHONPATH": path},
                start_new_session=True,
            )
        with process:
            assert process.stdout is not None
            answer = self._read_line(process.stdout.fileno())
        if not answer:
            tail = self._layout.log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise ServerFailed(f"the supervisor ended without an answer; the last lines of {self._layout.log}: {tail}")
        verdict: dict[str, str] = json.loads(answer)
        return verdict

    def _read_line(self, fd: int) -> bytes:
        answer = b""
        while not answer.endswith(b"\n"):
            if select.select([fd], [], [], 0.1)[0]:
                part = os.read(fd, 65536)
                if not part:
                    return b""
                answer += part
            else:
                self._pause("the server is still starting")
        return answer

    def _check(self, state: State) -> None:
        if self._durable and not state.durable:
            raise FolderUnusable(f"the server in {self._layout.folder} runs without durability (durable=False), which was asked for.")
        differing = [name for name, value in self._settings.items() if state.settings.get(name) != value]
        if differing:
            raise FolderUnusable(f"the server in {self._layout.folder} is up with other settings: {', '.join(differing)}.")


def _has_supervisor(layout: Layout) -> bool:
    lock = Lock(layout.supervisor_lock)
    try:
        return not lock.try_shared()
    finally:
        lock.close()
