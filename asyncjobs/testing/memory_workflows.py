"""What stands in for the database of an app, as far as it keeps workflows (`memory_flows.py`)."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence

from asyncjobs.model.finding import Found
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.model.request import Request
from asyncjobs.model.workflow import FlowPlan, MemberResult, Range, WorkflowRow
from asyncjobs.runtime import callers, workflows
from asyncjobs.store.workflows import CancelOutcome, Spawned, Written
from asyncjobs.telemetry.events import Events, WorkflowEnqueued
from asyncjobs.testing.memory_store import MemoryStore


class KeepsWorkflows:
    """A part of `MemoryApp`."""

    store: MemoryStore
    events: Events

    def obey(self, request: Request) -> None:
        """Ask a handler that runs to end."""
        raise NotImplementedError

    async def run_until(self, is_over: Callable[[], bool]) -> None:
        """Run what is due until that."""
        raise NotImplementedError

    def keep_workflow(self, plan: FlowPlan, rows: Sequence[NewRow]) -> Written:
        """Write the workflow, or nothing. DuplicateJob."""
        with self.store.lock:
            written = self.store.enqueue_workflow(plan, rows)
        callers.tell(self.events, rows, [Enqueued(job_id, created=True) for job_id in written.ids], None)
        self.events.emit(WorkflowEnqueued(workflow_id=written.id, name=plan.name, size=len(written.ids)))
        return written

    def spawn(self, job_id: int, token: int, first: int, rows: Sequence[NewRow]) -> Spawned:
        """Add members to the workflow of a job that runs, or find those that a former attempt has added."""
        with self.store.lock:
            spawned = self.store.spawn(job_id, token, first, rows)
        if spawned.ids is not None:
            callers.tell(self.events, rows, workflows.enqueued_by(job_id, spawned), None)
        return spawned

    def workflow(self, workflow_id: int) -> WorkflowRow | None:
        """The workflow as it is now."""
        with self.store.lock:
            self.store.pass_time()
            return self.store.flows.row(workflow_id)

    def member_counts(self, workflow_id: int) -> dict[str, int]:
        """How many of its jobs have which status."""
        with self.store.lock:
            return Counter(job.status for job in self.store.jobs() if job.workflow_id == workflow_id)

    def members(self, workflow_id: int, before: int | None, limit: int) -> Found:
        """A page of its jobs, the highest ids first."""
        with self.store.lock:
            found = [one for one in self.store.jobs() if one.workflow_id == workflow_id and (before is None or one.id < before)]
        page = sorted(found, key=lambda one: -one.id)[:limit]
        return Found(page, page[-1].id if len(page) < len(found) else None, len(found))

    def cancel_workflow(self, workflow_id: int, message: str) -> CancelOutcome:
        """End what has not ended of it; what runs is asked to."""
        with self.store.lock:
            outcome, running = self.store.cancel_workflow(workflow_id, message)
        for job_id, token in running:
            self.obey(Request(job_id, token, "cancel", message))
        return outcome

    async def wait_workflow(self, workflow_id: int, timeout: float | None) -> None:
        """Run what is due until it has ended, or nothing is left to run, or the time is over."""
        row = self.workflow(workflow_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout or None):
                if timeout != 0 and row is not None:
                    await self.run_until(lambda: (row := self.workflow(workflow_id)) is None or row.ended_at is not None)

    async def results(self, job_id: int, ranges: Sequence[Range]) -> list[MemberResult]:
        """What other members of this one's workflow have given."""
        with self.store.lock:
            return self.store.results(job_id, ranges)
