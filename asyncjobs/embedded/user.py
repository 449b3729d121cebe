"""Whom the server runs as, and where its folder and binaries may then be.

PostgreSQL refuses to run as root. Root therefore runs it as `nobody`, who owns the data folder, and who must be able to reach it
and to execute the binaries: neither may be below a folder that is closed to others, such as root's home.
"""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from asyncjobs.embedded.errors import FolderUnusable, ServerFailed
from asyncjobs.embedded.process import Identity

_SYSTEM_STATE = Path("/var/lib/asyncjobs")
_SERVER_USER = "nobody"


def server_identity() -> Identity:
    """This user; `nobody` when this is root."""
    if os.geteuid() != 0:
        return Identity(os.geteuid(), os.getegid())
    import pwd  # noqa: PLC0415 - not on Windows, where this module must be importable

    entry = pwd.getpwnam(_SERVER_USER)
    return Identity(entry.pw_uid, entry.pw_gid, is_other=True)


def default_folder(identity: Identity) -> Path:
    """The folder of this user's private PostgreSQL: the first of the usual places that can be made and reached."""
    refused: list[str] = []
    for folder in _default_folders(identity):
        try:
            prepare_folder(folder, identity)
        except FolderUnusable as error:
            refused.append(str(error))
        else:
            return folder
    raise FolderUnusable("no place for a private PostgreSQL: " + " ".join(refused) + " Name one: embedded:///folder")


def _default_folders(identity: Identity) -> Iterator[Path]:
    named = os.environ.get("XDG_STATE_HOME")
    if named and Path(named).is_absolute():
        yield Path(named) / "asyncjobs"
    with suppress(RuntimeError):
        yield Path.home() / ".local" / "state" / "asyncjobs"
    if identity.is_other:
        yield _SYSTEM_STATE
    yield Path(tempfile.gettempdir()) / f"asyncjobs-{os.geteuid()}"


def prepare_folder(folder: Path, identity: Identity) -> None:
    """Make the folder if it is missing, open to this user alone (and, when this is root, traversable by the server's user).

    Raises `FolderUnusable` when it cannot be made, belongs to somebody else, is a data folder itself, or cannot be reached.
    """
    closed = closed_to(folder, identity)
    if closed is not None:
        raise FolderUnusable(
            f"{folder} cannot be reached by the user {_SERVER_USER!r}, whom root runs PostgreSQL as: {closed} is closed to others. "
            f"Use a folder such as {_SYSTEM_STATE}."
        )
    try:
        folder.mkdir(mode=0o711 if identity.is_other else 0o700, parents=True, exist_ok=True)
        info = folder.stat()
    except OSError as error:
        raise FolderUnusable(f"{folder} cannot be made: {error.strerror}.") from error
    if info.st_uid != os.geteuid() or info.st_mode & stat.S_IWOTH:
        raise FolderUnusable(f"{folder} belongs to user {info.st_uid}, or others may write to it. Use a folder of your own.")
    if (folder / "PG_VERSION").exists():
        raise FolderUnusable(f"{folder} is itself a data folder of PostgreSQL. Name another; data/ will be made in it.")


def closed_to(folder: Path, identity: Identity) -> Path | None:
    """The topmost folder on the way that the identity cannot pass; None when it can reach the folder, or is this user."""
    if not identity.is_other:
        return None
    resolved = folder.resolve()
    for place in (*reversed(resolved.parents), resolved):
        if place.exists() and not _passable(place.stat(), identity):
            return place
    return None


def _passable(info: os.stat_result, identity: Identity) -> bool:
    if info.st_uid == identity.uid:
        return bool(info.st_mode & stat.S_IXUSR)
    if info.st_gid == identity.gid:
        return bool(info.st_mode & stat.S_IXGRP)
    return bool(info.st_mode & stat.S_IXOTH)


def executable_binaries(binaries: Path, identity: Identity) -> Path:
    """The binaries, or a copy of them (made once) when the identity cannot execute them where they are."""
    if _runs(binaries, identity):
        return binaries
    copy = _copies_folder() / _fingerprint(binaries) / binaries.relative_to(_installation(binaries).parent)
    if not _runs(copy, identity):
        _copy_installation(binaries, copy.parents[len(copy.relative_to(_copies_folder()).parts) - 2])
    if not _runs(copy, identity):
        raise ServerFailed(f"user {_SERVER_USER!r} can execute neither {binaries / 'postgres'} nor its copy in {copy}.")
    return copy


def _runs(binaries: Path, identity: Identity) -> bool:
    if not identity.is_other:
        return True
    try:
        done = subprocess.run(  # noqa: S603
            [binaries / "postgres", "-V"],
            capture_output=True,
            check=False,
            cwd="/",
            stdin=subprocess.DEVNULL,
            **identity.run_as(),
        )
    except (PermissionError, FileNotFoundError):
        return False
    return done.returncode == 0


def _copies_folder() -> Path:
    for place in (_SYSTEM_STATE, Path(tempfile.gettempdir()) / "asyncjobs-0"):
        folder = place / "binaries"
        with suppress(OSError):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            if folder.stat().st_uid == os.geteuid() and not folder.is_symlink():
                return folder
    raise FolderUnusable(f"no place for a copy of PostgreSQL's binaries: {_SYSTEM_STATE} cannot be made.")


def _installation(binaries: Path) -> Path:
    """What has to be copied for the binaries to run: the folder with bin, lib and share (the wheel: its package)."""
    return binaries.parent.parent if binaries.parent.name == "pginstall" else binaries.parent


def _fingerprint(binaries: Path) -> str:
    info = (binaries / "postgres").stat()
    return sha256(f"{binaries} {info.st_size} {info.st_mtime_ns}".encode()).hexdigest()[:16]


def _copy_installation(binaries: Path, target: Path) -> None:
    source = _installation(binaries)
    fresh = Path(tempfile.mkdtemp(prefix="new-", dir=target.parent))
    fresh.chmod(0o755)
    shutil.copytree(source, fresh / source.name, symlinks=True)
    libraries = source.with_name(source.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
    for place in (fresh, *fresh.rglob("*")):
        if not place.is_symlink():
            place.chmod(place.stat().st_mode | (0o755 if place.is_dir() or os.access(place, os.X_OK) else 0o644))
    try:
        fresh.rename(target)
    except OSError:  # somebody else was first
        shutil.rmtree(fresh, ignore_errors=True)
