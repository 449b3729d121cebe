"""Jobs that a block enqueues, kept in memory: for tests of code that enqueues, without a database.

    with captured(jobs) as enqueued:
        await sign_up("ada@example.com")
    await assert_enqueued(enqueued, send_email, {"to": "ada@example.com"})

Payloads, options, queues and keys are checked as in an enqueue, and dedup keys heeded among the jobs of the block. Nothing runs
them: whoever waits for a result of one gets a UsageError. A `connection=` is not used.
"""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from math import inf
from typing import Any, Final

import msgspec

from asyncjobs.app import AsyncJobs
from asyncjobs.errors import DuplicateJob, UsageError
from asyncjobs.model.job import Job
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.model.trace import own_trace
from asyncjobs.open.current_app import keeper
from asyncjobs.settings import MAX_ATTEMPTS_DEFAULT

_ids: Final = count(1)


class Captured:
    """What a block enqueued in an app: `jobs`, in order. Their ids are made up."""

    def __init__(self, app: AsyncJobs) -> None:
        self.app = app
        self.jobs: list[Job] = []
        self._loop = _running_loop()

    def __repr__(self) -> str:
        return f"<Captured {[job.type for job in self.jobs]}>"

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop in which it was made. UsageError when there was none, and a thread asks."""
        if self._loop is None:
            raise UsageError("captured() was entered outside of an event loop: enqueue_sync needs one.")
        return self._loop

    def keep(self, rows: Sequence[NewRow]) -> list[Enqueued]:
        """Keep these jobs: all of them, or DuplicateJob and none."""
        before = list(self.jobs)
        try:
            return [self._keep(row) for row in rows]
        except DuplicateJob:
            self.jobs = before
            raise

    def _keep(self, row: NewRow) -> Enqueued:
        for at, job in enumerate(self.jobs):
            if row.dedup_key is not None and (job.type, job.dedup_key) == (row.type, row.dedup_key):
                if row.on_duplicate == "raise":
                    raise DuplicateJob(row.type, row.dedup_key, job.id, job.status)
                if row.on_duplicate == "replace":
                    self.jobs[at] = job_of(row, job_id=job.id)
                return Enqueued(job.id, created=False, did="replaced" if row.on_duplicate == "replace" else "kept")
        self.jobs.append(job_of(row, job_id=next(_ids)))
        return Enqueued(self.jobs[-1].id, created=True)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def attempts_of(row: NewRow) -> int:
    """How many attempts it has, as its table says where nobody did."""
    return MAX_ATTEMPTS_DEFAULT if row.max_attempts is None else row.max_attempts


def job_of(row: NewRow, *, job_id: int | None = None) -> Job:
    """The job that this row would make if it were written now."""
    now = datetime.now(UTC)
    due = row.run_at or now + timedelta(seconds=row.delay_seconds or 0)
    same: dict[str, Any] = {name: getattr(row, name) for name in Job.__struct_fields__ if name in NewRow.__struct_fields__}
    same |= {"payload": msgspec.json.decode(row.payload), "run_at": due, "max_attempts": attempts_of(row)}
    made_id = next(_ids) if job_id is None else job_id
    same["correlation_id"] = row.correlation_id or own_trace(made_id)
    same["dedup_until"] = None if row.dedup_until == "end" else row.dedup_until
    same["start_before"] = None if row.expires_seconds is None else due + timedelta(seconds=row.expires_seconds)
    return Job(
        **same, id=made_id, status="scheduled" if due > now else "pending", scheduled_at=due,
        timeout=None if row.timeout_seconds in {None, inf} else timedelta(seconds=row.timeout_seconds or 0), created_at=now,
        updated_at=now,
    )  # fmt: skip


@contextmanager
def captured(jobs: AsyncJobs, /) -> Generator[Captured]:
    """Keep what the block enqueues in this app, which need not be open, by whichever tasks and threads it starts."""
    made = Captured(jobs)
    token = keeper.set(made)
    try:
        yield made
    finally:
        keeper.reset(token)
