"""A workflow that was written: how it is, waiting for its end, and its cancel."""

from typing import final

from asyncjobs.handles import timeout_seconds
from asyncjobs.model.finding import Found
from asyncjobs.model.outcome import Duration
from asyncjobs.model.workflow import WorkflowRow
from asyncjobs.open.current_app import keeper_of
from asyncjobs.open.flow_app import FlowApp
from asyncjobs.runtime import workflows
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.store.workflows import CancelOutcome


@final
class WorkflowHandle:
    """A workflow that is known by its id. Nothing is looked up yet."""

    __slots__ = ("_app", "id")

    def __init__(self, workflow_id: int, app: FlowApp) -> None:
        self.id = workflow_id
        self._app = app

    def __repr__(self) -> str:
        return f"<WorkflowHandle id={self.id}>"

    def _opened(self) -> OpenApp:
        return self._app.opened_for(f"workflow {self.id} was asked for")

    async def get(self) -> WorkflowRow:
        """The workflow as it is now. WorkflowNotFound."""
        keeper = keeper_of(self._app)
        if keeper is not None:
            return workflows.found(self.id, keeper.workflow(self.id))
        return await workflows.get(self._opened(), self.id)

    async def counts(self) -> dict[str, int]:
        """How many of its jobs have which status."""
        keeper = keeper_of(self._app)
        return await workflows.counts(self._opened(), self.id) if keeper is None else keeper.member_counts(self.id)

    async def jobs(self, *, before: int | None = None, limit: int = 100) -> Found:
        """A page of its jobs, the highest ids first; `before=found.next` gives the next one. An unknown workflow has none."""
        keeper = keeper_of(self._app)
        if keeper is not None:
            return keeper.members(self.id, before, limit)
        return await workflows.members(self._opened(), self.id, before, limit)

    async def wait(self, *, timeout: Duration | None = None) -> WorkflowRow:
        """The workflow when all of its jobs have ended, whatever in. WorkflowNotFound, WaitTimeout (seconds)."""
        keeper = keeper_of(self._app)
        if keeper is None:
            return await workflows.wait(self._opened(), self.id, timeout_seconds(timeout))
        await keeper.wait_workflow(self.id, timeout_seconds(timeout))
        row = await self.get()
        if row.ended_at is None:
            raise workflows.not_ended(row, "in time, or nothing is left to run")
        return row

    async def cancel(self, message: str = "its workflow was cancelled") -> CancelOutcome:
        """Cancel what has not ended; what runs is asked to end. Outcome `requested`, `cancelling` (it was before) or `ended`."""
        keeper = keeper_of(self._app)
        if keeper is not None:
            return workflows.known(self.id, keeper.cancel_workflow(self.id, message))
        return await workflows.cancel(self._opened(), self.id, message)
