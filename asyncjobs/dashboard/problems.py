"""What goes wrong with a request, as a status and a sentence. Nobody gets a traceback."""

from typing import Final

from asyncjobs.errors import (
    AsyncJobsError,
    BreakerNotFound,
    ConfigurationError,
    DeadLetterNotFound,
    EnqueueError,
    JobNotFound,
    KeyNotFound,
    LimitNotFound,
    NotOpen,
    ScheduleNotFound,
    SchemaError,
    StateError,
    UsageError,
    WorkflowNotFound,
    WrongLoop,
)
from asyncjobs.store.failures import DATABASE_ERRORS, is_unsendable


class Refused(AsyncJobsError):
    """A request that is not answered as it was meant. `.status`: the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class BadInput(Refused):
    """A query string, an id or a form that cannot be meant. The message says which part, and what would do."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


#: What is answered by a page; anything else is a mistake of ours, answered by a page and raised on.
EXPECTED: Final[tuple[type[Exception], ...]] = (AsyncJobsError, *DATABASE_ERRORS)


_STATUSES: Final[tuple[tuple[int, tuple[type[Exception], ...]], ...]] = (
    (404, (JobNotFound, KeyNotFound, WorkflowNotFound, ScheduleNotFound, BreakerNotFound, LimitNotFound, DeadLetterNotFound)),
    (503, (NotOpen, WrongLoop, SchemaError)),
    (409, (StateError,)),
    (400, (ConfigurationError, UsageError, EnqueueError)),
)


def answer_to(error: Exception) -> tuple[int, str]:
    """The status, and what to say."""
    if isinstance(error, Refused):
        return error.status, str(error)
    for status, kinds in _STATUSES:
        if isinstance(error, kinds):
            return status, str(error)
    if not isinstance(error, DATABASE_ERRORS):
        return 500, "Something went wrong here. The log of this process says what."
    if is_unsendable(error):
        return 400, "The database cannot look for this: it is too long, or has characters that no text of it can have."
    return 503, "The database does not answer. Jobs that run go on; this page works again when it does."
