"""What a handler may answer, and what an attempt ended in. Verdicts are values; an exception means a failed attempt."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias

import msgspec

from asyncjobs.model.discreet import discreet

Duration: TypeAlias = timedelta | float  # float: seconds


class Snooze(msgspec.Struct, frozen=True):
    """Come back after `delay` (seconds or a timedelta, at least 0) without spending an attempt."""

    delay: Duration


class Retry(msgspec.Struct, frozen=True):
    """This attempt failed: try again after `delay`, or after the type's back-off. The last attempt makes the job dead."""

    delay: Duration | None = None


class Cancel(msgspec.Struct, frozen=True):
    """Stop for good without a failure: the job ends `cancelled` with this reason."""

    reason: str


class Dead(msgspec.Struct, frozen=True):
    """Give up at once: the job ends `dead` with a dead letter, whatever attempts are left."""

    reason: str


Verdict: TypeAlias = Snooze | Retry | Cancel | Dead

OutcomeKind = Literal["completed", "retry", "snooze", "cancel", "dead", "interrupted"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What `decide` made of an attempt: what the ack writes."""

    kind: OutcomeKind
    delay_seconds: float = 0.0  # until run_at, from the server's now()
    result: str | None = None  # JSON text
    result_dropped: str | None = None
    message: str | None = None  # why it ended, at most 8 KiB
    error: Mapping[str, Any] | None = None  # one entry of the job's history of errors

    def __repr__(self) -> str:
        return discreet(self, "result")


#: How nearly all attempts end.
COMPLETED: Final = Outcome(kind="completed")


def refused(outcome: Outcome) -> Outcome:
    """A failed attempt in place of an outcome that the database does not take. A handler that did its work is not run again."""
    message = "the database refused to store the outcome of this attempt"
    if outcome.message:  # in letters that every database can hold
        message += f": {outcome.message.encode('ascii', 'backslashreplace').decode()}"
    kind: OutcomeKind = "retry" if outcome.kind == "retry" else "dead"
    error = {"type": "UnstorableResult", "message": message}
    return Outcome(kind=kind, delay_seconds=outcome.delay_seconds, message=message, error=error)
