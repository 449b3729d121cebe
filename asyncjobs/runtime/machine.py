"""Where this process runs, as far as its kernel can tell another process there that it is gone (`model/liveness.py`, rule 6)."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PIDS: Final = Path("/proc/self/ns/pid")


@cache
def machine() -> str | None:
    """The boot of this machine and the namespace of its process numbers: what has the same has one list of processes.

    None: not on Linux, or not to be known.
    """
    with suppress(OSError):
        return f"{_BOOT.read_text(encoding='ascii').strip()} {_PIDS.readlink()}"
    return None


def is_gone(pid: int) -> bool:
    """Whether the kernel has no process of this number, not even another user's. One that it has may be another by now."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
