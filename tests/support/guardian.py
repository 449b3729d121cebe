"""What tests start ends with the test run, however that ends: a run that is killed tidies nothing up.

A small process in a session of its own is told through a pipe which groups of processes there are. The kernel closes the pipe
when the run is gone; then the guardian kills those that are left, with their children, whoever they run as by then.

with guarded(process.pid):
    …
"""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

_GUARDIAN = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    group = int(line)
    groups.add(group) if group > 0 else groups.discard(-group)
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


@contextmanager
def guarded(group: int) -> Generator[None]:
    """For as long as the block this group of processes does not outlive the run. It has to have a session of its own."""
    _tell(group)
    try:
        yield
    finally:
        _tell(-group)


def _tell(group: int) -> None:
    os.write(_pipe(os.getpid()), f"{group}\n".encode())


@cache
def _pipe(_run: int) -> int:
    """To the guardian of this run. The pipe stays open until the run is gone."""
    theirs, ours = os.pipe()
    command = [sys.executable, "-I", "-S", "-u", "-c", _GUARDIAN]
    subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.DEVNULL, start_new_session=True
    ).returncode = 0  # nobody waits for it
    os.close(theirs)
    return ours
