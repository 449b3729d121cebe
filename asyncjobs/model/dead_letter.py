"""Dead letters: the records of jobs that failed for good, as operators see them."""

from datetime import datetime
from typing import Literal, TypedDict

import msgspec

from asyncjobs.model.job import Job

DeadLetterOutcome = Literal[
    "acknowledged",
    "acknowledged before",
    "requeued",
    "requeued before",
    "duplicate",
    "unknown",
    "busy",
    "unreadable",
    "member",
]


class DeadLetterFilter(TypedDict, total=False):
    """Which dead letters: all that is given must fit. None: not given."""

    type: str | None
    queue: str | None
    key: str | None  # serialization key
    correlation_id: str | None
    error: str | None  # a part of the error's text, in upper or lower case
    error_kind: str | None  # exactly this, as `dead_letter_errors` says it: numbers in it are `#`
    died_after: datetime | None  # then, or later
    died_before: datetime | None
    acknowledged: bool | None


class ErrorKind(msgspec.Struct, frozen=True):
    """Dead letters of one type whose errors differ by numbers only."""

    type: str
    kind: str  # the error's first line, with `#` for what differs
    count: int
    first_at: datetime
    last_at: datetime
    last_id: int  # of a dead letter, to look at


class DeadLetter(msgspec.Struct, frozen=True):
    """One dead letter in a list."""

    id: int
    job_id: int
    type: str
    queue: str
    serialization_key: str | None
    correlation_id: str | None
    error_message: str | None
    attempts: int
    died_at: datetime
    acknowledged: bool
    acknowledged_by: str | None
    acknowledged_at: datetime | None
    requeued_as: int | None  # the job that was made of it last
    requeue_count: int  # how often this work was requeued or started over, by this dead letter and those before it


class FoundDeadLetters(msgspec.Struct, frozen=True):
    """A page of dead letters, the newest first."""

    dead_letters: list[DeadLetter]
    next: int | None  # `before=` of the next page, which may be there even if this one is short; None: that was all
    looked: int  # dead letters that were looked at for it, a bounded number


class DeadLetterDetail(msgspec.Struct, frozen=True):
    """A dead letter with all that is known."""

    dead_letter: DeadLetter
    job: Job  # as it was when it died; `job.errors` are those of its attempts, the last ones if they were many, with tracebacks


class DeadLetterVerb(msgspec.Struct, frozen=True):
    """What a verb found and did."""

    dead_letter_id: int
    outcome: DeadLetterOutcome
    job_id: int | None = None  # the job that died
    new_id: int | None = None  # the job that was made of it
    new_status: str | None = None  # `waiting` behind others of its key, `paused`, or `pending`
    by: str | None = None  # who acknowledged it
    other_id: int | None = None  # of the live job that has the dedup key: nothing was made


class DeadLettersDone(msgspec.Struct, frozen=True):
    """What a verb on many did, or (`dry_run`) would do: how many dead letters came to which outcome."""

    outcomes: dict[DeadLetterOutcome, int]
    dry_run: bool

    @property
    def changed(self) -> int:
        """Dead letters that were changed, or would be."""
        return self.outcomes.get("acknowledged", 0) + self.outcomes.get("requeued", 0)
