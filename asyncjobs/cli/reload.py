"""`asyncjobs run --reload`: the runner is a child, stopped and started anew when a Python file changes. For development only.

Files are looked at by their times, twice a second: no event of the system is needed, so it works on mounted folders, too. A child
that ended by itself (a syntax error) is started again after the next change, not before.
"""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from asyncjobs.open.signals import handled

_LOOK_SECONDS: Final = 0.5
_IGNORED: Final = {".git", ".venv", "venv", "node_modules", "__pycache__", "site-packages"}


def files_of(folder: Path) -> dict[Path, int]:
    """The Python files below the folder, with when they were changed."""
    found: dict[Path, int] = {}
    for path in folder.rglob("*.py"):
        if _IGNORED.isdisjoint(path.relative_to(folder).parts):
            try:
                found[path] = path.stat().st_mtime_ns
            except FileNotFoundError:
                continue
    return found


async def run_reloading(words: Sequence[str], *, folder: Path | None = None) -> int:
    """Run `asyncjobs` on these words, anew after each change, until a signal; the exit code of the last."""
    stopping = asyncio.Event()
    watched = folder or Path.cwd()
    with handled(stopping.set):
        while True:
            seen = await asyncio.to_thread(files_of, watched)
            child = await asyncio.create_subprocess_exec(sys.executable, "-m", "asyncjobs", *words, start_new_session=True)
            await _changed(watched, seen, stopping)
            if child.returncode is None:
                child.send_signal(signal.SIGTERM)
            code = await child.wait()
            if stopping.is_set():
                return 0 if code == -signal.SIGTERM else code  # it may not have been ready for the signal


async def _changed(folder: Path, seen: dict[Path, int], stopping: asyncio.Event) -> None:
    """Return after a change, or when it is time to stop."""
    while not stopping.is_set():
        try:
            await asyncio.wait_for(stopping.wait(), _LOOK_SECONDS)
        except TimeoutError:
            if await asyncio.to_thread(files_of, folder) != seen:
                return
