"""Binaries that the server's user can execute.

Root's virtual environments are often below its home, which is closed to the user that root runs PostgreSQL as. Then the binaries
are copied, once for each version of them, to where everybody can reach them.
"""

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from asyncjobs.embedded.errors import FolderUnusable, ServerFailed
from asyncjobs.embedded.folder import SYSTEM_STATE, closed_to, make_folders
from asyncjobs.embedded.locks import Lock, wait_for
from asyncjobs.embedded.user import SERVER_USER, Identity

_UNFINISHED = "new-"
_COPY_SECONDS = 120.0


def executable_binaries(binaries: Path, identity: Identity, *, copies: Path | None = None) -> Path:
    """The binaries where they are, or a copy of them when the identity cannot execute them there."""
    if not identity.is_other or _can_run(binaries, identity):
        return binaries
    source = _installation(binaries)
    target = (copies or _copies_folder(identity)) / _fingerprint(binaries)
    copied = target / source.name / binaries.relative_to(source)
    if not copied.exists():
        _copy(source, target)
    if not _can_run(copied, identity):
        raise ServerFailed(f"user {SERVER_USER!r} can execute neither {binaries / 'postgres'} nor its copy in {copied}.")
    return copied


def _can_run(binaries: Path, identity: Identity) -> bool:
    try:
        done = subprocess.run(
            [binaries / "postgres", "-V"],
            capture_output=True,
            check=False,
            cwd="/",
            stdin=subprocess.DEVNULL,
            **identity.run_as(),
        )
    except OSError:
        return False
    return done.returncode == 0


def _copies_folder(identity: Identity) -> Path:
    for place in (SYSTEM_STATE, Path(tempfile.gettempdir()) / f"asyncjobs-{os.geteuid()}"):
        folder = place / "binaries"
        with suppress(OSError):
            make_folders(folder, 0o711)
            if folder.stat().st_uid == place.lstat().st_uid == os.geteuid() and closed_to(folder, identity) is None:
                return folder
    raise FolderUnusable(f"no place for a copy of PostgreSQL's binaries: {SYSTEM_STATE} cannot be made.")


def _installation(binaries: Path) -> Path:
    """What has to be copied: the folder with bin, lib and share; of the wheel the package, which has its libraries beside it."""
    return binaries.parent.parent if binaries.parent.name == "pginstall" else binaries.parent


def _fingerprint(binaries: Path) -> str:
    info = (binaries / "postgres").stat()
    return sha256(f"{binaries} {info.st_size} {info.st_mtime_ns}".encode()).hexdigest()[:16]


def _copy(source: Path, target: Path) -> None:
    """All or nothing, and one process at a time."""
    lock = Lock(target.parent / "copy.lock")
    try:
        if not wait_for(lock.try_exclusive, _COPY_SECONDS):
            raise ServerFailed(f"another process has been copying to {target.parent} for {_COPY_SECONDS:.0f} s.")
        for place in target.parent.glob(_UNFINISHED + "*"):
            shutil.rmtree(place, ignore_errors=True)
        if target.exists():
            return
        fresh = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=target.parent))
        for folder in (source, source.with_name(source.name + ".libs")):
            if folder.is_dir():
                shutil.copytree(folder, fresh / folder.name, symlinks=True)
        _open_to_others(fresh)
        fresh.rename(target)
    finally:
        lock.close()


def _open_to_others(root: Path) -> None:
    for place in (root, *root.rglob("*")):
        if not place.is_symlink():
            mode = place.stat().st_mode
            executable = place.is_dir() or mode & 0o100
            place.chmod(mode | (0o755 if executable else 0o644))
