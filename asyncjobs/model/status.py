"""The statuses of a job, and the one table of moves between them. SQL and Python are both held against it by tests."""

from typing import Final, Literal, get_args

Status = Literal["waiting", "scheduled", "pending", "processing", "failed", "completed", "dead", "cancelled", "paused", "blocked"]

STATUSES: Final[tuple[Status, ...]] = get_args(Status)

FINAL: Final[frozenset[Status]] = frozenset({"completed", "dead", "cancelled"})

#: status -> the statuses that may follow it. An operator's retry of a final job is the only way out of a final status. What does
#: not run becomes failed only within the ack of an attempt that gave the job back, or snoozed it, although it was to be failed.
TRANSITIONS: Final[dict[Status, frozenset[Status]]] = {
    "waiting": frozenset({"pending", "paused", "scheduled", "cancelled", "dead"}),
    "scheduled": frozenset({"pending", "waiting", "paused", "cancelled", "dead", "failed"}),
    "pending": frozenset({"processing", "scheduled", "paused", "waiting", "cancelled", "dead", "failed"}),
    "processing": frozenset({"completed", "failed", "scheduled", "pending", "paused", "dead", "cancelled"}),
    "failed": frozenset({"pending", "paused", "dead", "cancelled"}),
    "paused": frozenset({"pending", "waiting", "cancelled", "dead", "failed"}),
    "blocked": frozenset({"pending", "paused", "scheduled", "cancelled", "dead"}),
    "completed": frozenset(),
    "dead": frozenset({"pending", "waiting", "blocked"}),
    "cancelled": frozenset({"pending", "waiting", "blocked"}),
}


def in_words(status: str) -> str:
    """The status as people read it. Tables, filters and `--json` have its name: `failed` reads as if nothing were to come."""
    return "to be retried" if status == "failed" else status
