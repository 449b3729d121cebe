"""A workflow as it is written: which members arrive at which gates, and who waits there (`store/routines/gates`)."""

from datetime import datetime
from typing import Final, Literal

import msgspec

When = Literal["completed", "ended"]
#: "running" includes one that waits for its first job; "broken": it ended, and a member of it had died or was cancelled.
WorkflowState = Literal["running", "cancelling", "completed", "broken"]

#: Members of one workflow, if its `max_members` says nothing else.
MOST_MEMBERS: Final = 100_000

Range = tuple[int, int]


class GatePlan(msgspec.Struct, frozen=True):
    """A gate that is to be: the numbers of its members, the first and the last of each range."""

    members: tuple[Range, ...]
    name: str | None = None


class FlowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is written of a workflow beside its members' rows."""

    name: str
    gates: list[GatePlan] = []
    waits: list[tuple[int, int, When]] = []  # who (the number of a member), at which gate, by which rule
    correlation_id: str | None = None
    created_by: str | None = None
    parent_job_id: int | None = None


class WorkflowRow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as it was when it was read."""

    id: int
    name: str
    size: int  # members
    missing: int  # of these, not ended
    dead: int  # of these, dead, cancelled or deleted
    created_at: datetime
    ended_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    cancel_message: str | None = None
    correlation_id: str | None = None
    created_by: str | None = None
    parent_job_id: int | None = None

    @property
    def state(self) -> WorkflowState:
        """In one word."""
        if self.ended_at is None:
            return "running" if self.cancel_requested_at is None else "cancelling"
        return "broken" if self.dead else "completed"


class MemberResult(msgspec.Struct, frozen=True):
    """What has become of a member whose result is an argument of another."""

    number: int
    id: int
    type: str | None
    status: str | None  # None: its job is gone
    result: str | None  # JSON text
    dropped: str | None


class MemberRow(msgspec.Struct, frozen=True):
    """A member as it was when it was read."""

    number: int  # from 0, as it was added
    id: int
    type: str | None
    status: str  # "gone": somebody deleted its row
    error_message: str | None
    broken_by: int | None  # the member whose end has ended it


class GateRow(msgspec.Struct, frozen=True):
    """A gate as it was when it was read, and how many members wait there, were released, or ended by it."""

    id: int
    name: str | None
    size: int
    missing: int
    dead: int
    opened_at: datetime | None
    waiting: int
    released: int
    broken: int


class Missing(msgspec.Struct, frozen=True):
    """What a job that is blocked waits for: a gate."""

    gate_id: int
    name: str | None
    size: int
    missing: int
    oldest_id: int | None  # the first member that it misses


class Bunch(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a workflow that look alike: of one type and status, with the same gates before and behind them."""

    type: str
    gates: tuple[int, ...]  # at which they arrive
    waits: tuple[int, ...] = ()  # at which they wait for others to complete
    after: tuple[int, ...] = ()  # at which they wait for others to end
    is_spawned: bool = False  # by a member that arrives where they do
    status: str  # or "gone"
    count: int
    first: int  # the lowest number of theirs
    job_id: int  # of that
