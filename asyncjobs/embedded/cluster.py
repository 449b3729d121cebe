"""The data folder: made whole or not at all, never deleted.

initdb works in a sibling of its own name; only a finished one is renamed to `data`. What a killed initdb left behind therefore
never has the name `data`, and is the only thing that is ever removed here.
"""

import errno
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from asyncjobs.embedded.errors import DiskFull, EmbeddedError, FolderUnusable, OtherMajorVersion, ServerFailed
from asyncjobs.embedded.layout import DATABASE, ROLE, Layout
from asyncjobs.embedded.process import as_options, clean_environment, die_with_parent
from asyncjobs.embedded.user import Identity

#: The databases that initdb makes, as folders below base/.
_INITIAL_DATABASES = frozenset({"1", "4", "5"})
_UNFINISHED = "data.new-"
_NO_SPACE = "No space left on device"


def data_major(layout: Layout) -> int | None:
    """The major version that the data folder belongs to; None while there is no data folder."""
    try:
        return int((layout.data / "PG_VERSION").read_text(encoding="ascii"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise FolderUnusable(f"{layout.data / 'PG_VERSION'} does not hold a version: the data folder is damaged.") from error


def ensure_cluster(layout: Layout, binaries: Path, major: int, identity: Identity, *, durable: bool) -> None:
    """Make the data folder if it is missing. For the holder of the supervisor's lock only."""
    _remove_unfinished(layout)
    if _is_complete(layout):
        _check_major(layout, binaries, major)
        return
    _set_aside_unfinished(layout)
    _create(layout, binaries, identity, durable=durable)


def disk_is_full(text: str) -> bool:
    """Whether the output of a program of PostgreSQL says that there was no space left."""
    return _NO_SPACE in text or "could not extend file" in text


def disk_full(layout: Layout) -> DiskFull:
    """The error to raise for it."""
    free = shutil.disk_usage(layout.folder).free
    return DiskFull(f"no space left on the file system of {layout.folder} ({free // 1_000_000} MB free; a new one takes 80 MB).")


@contextmanager
def said_clearly(layout: Layout) -> Generator[None]:
    """Errors of the file system become `DiskFull` and `FolderUnusable`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, EmbeddedError):
            raise
        if error.errno == errno.ENOSPC:
            raise disk_full(layout) from error
        raise FolderUnusable(f"{layout.folder} cannot be used: {error.strerror} ({error.filename}).") from error


def _is_complete(layout: Layout) -> bool:
    return data_major(layout) is not None and (layout.data / "global" / "pg_control").exists()


def _check_major(layout: Layout, binaries: Path, major: int) -> None:
    there = data_major(layout)
    if there != major:
        raise OtherMajorVersion(
            f"{layout.data} was written by PostgreSQL {there}; the binaries in {binaries} are {major}. Set $ASYNCJOBS_PG_BIN to "
            f"binaries of {there}, or convert the folder with pg_upgrade, or name another folder. Nothing was changed."
        )
    if not layout.password.is_file():
        raise FolderUnusable(f"{layout.data} was not made by asyncjobs: {layout.password.name} is missing. Name another folder.")


def _remove_unfinished(layout: Layout) -> None:
    for place in layout.folder.glob(_UNFINISHED + "*"):
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)


def _set_aside_unfinished(layout: Layout) -> None:
    """Rename what an interrupted initdb (not ours: ours has another name) left as `data`; refuse anything more than that."""
    if not layout.data.exists() or not any(layout.data.iterdir()):
        return
    base = layout.data / "base"
    databases = {place.name for place in base.iterdir()} if base.is_dir() else set[str]()
    if (layout.data / "global" / "pg_control").exists() or databases - _INITIAL_DATABASES:
        raise FolderUnusable(
            f"{layout.data} is damaged, but may hold a database: restore it or move it away. Nothing was changed."
        )
    layout.data.rename(layout.folder / f"data.incomplete-{secrets.token_hex(4)}")


def _create(layout: Layout, binaries: Path, identity: Identity, *, durable: bool) -> None:
    fresh = layout.folder / (_UNFINISHED + secrets.token_hex(4))
    password = fresh.with_name(fresh.name + ".password")
    try:
        fresh.mkdir(mode=0o700)
        identity.give(fresh)
        _write_password(password, identity)
        _initdb(layout, fresh, password, binaries, identity, durable=durable)
        password.rename(fresh / layout.password.name)
        _create_database(layout, fresh, binaries, identity, durable=durable)
        if layout.data.exists():
            layout.data.rmdir()
        fresh.rename(layout.data)
        if durable:
            _sync(layout.data)
            _sync(layout.folder)
    finally:
        _remove_unfinished(layout)


def _write_password(path: Path, identity: Identity) -> None:
    """A real file that the server's user owns: initdb reads it as that user, and no pipe."""
    path.touch(mode=0o600)
    path.write_text(secrets.token_urlsafe(24), encoding="ascii")
    identity.give(path)
    _sync(path)


def _initdb(layout: Layout, fresh: Path, password: Path, binaries: Path, identity: Identity, *, durable: bool) -> None:
    command: list[str | Path] = [binaries / "initdb", "-D", fresh, "-U", ROLE, "--pwfile", password, "--auth=scram-sha-256"]
    command += ["--encoding=UTF8", "--locale=C", *(() if durable else ("--no-sync",))]
    _run(layout, command, identity)


def _create_database(layout: Layout, fresh: Path, binaries: Path, identity: Identity, *, durable: bool) -> None:
    """In single-user mode (0.1 s): no server, no connection, and part of the whole-or-nothing."""
    fsync = as_options({"fsync": "on" if durable else "off"})
    command: list[str | Path] = [binaries / "postgres", "--single", "-D", fresh, *fsync, "postgres"]
    _run(layout, command, identity, statement=f"CREATE DATABASE {DATABASE} TEMPLATE template0\n")


def _run(layout: Layout, command: list[str | Path], identity: Identity, *, statement: str = "") -> None:
    done = subprocess.run(
        command,
        input=statement,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        cwd="/",
        env=clean_environment(),
        preexec_fn=die_with_parent(signal.SIGKILL),
        **identity.run_as(),
    )
    if done.returncode != 0 or "ERROR:" in done.stdout or "FATAL:" in done.stdout:
        if disk_is_full(done.stdout):
            raise disk_full(layout)
        raise ServerFailed(f"{Path(command[0]).name} failed ({done.returncode}): {done.stdout.strip()[-2000:]}")


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
