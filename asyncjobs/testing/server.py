"""The PostgreSQL that tests run on: one of yours when you name it, else an embedded one of the tests' own.

Its data are in memory where there is room: a database is made for each test, and to copy its 400 files and remove them took
33 ms of a core on a disk's file system and 11 ms in memory (measured). Memory is not given back when a program is killed:
what it left is removed by the next.
"""

import os
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from asyncjobs.embedded import start_sync
from asyncjobs.embedded.locks import Lock

#: Speed for safety: nobody misses a test's data.
FAST: Final[Mapping[str, str]] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    "jit": "off",
    "autovacuum_naptime": "5min",
}

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - folders there have names that cannot be guessed, as in /tmp
_PREFIX: Final = "asyncjobs-"
_IN_USE: Final = "in-use"  # locked for as long as the folder is needed
#: What a busy server of tests may come to, several times over: there may be one for each worker of a run.
_ROOM_BYTES: Final = 4 << 30


@contextmanager
def server(settings: Mapping[str, str] | None = None) -> Generator[str]:
    """The DSN of a server for tests: $ASYNCJOBS_TEST_DSN, whose role may create databases, else that of an embedded one.

    The embedded one (extra `embedded`) starts in about a second, with these settings besides its fast ones, and is gone with its
    data at the end of the block: in memory (`/dev/shm`) where 4 GiB are free and $TMPDIR is not set. Make databases on it with
    `databases(dsn)`.
    """
    yours = os.environ.get("ASYNCJOBS_TEST_DSN")
    if yours:
        yield yours
        return
    with temporary({**FAST, **(settings or {})}, durable=False) as dsn:
        yield dsn


@contextmanager
def temporary(settings: Mapping[str, str], *, durable: bool) -> Generator[str]:
    """The DSN of an embedded server that is gone with its data at the end of the block."""
    with temporary_folder(None if durable else in_memory()) as folder:
        started = start_sync(folder / "server", linger=0, durable=durable, settings=settings)
        try:
            yield started.dsn
        finally:
            started.close()
            started.wait_stopped()


def in_memory(place: Path = _MEMORY) -> Path | None:
    """Where files are in memory, if there is such a place with room for a server, and $TMPDIR names no other."""
    try:
        has_room = shutil.disk_usage(place).free >= _ROOM_BYTES and os.access(place, os.W_OK)
    except OSError:
        return None
    return place if has_room and "TMPDIR" not in os.environ else None


@contextmanager
def temporary_folder(place: Path | None) -> Generator[Path]:
    """A folder of the block's own there (None: where temporary files are), gone at its end."""
    if place is not None:
        remove_left(place)
    folder, in_use = _locked_folder(place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        in_use.close()


def _locked_folder(place: Path | None) -> tuple[Path, Lock]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        folder.chmod(0o755)  # a server that root starts runs as nobody
        in_use = Lock(folder / _IN_USE)
        if in_use.try_exclusive() and in_use.is_current():
            return folder, in_use
        in_use.close()  # before it was locked, somebody took it for one that was left


def remove_left(place: Path) -> None:
    """Remove the folders there whose programs were killed: nobody holds their lock any more."""
    for marker in place.glob(f"{_PREFIX}*/{_IN_USE}"):
        with suppress(OSError), closing(Lock(marker)) as left:
            if left.try_exclusive():
                shutil.rmtree(marker.parent, ignore_errors=True)
