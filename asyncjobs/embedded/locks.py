"""flock: the kernel drops it however its holder dies, and it works between users' processes and containers of one machine."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from asyncjobs.embedded.errors import UnsupportedPlatform

_fcntl: ModuleType | None = None
with suppress(ModuleNotFoundError):
    import fcntl

    _fcntl = fcntl

_LOOK_SECONDS = 0.01


def require_flock() -> ModuleType:
    """The module with flock; raises `UnsupportedPlatform` where there is none."""
    if _fcntl is None:
        message = "embedded:// needs fcntl, which this system lacks (Windows?): give the DSN of a PostgreSQL that runs elsewhere."
        raise UnsupportedPlatform(message)
    return _fcntl


class Lock:
    """One open lock file. Programs that this process runs do not inherit it; a forked child does, and shares it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._module = require_flock()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def try_exclusive(self) -> bool:
        """Take it for this process alone; False when anyone else has it."""
        return self._try(self._module.LOCK_EX)

    def try_shared(self) -> bool:
        """Take it together with others; False when somebody has it exclusively."""
        return self._try(self._module.LOCK_SH)

    def _try(self, kind: int) -> bool:
        try:
            self._module.flock(self._fd, kind | self._module.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_current(self) -> bool:
        """Whether the path still names this file: False after the folder was removed, and maybe made anew."""
        try:
            there = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return self._fd >= 0 and os.path.samestat(there, os.fstat(self._fd))

    def release(self) -> None:
        """Give the lock back; it can be taken again."""
        self._module.flock(self._fd, self._module.LOCK_UN)

    def close(self) -> None:
        """Give the lock back and close the file. Twice is fine."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)


def is_held(path: Path) -> bool:
    """Whether somebody has the lock exclusively. The asking holds it shared for a moment: takers try more than once."""
    try:
        lock = Lock(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return not lock.try_shared()
    finally:
        lock.close()


def wait_for(condition: Callable[[], bool], seconds: float, *, every: float = _LOOK_SECONDS) -> bool:
    """Ask until the condition is true; False when it is not after that many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every)
    return True
