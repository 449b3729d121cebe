"""What a doctor looks at in a database: the signs. What it makes of them: `model/symptom.py`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec


class Transaction(msgspec.Struct, frozen=True):
    """A transaction that is open for long, or a session whose client does not read."""

    pid: int
    application: str
    state: str
    age_seconds: float
    query_start: datetime | None
    held: int | None = None  # how many transactions vacuum stands back for it; None: it has no snapshot
    unread: bool = False  # it does not come to the end of sending: no transaction that its client began


class TableUse(msgspec.Struct, frozen=True):
    """A table's rows, as the statistics have them."""

    name: str
    live: int
    dead: int
    left_out: bool  # of autovacuum


class LeaseAge(msgspec.Struct, frozen=True):
    """A duty's lease: seconds since it was renewed and since its duty's loop turned; None when nobody holds it."""

    duty: str
    runner_id: int | None
    renewed: float | None
    last_run: float | None
    failures: int = 0  # passes in a row that failed


#: Why the jobs behind a key's head wait: it is dead; to run later (a retry, a snooze); held by an operator; claimed by a runner
#: that is gone or silent.
BlockedBy: TypeAlias = Literal["dead", "later", "paused", "owner"]


class BlockedKeys(msgspec.Struct, frozen=True):
    """Keys whose line has not moved for long, for one reason."""

    by: BlockedBy
    count: int
    key: str  # that waits longest
    head_id: int | None
    age_seconds: float


class Held(msgspec.Struct, frozen=True):
    """A pause of more than one key, or an open circuit breaker, and the jobs that wait for it."""

    what: str  # as `queue "mail"`
    since: datetime | None
    until: datetime | None  # of a breaker: when it lets a probe through; None: when somebody resets it
    note: str
    jobs: int


class LimitTrouble(msgspec.Struct, frozen=True):
    """Limits that hold jobs up for long, or wrongly, or that programs declare differently."""

    why: Literal["closed", "full", "differs"]
    count: int  # keys, or runners
    name: str  # the first of them
    job_id: int  # by which a service has closed it; one that waits; the runner
    until: datetime | None
    running: int | None
    most: int | None


class SchemaState(msgspec.Struct, frozen=True):
    """The migrations of the schema, and those of this program."""

    name: str = "asyncjobs"
    applied: Sequence[str] = ()
    pending: Sequence[str] = ()
    unknown_breaking: Sequence[str] = ()
    renamed_from: str | None = None  # what it was called when its functions were made
    forgotten: Sequence[str] = ()  # of before the first release

    @property
    def is_readable(self) -> bool:
        """Whether this program's statements can be expected to work."""
        return not self.pending and not self.unknown_breaking and self.renamed_from is None and not self.forgotten


class Death(msgspec.Struct, frozen=True):
    """A runner that was declared dead."""

    runner_id: int
    host: str
    pid: int
    died_at: datetime


class Signs(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to see. With a schema that is not this program's, only what does not depend on it."""

    schema: SchemaState | None = None
    missing_indexes: Sequence[str] = ()
    invalid_indexes: Sequence[str] = ()
    tables: Sequence[TableUse] = ()
    transactions: Sequence[Transaction] = ()
    leases: Sequence[LeaseAge] = ()
    silent_runners: Sequence[tuple[int, str, int, float]] = ()  # id, host, pid, seconds since the last beat
    cut_off: Sequence[tuple[int, str, int, float]] = ()  # whose sessions have ended: id, host, pid, seconds since the last beat
    live_runners: int = 0  # that serve
    stopping: Sequence[tuple[int, str, int, float]] = ()  # that beat: id, host, pid, seconds since they were told to stop
    troubles: Sequence[tuple[int, str]] = ()  # runner, what its last beat said of a part of it
    unserved: Sequence[tuple[str, str, int]] = ()  # queue, type, jobs
    undeclared: Mapping[str, datetime | None] = {}  # types of those that no living runner declares: since when; None: never
    waits: Sequence[tuple[str, int, int]] = ()  # queue, jobs that wait for children of theirs there, slots
    held_by_hand: Sequence[tuple[str, int]] = ()  # type, jobs: `paused`, and nothing that asyncjobs knows of is
    sequences: Sequence[tuple[str, int, int]] = ()  # that are behind: name, last value, what their rows have reached
    blocked_keys: Sequence[BlockedKeys] = ()
    failed_schedules: Sequence[tuple[str, str]] = ()  # name, why
    cancelling: Sequence[tuple[int, str, float, int]] = ()  # workflows: id, name, seconds since it was asked for, members left
    broken: Sequence[tuple[int, str, int]] = ()  # workflows that broke lately: the last one's id and name, how many
    deaths: Sequence[Death] = ()  # lately, the last first
    now: datetime | None = None  # by the server's clock
    pauses: Sequence[Held] = ()
    breakers: Sequence[Held] = ()  # that are open
    limits: Sequence[LimitTrouble] = ()
    dead_letters: int = 0  # that nobody has acknowledged
    first_death_at: datetime | None = None  # of those
    oldest_pending: tuple[str, str, float] | None = None  # that a runner would take: queue, type, seconds since it was due
    failing: Sequence[tuple[str, int]] = ()  # types of which no attempt succeeded lately, and how many did not
    skew_seconds: float = 0.0
    pooled: bool = False
    connections: int = 0
    max_connections: int = 100
    autovacuum: bool = True
    isolation: str = "read committed"  # at which the app's sessions begin
