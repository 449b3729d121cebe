"""flock, which the kernel drops however its holder dies."""

import os
from contextlib import suppress
from pathlib import Path

from asyncjobs.embedded.errors import UnsupportedPlatform

try:
    import fcntl
except ModuleNotFoundError:
    fcntl = None  # type: ignore[assignment]


def require_flock() -> None:
    """Raise `UnsupportedPlatform` where there is no flock."""
    if fcntl is None:
        message = "embedded:// needs fcntl, which this system (Windows?) lacks: give the DSN of a PostgreSQL that runs elsewhere."
        raise UnsupportedPlatform(message)


class Lock:
    """One open lock file. Not inherited by programs this process runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def try_exclusive(self) -> bool:
        """Take it for this process alone; False when anyone else has it."""
        return self._try(fcntl.LOCK_EX)

    def try_shared(self) -> bool:
        """Take it together with others; False when somebody has it exclusively."""
        return self._try(fcntl.LOCK_SH)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_current(self) -> bool:
        """Whether the path still names this file: False after the folder was removed, and maybe made anew."""
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._fd))

    def release(self) -> None:
        """Give the lock back; it can be taken again."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the lock back and close the file. Twice is fine."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)
