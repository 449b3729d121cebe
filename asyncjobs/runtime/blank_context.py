"""The context that each attempt begins with: empty, but that the variables which every attempt sets are there already.

To set a variable that is there takes half of what it takes to add one, and a copy of a context costs nothing.
"""

import contextvars
from contextvars import ContextVar
from typing import Final

from asyncjobs.context import current
from asyncjobs.telemetry.log_keys import JOB_ID, JOB_TYPE

#: The attempt for which the current task works: the handler's own, or one that it started.
running: ContextVar[object] = ContextVar("asyncjobs_running_attempt", default=None)


def _fill() -> None:
    running.set(None)
    current.set(None)
    JOB_ID.set(...)  # structlog's word for a variable that is not set
    JOB_TYPE.set(...)


BLANK: Final = contextvars.Context()
BLANK.run(_fill)
