"""What an enqueue sends: a checked job that has no id yet."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, cast

import msgspec
from msgspec.structs import force_setattr

from asyncjobs.model.discreet import discreet

OnDuplicate = Literal["return", "replace", "raise"]
DedupUntil = Literal["start", "end"]
#: What became of an enqueue: a new job; or the job that has its dedup key, and is to run, was kept as it was, or has its payload
#: and time now; or nothing, since that job had been started, or has ended, and keeps its key.
Did = Literal["made", "kept", "replaced", "dropped"]
#: What becomes of a key when its job dies. Of a stub's: its handler is asked, with "ask all" how many attempts there are, too.
OnDead = Literal["advance", "halt", "ask", "ask all"]
#: A better one (a lower number) may belong before jobs that were claimed already.
ORDINARY_PRIORITY: Final = 100


class NewRow(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The columns of one job to be. Everything in it was checked: a row that gets here fits its table.

    What is as usual is not sent.
    """

    type: str
    queue: str
    lane: str | None = None
    version: int = 1
    payload: str  # JSON text
    priority: int = ORDINARY_PRIORITY
    max_attempts: int | None = None  # None: not said: the app's, else 3
    timeout_seconds: float | None = None  # infinite: none is wanted, which JSON has as null; None: not said
    run_at: datetime | None = None
    delay_seconds: float | None = None
    correlation_id: str | None = None
    parent_job_id: int | None = None
    created_by: str | None = None
    dedup_key: str | None = None
    dedup_for_seconds: float | None = None
    on_duplicate: OnDuplicate = "return"
    serialization_key: str | None = None
    on_dead: OnDead = "advance"
    trace_context: str | None = None
    tags: tuple[str, ...] = ()
    expires_seconds: float | None = None  # after its run_at
    dedup_until: DedupUntil = "end"
    limit_key: str | None = None  # whose permits it needs to run
    keep_payload: bool | None = None  # also when it has completed; None: as its type says then
    at_most_seconds: float | None = None  # a debounce: its delay is counted anew by each duplicate, as long as it is no older
    notify: bool = True
    waits: bool = False  # a member of a workflow, which waits for others
    takes: tuple[Any, ...] = ()  # results of other members that its payload names; never sent

    def with_payload(self, payload: str, others: Mapping[str, Any] | None = None) -> "NewRow":
        """Another row that is like this one but for its payload, and these. (A copy takes half the time of a new one.)"""
        row = _copy(self)
        force_setattr(row, "payload", payload)
        if others is not None:
            for name, value in others.items():
                force_setattr(row, name, value)
        return row

    def without_takes(self) -> "NewRow":
        """The row as it is sent."""
        row = _copy(self)
        force_setattr(row, "takes", ())
        return row

    def __repr__(self) -> str:
        return discreet(self, "payload")


_copy: Final[Callable[[NewRow], NewRow]] = cast("Any", NewRow).__copy__


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """What became of one row: the id of its job, and whether this call made that (False: a job had the dedup key)."""

    id: int
    created: bool
    #: Whether its time has come, by the server's clock. None: not known, since an earlier try may have written it before that.
    is_due: bool | None = True
    did: Did = "made"
