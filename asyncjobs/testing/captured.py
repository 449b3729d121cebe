"""Jobs that a block enqueues, kept in memory: for tests of code that enqueues, without a database.

    with captured(jobs) as enqueued:
        await sign_up("ada@example.com")
    await assert_enqueued(enqueued, send_email, {"to": "ada@example.com"})

Payloads, options, queues and keys are checked as in an enqueue, and dedup keys heeded among the jobs of the block. Nothing runs
them: whoever waits for a result of one gets a UsageError. A `connection=` is not used.
"""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from asyncjobs.app import AsyncJobs
from asyncjobs.connections import unused
from asyncjobs.errors import DuplicateJob, UsageError
from asyncjobs.handles import Watching
from asyncjobs.model.finding import Found
from asyncjobs.model.job import Job
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.model.workflow import FlowPlan, WorkflowRow
from asyncjobs.open.current_app import keeper
from asyncjobs.store.workflows import CancelOutcome, Spawned, Written
from asyncjobs.testing.rows import job_of, made_up_ids

_NOWHERE: Final = ", but this test keeps jobs in memory, where nothing runs them: use in_memory(jobs), or a database, for that."


class Captured:
    """What a block enqueued in an app: `jobs`, in order. Their ids are made up."""

    def __init__(self, app: AsyncJobs) -> None:
        self.app = app
        self.loop: asyncio.AbstractEventLoop | None = None  # any will do
        self.jobs: list[Job] = []

    def __repr__(self) -> str:
        return f"<Captured {[job.type for job in self.jobs]}>"

    def keep(self, rows: Sequence[NewRow]) -> list[Enqueued]:
        """Keep these jobs: all of them, or DuplicateJob and none."""
        before = list(self.jobs)
        try:
            return [self._keep(row) for row in rows]
        except DuplicateJob:
            self.jobs = before
            raise

    def keep_workflow(self, plan: FlowPlan, rows: Sequence[NewRow]) -> Written:
        """Keep a workflow, whole or, with DuplicateJob, not at all. Members that wait are `blocked`."""
        del plan
        before, flow_id = list(self.jobs), next(made_up_ids)
        try:
            ids = [self._keep(msgspec.structs.replace(row, on_duplicate="raise")).id for row in rows]
        except DuplicateJob:
            self.jobs = before
            raise
        for at, row in enumerate(rows, len(before)):
            status = "blocked" if row.waits else self.jobs[at].status
            self.jobs[at] = msgspec.structs.replace(self.jobs[at], workflow_id=flow_id, status=status)
        return Written(flow_id, ids, [])

    def spawn(self, job_id: int, token: int, first: int, rows: Sequence[NewRow]) -> Spawned:
        """Nothing runs these jobs, so none of them spawns: UsageError."""
        del token, first, rows
        raise UsageError(f"job {job_id} spawned others{_NOWHERE}")

    def workflow(self, workflow_id: int) -> WorkflowRow | None:
        """Nothing runs these jobs: UsageError."""
        raise UsageError(f"workflow {workflow_id} was asked for{_NOWHERE}")

    def member_counts(self, workflow_id: int) -> dict[str, int]:
        """Nothing runs these jobs: UsageError."""
        raise UsageError(f"workflow {workflow_id} was asked for{_NOWHERE}")

    def members(self, workflow_id: int, before: int | None, limit: int) -> Found:
        """Nothing runs these jobs: UsageError."""
        del before, limit
        raise UsageError(f"workflow {workflow_id} was asked for{_NOWHERE}")

    def cancel_workflow(self, workflow_id: int, message: str) -> CancelOutcome:
        """Nothing runs these jobs: UsageError."""
        del message
        raise UsageError(f"workflow {workflow_id} was cancelled{_NOWHERE}")

    async def wait_workflow(self, workflow_id: int, timeout: float | None) -> None:
        """Nothing runs these jobs: UsageError."""
        del timeout
        raise UsageError(f"workflow {workflow_id} was waited for{_NOWHERE}")

    async def get(self, job_id: int) -> Job | None:
        """Nothing runs these jobs: UsageError."""
        raise UsageError(f"job {job_id} was asked for{_NOWHERE}")

    async def wait_final(self, job_id: int, timeout: float | None) -> Job:
        """Nothing runs these jobs: UsageError."""
        del timeout
        raise UsageError(f"job {job_id} was waited for{_NOWHERE}")

    async def watch(self, job_ids: Sequence[int], told: Callable[[], None], *, timeout: float | None) -> Watching:
        """Nothing runs these jobs: UsageError."""
        del told, timeout
        raise UsageError(f"{len(job_ids)} jobs were waited for{_NOWHERE}")

    def _keep(self, row: NewRow) -> Enqueued:
        for at, job in enumerate(self.jobs):
            if row.dedup_key is not None and (job.type, job.dedup_key) == (row.type, row.dedup_key):
                if row.on_duplicate == "raise":
                    raise DuplicateJob(row.type, row.dedup_key, job.id, job.status)
                if row.on_duplicate == "replace":
                    self.jobs[at] = job_of(row, job_id=job.id)
                return Enqueued(job.id, created=False, did="replaced" if row.on_duplicate == "replace" else "kept")
        self.jobs.append(job_of(row, job_id=next(made_up_ids)))
        return Enqueued(self.jobs[-1].id, created=True)


@contextmanager
def captured(jobs: AsyncJobs, /) -> Generator[Captured]:
    """Keep what the block enqueues in this app, which need not be open, by whichever tasks and threads it starts."""
    made = Captured(jobs)
    token = keeper.set(made)
    unused.append(made)
    try:
        yield made
    finally:
        unused.remove(made)
        keeper.reset(token)
