"""What a killed supervisor or a killed postmaster leaves running, and the pid file it leaves lying.

A postmaster whose supervisor was killed is shutting down by then (its parent-death signal), and the children of a killed
postmaster end when they notice. Both take their time, and while one of them runs, a new server must not start on the data.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

from asyncjobs.embedded.locks import wait_for

_PROC = Path("/proc")
_PID_FILE = "postmaster.pid"
#: SIGINT: a postmaster shuts down, a child cancels its query and looks around. Recovery at the next start makes SIGKILL safe.
_ENDS = ((signal.SIGINT, 30.0), (signal.SIGKILL, 10.0))


def end_leftovers(data: Path) -> None:
    """Return when no process of an earlier server works on the data. For the holder of the supervisor's lock only.

    Does nothing where there is no /proc: there PostgreSQL's own look at the pid file has to do.
    """
    if not _PROC.joinpath("self").exists() or not (data / _PID_FILE).exists():
        return
    for number, seconds in _ENDS:
        for pid in processes_on(data):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        if wait_for(lambda: not processes_on(data), seconds):
            break
    _remove_strangers_pid(data)


def processes_on(data: Path) -> list[int]:
    """The postgres processes whose working folder this is; they all have that of their server."""
    there = str(data.resolve())
    return [int(place.name) for place in _PROC.iterdir() if place.name.isdigit() and _is_postgres_in(place, there)]


def _is_postgres_in(place: Path, there: str) -> bool:
    try:
        return str((place / "cwd").readlink()) == there and (place / "comm").read_text().strip() == "postgres"
    except OSError:
        return False


def _remove_strangers_pid(data: Path) -> None:
    """Remove the pid file when its pid belongs to a process that is no server of this data.

    After a crash of the machine or the restart of a container, the pid of the old server is easily somebody else's, and
    PostgreSQL refuses to start as long as that process lives.
    """
    with suppress(FileNotFoundError, ValueError, IndexError):
        pid = int((data / _PID_FILE).read_text(encoding="utf-8").splitlines()[0])
        if _PROC.joinpath(str(pid)).exists() and pid not in processes_on(data):
            (data / _PID_FILE).unlink()
