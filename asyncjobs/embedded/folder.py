"""Where a private PostgreSQL may be.

When root runs it, its data belong to another user, who must be able to reach them: never below a folder that is closed to
others, such as root's home. No folder but its own is ever opened for that.
"""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from asyncjobs.embedded.errors import FolderUnusable
from asyncjobs.embedded.layout import Layout
from asyncjobs.embedded.user import SERVER_USER, Identity

SYSTEM_STATE = Path("/var/lib/asyncjobs")


def default_folder(identity: Identity) -> Path:
    """The folder of this user's private PostgreSQL: the first of the usual places that can be made and reached."""
    refused: list[str] = []
    for folder in _default_folders(identity):
        try:
            prepare_folder(folder, identity)
            _require_own(folder)
        except FolderUnusable as error:
            refused.append(str(error))
        else:
            return folder
    raise FolderUnusable("no place for a private PostgreSQL; name one, as embedded:///folder. " + " ".join(refused))


def _default_folders(identity: Identity) -> Iterator[Path]:
    named = os.environ.get("XDG_STATE_HOME")
    if named and Path(named).is_absolute():
        yield Path(named) / "asyncjobs"
    with suppress(RuntimeError):  # no home
        yield Path.home() / ".local" / "state" / "asyncjobs"
    if identity.is_other:
        yield SYSTEM_STATE
    yield Path(tempfile.gettempdir()) / f"asyncjobs-{os.geteuid()}"


def _require_own(folder: Path) -> None:
    """Others may have been first in a temporary folder, where names can be guessed."""
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        raise FolderUnusable(f"{folder} is not a folder of this user's alone.")


def prepare_folder(folder: Path, identity: Identity) -> None:
    """Make the folder if it is missing: for this user alone; when this is root, others may pass through it, no more.

    Raises `FolderUnusable` when it cannot be made, is a data folder itself, or cannot be reached by the server's user.
    """
    _require_reachable(folder.parent, folder, identity)
    try:
        make_folders(folder, 0o711 if identity.is_other else 0o700)
        if (folder / "PG_VERSION").exists():
            raise FolderUnusable(f"{folder} is itself a data folder of PostgreSQL. Name another; data/ will be made in it.")
        if identity.is_other and _is_private(folder):
            folder.chmod(folder.stat().st_mode | 0o111)
    except OSError as error:
        raise FolderUnusable(f"{folder} cannot be made: {error.strerror} ({error.filename}).") from error
    _require_reachable(folder, folder, identity)


def _require_reachable(place: Path, folder: Path, identity: Identity) -> None:
    closed = closed_to(place, identity)
    if closed is not None:
        raise FolderUnusable(
            f"{folder} cannot be reached by user {SERVER_USER!r}, whom root runs PostgreSQL as: {closed} is closed to others. "
            f"Use a folder such as {SYSTEM_STATE}."
        )


def make_folders(folder: Path, mode: int) -> None:
    """Make the folder and those above it that are missing, with this mode whatever the umask."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        with suppress(FileExistsError):
            place.mkdir(mode=mode)
            place.chmod(mode)
    if not folder.is_dir():
        folder.mkdir()  # a file is in its place: raise what mkdir has to say about it


def _is_private(folder: Path) -> bool:
    """Whether nothing but a private PostgreSQL is in the folder: then its mode is our business."""
    return folder.stat().st_uid == os.geteuid() and (Layout(folder).start_lock.exists() or not any(folder.iterdir()))


def closed_to(folder: Path, identity: Identity) -> Path | None:
    """The topmost existing folder on the way that the identity cannot pass; None when there is none, or it is this user."""
    if not identity.is_other:
        return None
    resolved = folder.resolve()
    for place in (*reversed(resolved.parents), resolved):
        if place.exists() and not is_passable(place, identity):
            return place
    return None


def is_passable(place: Path, identity: Identity) -> bool:
    """Whether the identity may go through this folder, as far as its owner, group and mode say."""
    info = place.stat()
    if info.st_uid == identity.uid:
        return bool(info.st_mode & stat.S_IXUSR)
    if info.st_gid == identity.gid:
        return bool(info.st_mode & stat.S_IXGRP)
    return bool(info.st_mode & stat.S_IXOTH)
