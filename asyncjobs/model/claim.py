"""What a runner asks for, what it gets, and what it writes back: the values that cross between runtime and store."""

import math
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final

import msgspec

from asyncjobs.model.discreet import discreet
from asyncjobs.model.job import Job
from asyncjobs.model.outcome import COMPLETED, Outcome, refused
from asyncjobs.model.status import FINAL, Status
from asyncjobs.model.storable import cut, in_ascii
from asyncjobs.model.trace import own_trace

#: Where a scan starts when it starts at the front: before every (priority, place), whatever priority SQL has given a job.
FRONT: Final = (-32768, -1)
#: Instead of a priority: the scan takes jobs by age, from the front; the place is what a level of priority is worth, in us.
AGED: Final = -32769


_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Scan(msgspec.Struct, frozen=True):
    """One walk of the claim's index: at most `limit` jobs of a queue, of one lane or (None) of any, from behind `start`."""

    queue: str
    lane: str | None
    limit: int
    start: tuple[int, int] = FRONT
    slots: int | None = (
        None  # of these what can start at once (None: all): nothing else may wait for a slot with a limit, or be a suspect
    )

    ahead: int = 0  # of what is left of `limit`, how many followers of heads it may bring (`runtime/followers.py`)
    is_ahead: bool = False  # whether it starts where a full one ended, and not where a scan starts that is to see everything

    @property
    def has_slot(self) -> bool:
        """Whether what it finds can start at once."""
        return self.slots is None or self.slots > 0

    @property
    def most_limited(self) -> int:
        """How many of what it finds may have a limit."""
        return self.limit if self.slots is None else min(self.limit, self.slots)


class Probe(msgspec.Struct, frozen=True):
    """Types of which a call claims at most `limit` jobs in all, from the front: their circuit breaker lets no more through."""

    types: tuple[str, ...]
    limit: int


class Claimed(msgspec.Struct, frozen=True):
    """A job that is ours for one attempt. Its fields are the columns that `finish` returns, in their order; those with a default
    are what is in the last of these, which most jobs do not have.

    Instants are seconds since 1970, exact to the microsecond: a datetime takes 0.7 µs to make, four of them a tenth of what a job
    that does nothing costs here, and few handlers look at one.
    """

    scan: int
    queue: str
    id: int
    token: int
    type: str
    version: int
    payload: str
    priority: int
    place: int
    attempt: int
    max_attempts: int
    scheduled_epoch: float
    run_epoch: float
    started_epoch: float
    created_epoch: float
    serialization_key: str | None
    lane: str | None = None
    timeout_seconds: float | None = None
    snoozes: int = 0
    rescues: int = 0
    losses: int = 0  # of these, in a row, with nobody to blame
    suspicion: int = 0  # its degree, if it is on probation
    correlation_id: str | None = None
    parent_job_id: int | None = None
    created_by: str | None = None
    dedup_key: str | None = None
    requeued_from: int | None = None
    trace_context: str | None = None
    progress: str | None = None
    last_error: str | None = None
    tags: list[str] = []
    limit_key: str | None = None
    keep_payload: bool | None = None
    expires_epoch: float | None = None  # when it expires
    workflow_id: int | None = None  # whose member it is: its end may make others pending
    start_by: float = math.inf  # the same by this process's own clock (`boottime`), in time at the latest
    followers: Any = None  # `runtime/followers.py`: those that were claimed behind it
    number: int = 0  # of a follower: how many were claimed in front of it

    def __repr__(self) -> str:
        return discreet(self, "payload", "progress", "followers")


class Ack(msgspec.Struct, frozen=True):
    """The outcome of an attempt, addressed by job and claim token."""

    id: int
    token: int
    outcome: Outcome
    key_queue: str | None = None  # of a job with a serialization key: its queue, where the key's next job is most likely to be
    progress: str | None = None  # how far the attempt was, as JSON, if that is not written yet
    start_by: float = math.inf  # when the job expires, as its claim said it
    followers: Any = None  # of the run whose job it is: outcomes that are in front of it are written first
    number: int = 0  # of a follower: see Claimed

    @property
    def status(self) -> Status:
        """What the attempt makes of the job. An interrupted job that is to wait a moment is scheduled, not pending."""
        if self.outcome.kind == "interrupted" and self.outcome.delay_seconds > 0:
            return "scheduled"
        return _STATUS[self.outcome.kind]

    @property
    def final_status(self) -> Status:
        """What the job becomes when an operator's request has been obeyed, too."""
        return self.status if self.outcome.asked_for is None else _STATUS[self.outcome.asked_for]

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self.outcome is COMPLETED or self.final_status in FINAL


_LONGEST_NOTE: Final = 1000  # bytes


def progress_text(done: float, note: str) -> str:
    """How far an attempt is, as JSON that the database takes: what a handler says on the way never fails its job."""
    return msgspec.json.encode({"done": done, "note": cut(note, _LONGEST_NOTE)}).decode()


def progress_in_ascii(text: str) -> str:
    """The same for a database whose encoding does not have a character of it."""
    told = msgspec.json.decode(text)
    return progress_text(told["done"], in_ascii(told["note"]))


def storable(ack: Ack) -> Ack:
    """What is written in place of an outcome that the database refuses, the next try each time: first the same with a note of
    progress that every encoding has (what a handler says on the way never fails its job), then a failed attempt that says so. It
    is the same again when nothing is left to try.
    """
    if ack.progress is not None and (told := progress_in_ascii(ack.progress)) != ack.progress:
        return msgspec.structs.replace(ack, progress=told)
    return msgspec.structs.replace(ack, outcome=refused(ack.outcome))


_STATUS: Final[dict[str, Status]] = {
    "completed": "completed",
    "retry": "failed",
    "snooze": "scheduled",
    "cancel": "cancelled",
    "dead": "dead",
    "interrupted": "pending",
}


class Finished(msgspec.Struct, frozen=True):
    """What a call of `finish` answered."""

    claimed: list[Claimed]
    lost: list[int]  # tokens of acks whose claim was not ours any more
    heads: list[str]  # the queue of each job that became pending (given back, a next head), and was not claimed by this call
    gone: bool  # the runner's own row is missing: it was declared dead
    asking: list[tuple[Claimed, str]] = []  # claimed jobs of stubs, with their `on_dead`: their handlers are to be asked
    expired: list[tuple[int, str]] = []  # ids and types of jobs that this call has ended instead of claiming them
    due_seconds: float | None = None  # until a key opens that this call has closed by its limit's rate
    for_all: frozenset[str] = frozenset()  # of these queues: keys of limits were opened there, or suspects are there
    past: dict[int, tuple[int, int]] = {}  # by scan that met such: behind which (priority, place) others may start
    followers: list[Claimed] = []  # of the claimed heads
    urgent: frozenset[str] = frozenset()  # of these queues some of `heads` may belong before the jobs that were claimed last

    def by_scan(self, scans: int) -> list[list[Claimed]]:
        """What each of the call's scans claimed, in their order."""
        if scans == 1:
            return [self.claimed]
        found: list[list[Claimed]] = [[] for _ in range(scans)]
        for job in self.claimed:
            found[job.scan - 1].append(job)
        return found


#: What a job and its claim call the same.
_SAME: Final = tuple(name for name in Job.__struct_fields__ if name in {*Claimed.__struct_fields__} - {"payload", "progress"})
_same: Final = attrgetter(*_SAME)


def to_job(claimed: Claimed) -> Job:
    """The job as its handler sees it."""
    started_at = _instant(claimed.started_epoch)
    same: dict[str, Any] = dict(zip(_SAME, _same(claimed), strict=True))
    same["correlation_id"] = claimed.correlation_id or own_trace(claimed.id)
    return Job(
        **same, status="processing", payload=msgspec.json.decode(claimed.payload), attempts=claimed.attempt,
        timeout=None if claimed.timeout_seconds is None else timedelta(seconds=claimed.timeout_seconds),
        scheduled_at=_instant(claimed.scheduled_epoch), run_at=_instant(claimed.run_epoch), started_at=started_at,
        progress=None if claimed.progress is None else msgspec.json.decode(claimed.progress),
        created_at=_instant(claimed.created_epoch), updated_at=started_at,
        start_before=None if claimed.expires_epoch is None else _instant(claimed.expires_epoch),
    )  # fmt: skip


def _instant(epoch: float) -> datetime:
    return _1970 + timedelta(seconds=epoch)
