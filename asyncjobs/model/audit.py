"""The trail of what operators did: one row a verb in the table `audit`. The rules:

1. A verb on a connection of asyncjobs' own is written down before it is done, and what came of it after it. A row without an
   `outcome` is of a verb that has not come back: its process died, or the database went away.
2. A verb on a caller's connection is written down there, in its transaction: with the commit, or not at all.
3. A verb that uses others (`retry_all`) is one row. One that only says what it would do (`dry_run`) is none.
4. What is changed by hand, in SQL, is written down by triggers where they cost no job anything: on pauses, schedules, breakers,
   dead letters, and on the trail itself. (None stands on `jobs`: every statement of every job would pay for it.)
5. Rows are deleted `keep_audit` after they were written.
"""

from datetime import datetime
from typing import Final, Literal, TypeAlias, TypedDict

import msgspec

from asyncjobs.model.storable import storable

Via: TypeAlias = Literal["python", "cli", "dashboard", "sql"]

#: Who an operator is that nobody named.
UNNAMED: Final = "operator"

_MOST: Final = 1_000


class Actor(msgspec.Struct, frozen=True):
    """Who uses verbs, from where, and why."""

    by: str = UNNAMED
    via: Via = "python"
    why: str | None = None


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """A verb that is being used."""

    verb: str
    target: str
    by: str
    via: Via
    why: str | None = None

    def storable(self) -> "Deed":
        """The same in texts that the database can hold, and of bounded length."""
        texts = {name: storable(value)[:_MOST] for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(self, **texts)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the trail."""

    id: int
    at: datetime
    ended_at: datetime | None
    by: str
    via: Via
    verb: str  # as `jobs.cancel`; of SQL, what it did: UPDATE
    target: str  # what it was done to, as `job 5`; of SQL, the table
    why: str | None  # of SQL, the statement
    outcome: str | None  # what came of it, or the kind of error; None: it has not come back


class AuditFilter(TypedDict, total=False):
    """Which entries: all that is given must fit. None: not given."""

    by: str | None
    verb: str | None  # this one, or (`jobs`) all that begin so
    target: str | None  # exactly this, as `job 5`
    via: Via | None
    since: datetime | None  # then or later
    until: datetime | None  # before


class Audited(msgspec.Struct, frozen=True):
    """A page of the trail, the newest first."""

    entries: list[Entry]
    next: int | None  # `before=` of the next page; None: that was all
