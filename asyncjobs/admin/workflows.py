"""Verbs on workflows (`store/routines/gates`)."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from asyncjobs.admin.audit import recorded
from asyncjobs.admin.desk import Desk
from asyncjobs.errors import JobNotFound, StateError
from asyncjobs.model.workflow import Bunch, GateRow, MemberRow, WorkflowRow
from asyncjobs.runtime import workflows as running
from asyncjobs.store import serialized, workflows
from asyncjobs.store.workflows import CancelOutcome, Ended


class Retried(msgspec.Struct, frozen=True):
    """What a retry of a workflow did: members that are tried again, and those that were left, with why."""

    retried: list[int]
    left: dict[int, str]

    def in_words(self) -> str:
        """For the record."""
        return f"{len(self.retried)} retried, {len(self.left)} left"


class Workflows(Desk):
    """Verbs on workflows."""

    async def workflows(
        self, *, name: str | None = None, only_open: bool = False, before: int | None = None, limit: int = 50
    ) -> list[WorkflowRow]:
        """Workflows, the newest first; `before`: with lower ids. `only_open`: those that have not ended."""
        return await self._do(
            "workflows", lambda link: workflows.find(link, name=name, only_open=only_open, before=before, limit=limit)
        )

    async def workflows_ended(self, after: datetime, /) -> tuple[datetime, list[Ended]]:
        """What ended since then, but for the last seconds, at most 10,000: for monitors; and with what to ask next."""
        return await self._do("workflows_ended", lambda link: workflows.ended_since(link, after))

    async def workflow(self, workflow_id: int, /) -> WorkflowRow:
        """One workflow. WorkflowNotFound."""
        return await running.get(self._opened("admin.workflow was called"), workflow_id)

    async def members(self, workflow_id: int, /, *, after: int = -1, limit: int = 100) -> list[MemberRow]:
        """Members of a workflow behind this number, in the order in which they were added."""
        return await self._do("members", lambda link: workflows.members(link, workflow_id, after, limit))

    async def member_counts(self, workflow_id: int, /) -> dict[str, int]:
        """How many members of a workflow have which status."""
        return await self._do("member_counts", lambda link: workflows.counts(link, workflow_id))

    async def gates(self, workflow_id: int, /, *, limit: int = 100) -> list[GateRow]:
        """What members of a workflow wait for: how many of it are missing, and how many wait. Those with the most first."""
        return await self._do("gates", lambda link: workflows.gates(link, workflow_id, limit))

    async def workflow_graph(self, workflow_id: int, /, *, limit: int = 10_000) -> list[Bunch]:
        """The first `limit` members in bunches that look alike: what a picture of the workflow is made of."""
        return await self._do("workflow_graph", lambda link: workflows.graph(link, workflow_id, limit))

    @recorded("workflows.cancel", "workflow {workflow_id}")
    async def cancel_workflow(self, workflow_id: int, /, message: str | None = None, *, by: str | None = None) -> CancelOutcome:
        """Cancel what has not ended of a workflow; what runs is asked to end. Outcome `requested`, `cancelling` (it was before)
        or `ended`. WorkflowNotFound.
        """
        opened = self._opened("admin.cancel_workflow was called")
        del by  # for the record
        return await running.cancel(opened, workflow_id, message or self.actor.why or "its workflow was cancelled")

    @recorded("workflows.retry", "workflow {workflow_id}")
    async def retry_workflow(self, workflow_id: int, /, *, by: str | None = None) -> Retried:
        """Retry all members of a workflow that died or were cancelled by hand: what their ends have cancelled comes back by
        itself. What has run is not undone. WorkflowNotFound.
        """
        opened = self._opened("admin.retry_workflow was called")
        await running.get(opened, workflow_id)
        retried: list[int] = []
        left: dict[int, str] = {}
        seen: set[int] = set()
        while ids := [one for one in await self._to_retry(workflow_id) if one not in seen]:
            seen.update(ids)
            for job_id in ids:
                outcome = await self._retried(job_id, by or self.actor.by)
                if outcome == "retried":
                    retried.append(job_id)
                    left.pop(job_id, None)
                elif outcome == "broken":
                    seen.discard(job_id)  # it may be as good as any other when those before it have been taken back
                    left[job_id] = outcome
                else:
                    left[job_id] = outcome
            if not any(one in retried for one in ids):
                break
        return Retried(retried, {job_id: why for job_id, why in left.items() if job_id not in retried})

    async def _to_retry(self, workflow_id: int) -> Sequence[int]:
        return await self._do("retry_workflow", lambda link: workflows.members_to_retry(link, workflow_id, 1_000))

    async def _retried(self, job_id: int, by: str) -> str:
        try:
            done = await self._do("retry_workflow", lambda link: serialized.retry(link, job_id, by))
        except (StateError, JobNotFound):
            return "busy"
        self._announce(done.queues)
        return done.outcome
