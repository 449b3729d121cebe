"""A job as callers see it: one row of `jobs`, whatever it waits for. The columns are those of the view `readable_jobs`."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from asyncjobs.model.discreet import discreet
from asyncjobs.model.status import FINAL, Status

#: Why such a job ended (`store/routines/expiry`).
EXPIRED: Final = "expired"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was when it was read. Instants are aware; `payload` and `result` are plain JSON values."""

    id: int
    type: str
    status: Status
    queue: str
    lane: str | None = None
    version: int = 1
    payload: dict[str, Any] = {}
    priority: int = 100
    attempts: int = 0
    max_attempts: int = 3
    timeout: timedelta | None = None
    snoozes: int = 0
    rescues: int = 0
    scheduled_at: datetime
    run_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    error_message: str | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None
    errors: list[dict[str, Any]] = []
    correlation_id: str | None = None
    parent_job_id: int | None = None
    created_by: str | None = None
    dedup_key: str | None = None
    serialization_key: str | None = None
    limit_key: str | None = None  # what limits it: the name of the limit, and behind a colon its key
    result: Any = None
    result_dropped: str | None = None
    progress: dict[str, Any] | None = None
    requeued_from: int | None = None
    trace_context: str | None = None
    tags: list[str] = []
    workflow_id: int | None = None  # whose member it is
    start_before: datetime | None = None  # when it expires: later it is not started any more
    dedup_until: str | None = None  # "start": its dedup key is free again when it has been claimed
    keep_payload: bool | None = None  # whether its payload stays when it has completed; None: as its type says then
    created_at: datetime
    updated_at: datetime
    unreadable: list[str] = []  # columns that hold what no program here can read (a number of 5,000 digits): shown as if empty

    @property
    def is_final(self) -> bool:
        """Whether the job ended: completed, dead or cancelled."""
        return self.status in FINAL

    @property
    def has_expired(self) -> bool:
        """Whether it was ended since it was not started in time."""
        return self.status == "cancelled" and self.error_message == EXPIRED and self.start_before is not None

    def __repr__(self) -> str:
        return discreet(self, "payload", "result", "progress")
