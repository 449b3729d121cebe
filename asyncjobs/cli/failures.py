"""What goes wrong, as one line with the remedy and an exit code."""

from typing import Final

from asyncjobs.errors import (
    AsyncJobsError,
    BreakerNotFound,
    ConfigurationError,
    DatabaseUnavailable,
    DeadLetterNotFound,
    EnqueueError,
    JobNotFound,
    KeyNotFound,
    LimitNotFound,
    MissingDSN,
    ScheduleNotFound,
    SchemaError,
    SchemaMissing,
    SchemaOutdated,
    UsageError,
    WorkflowNotFound,
)
from asyncjobs.store.failures import DATABASE_ERRORS, POOLER_OPTIONS

DONE: Final = 0
NOT_DONE: Final = 1
BAD_INPUT: Final = 2
NOT_FOUND: Final = 3
NO_DATABASE: Final = 4
WARNED: Final = 5
ALARMED: Final = 6
BUG: Final = 70
INTERRUPTED: Final = 130

_NOT_FOUND: Final = (
    JobNotFound, KeyNotFound, ScheduleNotFound, BreakerNotFound, LimitNotFound, DeadLetterNotFound, WorkflowNotFound,
)  # fmt: skip


class BadInput(AsyncJobsError):
    """What was typed cannot be meant. The message names the remedy."""


class NothingFound(AsyncJobsError):
    """A filter that nothing fits. The message says which."""


def one_line(error: BaseException) -> tuple[str, int]:
    """What to say of it, and the exit code."""
    if isinstance(error, MissingDSN):
        where = "give --dsn, set $ASYNCJOBS_DSN, or name the app (--app package.module:jobs, or $ASYNCJOBS_APP)"
        return f"it is not known where the jobs are: {where}.", BAD_INPUT
    if isinstance(error, SchemaMissing | SchemaOutdated):
        return f"{str(error).partition(': run ')[0]}: run `asyncjobs migrate` with the same --app or --dsn.", NO_DATABASE
    return _flat(error), _code(error)


def _code(error: BaseException) -> int:
    if isinstance(error, (BadInput, ConfigurationError, UsageError, EnqueueError)):
        return BAD_INPUT
    if isinstance(error, (NothingFound, *_NOT_FOUND)):
        return NOT_FOUND
    if isinstance(error, (SchemaError, DatabaseUnavailable)):
        return NO_DATABASE
    if isinstance(error, AsyncJobsError):  # some are time-outs, too
        return NOT_DONE
    return NO_DATABASE if isinstance(error, DATABASE_ERRORS) else BUG


def _flat(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, DatabaseUnavailable | ConfigurationError) and POOLER_OPTIONS in text:
        return f"{text} Name an app that does, or the server's own --dsn."
    if isinstance(error, AsyncJobsError):
        return text
    if isinstance(error, OSError | TimeoutError):
        return f"the database cannot be reached: {text or type(error).__name__}. Is it up, and the DSN right?"
    if isinstance(error, DATABASE_ERRORS):
        return f"the database refused: {text or type(error).__name__}"
    return f"{type(error).__name__}: {text} (--debug shows where)"
