"""How initdb and postgres are run: as the right user, in a clean environment, and never longer than the process that ran them."""

import ctypes
import os
import signal
from collections.abc import Callable, Mapping

_PR_SET_PDEATHSIG = 1


def clean_environment() -> dict[str, str]:
    """This process's environment without what steers PostgreSQL's programs, and speaking English (their words are read)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return kept | {"LC_ALL": "C"}


def die_with_parent(number: signal.Signals) -> Callable[[], None]:
    """What a child calls before exec, to get the signal when the thread that started it ends. Linux only; elsewhere nothing.

    It must be called after the change of user, which clears the setting: as `preexec_fn` it is.
    """
    parent = os.getpid()
    prctl: Callable[..., int] | None = getattr(ctypes.CDLL(None), "prctl", None)

    def arrange() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return arrange


def as_options(settings: Mapping[str, str]) -> list[str]:
    """Server settings as command-line options."""
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
