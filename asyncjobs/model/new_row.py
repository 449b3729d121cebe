"""What an enqueue sends: a checked job that has no id yet."""

from datetime import datetime
from typing import Literal

import msgspec

OnDuplicate = Literal["return", "replace", "raise"]


class NewRow(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of one job to be. Everything in it was checked: a row that gets here fits its table."""

    type: str
    queue: str
    lane: str | None = None
    version: int = 1
    payload: str  # JSON text
    priority: int = 100
    max_attempts: int = 3
    timeout_seconds: float | None = None
    run_at: datetime | None = None
    delay_seconds: float | None = None
    correlation_id: str | None = None
    parent_job_id: int | None = None
    created_by: str | None = None
    dedup_key: str | None = None
    dedup_for_seconds: float | None = None
    on_duplicate: OnDuplicate = "return"
    serialization_key: str | None = None
    on_dead: Literal["advance", "halt"] = "advance"
    trace_context: str | None = None
    notify: bool = True


class Enqueued(msgspec.Struct, frozen=True):
    """What became of one row: its id, and whether this call made it (False: a live job had the dedup key)."""

    id: int
    created: bool
