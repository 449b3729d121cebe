"""Starting, sharing and letting go of a private PostgreSQL."""

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from asyncjobs.embedded.errors import EmbeddedError
from asyncjobs.embedded.folder import default_folder, prepare_folder
from asyncjobs.embedded.layout import DATABASE, ROLE, Layout, State
from asyncjobs.embedded.locks import Lock, is_held, require_flock, wait_for
from asyncjobs.embedded.starter import Starter
from asyncjobs.embedded.user import server_identity

_LOOK_SECONDS = 1.0
_MOST_SECONDS = 30.0


class Server:
    """A private PostgreSQL that is up, and is brought up again should it die, until this is closed."""

    def __init__(self, starter: Starter, state: State, password: str, lock: Lock) -> None:
        #: The folder with its data, its log and its locks.
        self.folder = starter.layout.folder
        #: Its port on 127.0.0.1. A restart keeps it, unless somebody took it meanwhile.
        self.port = state.port
        #: Its major version.
        self.major = state.major
        self._starter = starter
        self._password = password
        self._lock = lock
        self._closed = threading.Event()
        threading.Thread(target=self._keep_up, name="asyncjobs embedded", daemon=True).start()

    @property
    def dsn(self) -> str:
        """Where the database `asyncjobs` is, password included."""
        return self.dsn_of(DATABASE)

    def dsn_of(self, database: str) -> str:
        """The same for another database on this server."""
        return f"postgresql://{ROLE}:{self._password}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def __repr__(self) -> str:
        return f"<Server {self.folder} port={self.port}>"

    def close(self) -> None:
        """Be a client no longer: the server ends when it had none for its linger time. Twice is fine."""
        self._closed.set()
        self._lock.close()

    def wait_stopped(self, timeout: float = 30.0) -> bool:
        """After `close`: wait until the server has ended; False when it has not, having other clients for instance."""
        return wait_for(lambda: not is_held(self._starter.layout.supervisor_lock), timeout)

    def _keep_up(self) -> None:
        """Start another supervisor when the one that was there is gone. Clients that notice together start one together."""
        pause = _LOOK_SECONDS
        while not self._closed.wait(pause) and self._lock.is_current():
            pause = _LOOK_SECONDS
            if not is_held(self._starter.layout.supervisor_lock):
                try:
                    self.port = self._starter.again().port
                except (EmbeddedError, OSError):
                    pause = min(2 * pause, _MOST_SECONDS)


async def start(
    folder: Path | str | None = None, *, linger: float = 10.0, settings: Mapping[str, str] | None = None, durable: bool = True
) -> Server:
    """A private PostgreSQL with its data in the folder, started unless it is up already.

    Without a folder it is in this user's state folder. The first client decides how many seconds the server lingers after the
    last one (`linger`), its `settings`, and whether it survives a crash of the machine (`durable`; without, it is faster).

    Raises an `EmbeddedError`, whose kinds say what is to be done.
    """
    given_up = threading.Event()
    work = asyncio.create_task(
        asyncio.to_thread(start_sync, folder, linger=linger, settings=settings, durable=durable, given_up=given_up)
    )
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        given_up.set()
        work.add_done_callback(_let_go)
        await asyncio.wait({work})
        raise


def start_sync(
    folder: Path | str | None = None,
    *,
    linger: float = 10.0,
    settings: Mapping[str, str] | None = None,
    durable: bool = True,
    given_up: threading.Event | None = None,
) -> Server:
    """`start` for where there is no event loop. It blocks; setting `given_up` makes it raise `ServerFailed` soon."""
    require_flock()
    identity = server_identity()
    if folder is None:
        folder = default_folder(identity)
    else:
        folder = Path(folder).absolute()
        prepare_folder(folder, identity)
    starter = Starter(Layout(folder), linger=linger, settings=dict(settings or {}), durable=durable)
    return Server(starter, *starter.join(given_up or threading.Event()))


def _let_go(work: "asyncio.Task[Server]") -> None:
    if not work.cancelled() and work.exception() is None:
        work.result().close()
