"""How initdb and postgres are run: as the right user, in a clean environment, and never longer than the process that ran them."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class RunAs(TypedDict):
    """Keyword arguments of `subprocess.Popen` that choose the user."""

    user: int | None
    group: int | None
    extra_groups: list[int] | None


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the server runs as."""

    uid: int
    gid: int
    is_other: bool = False  # than the user of this process, which then is root

    def run_as(self) -> RunAs:
        """How to run a program as this user."""
        if not self.is_other:
            return {"user": None, "group": None, "extra_groups": None}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def give(self, path: os.PathLike[str]) -> None:
        """Make this user the owner of the path."""
        if self.is_other:
            os.chown(path, self.uid, self.gid)


def clean_environment() -> dict[str, str]:
    """This process's environment without what steers PostgreSQL's programs, and speaking English (the log is read)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_")) and name != "LANG"}
    return kept | {"LC_ALL": "C", "LANG": "C"}


def die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """What a child calls before exec to get the signal when its parent's thread ends. Linux only; elsewhere does nothing."""
    parent = os.getpid()
    prctl = _prctl()

    def arrange() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

    return arrange


def adopt_orphans() -> None:
    """Become the parent of whatever this process's descendants leave behind. Linux only; elsewhere does nothing."""
    prctl = _prctl()
    if prctl is not None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _prctl() -> "Callable[..., int] | None":
    return ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def as_options(settings: Mapping[str, str]) -> list[str]:
    """Server settings as command-line options."""
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
