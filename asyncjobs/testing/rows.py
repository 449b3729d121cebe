"""Jobs and claims as the database would make them, for what tests keep in memory."""

import time
from datetime import UTC, datetime, timedelta
from itertools import count
from math import inf
from typing import Any, Final

import msgspec

from asyncjobs.model.claim import Claimed
from asyncjobs.model.job import Job
from asyncjobs.model.new_row import NewRow
from asyncjobs.model.trace import own_trace
from asyncjobs.settings import MAX_ATTEMPTS_DEFAULT

#: One row for all: a handle of one block is never taken for another's.
made_up_ids: Final = count(1)


def attempts_of(row: NewRow) -> int:
    """How many attempts it has, as its table says where nobody did."""
    return MAX_ATTEMPTS_DEFAULT if row.max_attempts is None else row.max_attempts


def job_of(row: NewRow, *, job_id: int | None = None, now: datetime | None = None) -> Job:
    """The job that this row would make if it were written now."""
    now = datetime.now(UTC) if now is None else now
    due = row.run_at or now + timedelta(seconds=row.delay_seconds or 0)
    same: dict[str, Any] = {name: getattr(row, name) for name in Job.__struct_fields__ if name in NewRow.__struct_fields__}
    made_id = next(made_up_ids) if job_id is None else job_id
    same |= {
        "payload": msgspec.json.decode(row.payload), "run_at": due, "max_attempts": attempts_of(row), "tags": list(row.tags),
        "correlation_id": row.correlation_id or own_trace(made_id),
        "dedup_until": None if row.dedup_until == "end" else row.dedup_until,
        "start_before": None if row.expires_seconds is None else due + timedelta(seconds=row.expires_seconds),
    }  # fmt: skip
    return Job(
        **same, id=made_id, status="scheduled" if due > now else "pending", scheduled_at=due,
        timeout=None if row.timeout_seconds in {None, inf} else timedelta(seconds=row.timeout_seconds or 0), created_at=now,
        updated_at=now,
    )  # fmt: skip


def claimed_of(job: Job, payload: str, attempt: int, *, token: int, place: int) -> Claimed:
    """The claim of this job for that attempt; `payload` is its JSON."""
    timeout = None if job.timeout is None else job.timeout.total_seconds()
    same: dict[str, Any] = {name: getattr(job, name) for name in Claimed.__struct_fields__ if name in Job.__struct_fields__}
    same |= {"payload": payload, "progress": None if job.progress is None else msgspec.json.encode(job.progress).decode()}
    return Claimed(
        **same, scan=0, token=token, place=place, attempt=attempt, timeout_seconds=timeout,
        scheduled_epoch=job.scheduled_at.timestamp(), run_epoch=job.run_at.timestamp(),
        started_epoch=time.time() if job.started_at is None else job.started_at.timestamp(),
        created_epoch=job.created_at.timestamp(),
        expires_epoch=None if job.start_before is None else job.start_before.timestamp(),
    )  # fmt: skip
