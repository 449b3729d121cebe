"""The keys that lines of the log carry while an attempt runs, by structlog's context variables.

`bind_contextvars` finds its variables anew each time; for each attempt that is as much work as to set them.

Runners import this file when they are made, and hand `name_job` to their attempts: structlog imports rich where that is
installed, which took a quarter of the time that `import asyncjobs` takes, and who enqueues needs neither.
"""

import contextvars
from contextvars import ContextVar
from typing import Any, Final

from structlog.contextvars import bind_contextvars


def _variable(name: str) -> ContextVar[Any]:
    return contextvars.Context().run(lambda: bind_contextvars(**{name: None})[name].var)


_JOB_ID: Final = _variable("job_id")
_JOB_TYPE: Final = _variable("job_type")


def name_job(job_id: int, job_type: str) -> None:
    """From now on lines of this context carry them."""
    _JOB_ID.set(job_id)
    _JOB_TYPE.set(job_type)
