"""How an app and its runners are in this process."""

import os
from collections.abc import Sequence

from asyncjobs.runner import Runner
from asyncjobs.runtime.health import Health
from asyncjobs.runtime.open_app import OpenApp


def health_of(opened: OpenApp | None, runners: Sequence[Runner], *, needs_runner: bool) -> Health:
    """What `AsyncJobs.health` answers; `opened` is None when the app is closed."""
    here = opened if opened is not None and opened.pid == os.getpid() else None
    living = () if here is None else runners
    troubles = [] if here is None else [*here.parts.troubles()]
    if opened is not None and opened.has_ended:
        troubles.append("the app's own task was ended from outside: it is closed, and has to be opened again")
    for runner in living:
        troubles += runner.heartbeat.troubles()
    healths = [runner.health() for runner in living]
    return Health(is_open=here is not None, runners=healths, troubles=troubles, needs_runner=needs_runner)
