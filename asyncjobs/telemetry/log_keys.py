"""The keys that lines of the log carry while an attempt runs, by structlog's context variables.

`bind_contextvars` finds its variables anew each time; for each attempt that is as much work as to set them.

Whoever sets them imports this file then, and runners when they are made: structlog imports rich where that is installed, which
took a quarter of the time that `import asyncjobs` takes, and who enqueues needs neither.
"""

import contextvars
from contextvars import ContextVar
from typing import Any, Final

from structlog.contextvars import bind_contextvars


def _variable(name: str) -> ContextVar[Any]:
    return contextvars.Context().run(lambda: bind_contextvars(**{name: None})[name].var)


JOB_ID: Final = _variable("job_id")
JOB_TYPE: Final = _variable("job_type")
