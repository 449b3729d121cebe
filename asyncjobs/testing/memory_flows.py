"""Workflows in memory: what arrives where, and what that lets go or ends, as `store/routines/gates` says it of the tables.

There are no retries in memory, and one thread at a time is here; so a count for each gate is all there is to it.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import msgspec

from asyncjobs.model.job import Job
from asyncjobs.model.workflow import FlowPlan, MemberResult, Range, When, WorkflowRow
from asyncjobs.store.workflows import CancelOutcome


class _Gate(msgspec.Struct):
    missing: int
    dead_id: int | None = None  # the first that did not complete, or whose end has ended that one
    dependents: list[tuple[int, When]] = []


class _Flow(msgspec.Struct):
    plan: FlowPlan
    created_at: datetime
    ids: list[int]
    gates: list[_Gate]
    missing: int
    size: int
    dead: int = 0
    ended_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    cancel_message: str | None = None
    gates_of: dict[int, list[int]] = {}  # by member: where it arrives
    waits: dict[int, int] = {}  # by dependent that is blocked: how many gates have not released it
    blame: dict[int, int] = {}  # by dependent that its gate ended: whose end that was
    spawned: dict[int, list[int]] = {}  # by member


class MemoryFlows:
    """All workflows of one app, by their ids."""

    def __init__(self) -> None:
        self._flows: dict[int, _Flow] = {}

    def clear(self) -> None:
        """Forget all."""
        self._flows.clear()

    def add(self, flow_id: int, plan: FlowPlan, ids: Sequence[int], now: datetime) -> None:
        """A workflow was written; `ids` of its members, in their order."""
        gates = [_Gate(sum(last - first + 1 for first, last in gate.members)) for gate in plan.gates]
        flow = _Flow(plan, now, list(ids), gates, len(ids), len(ids), ended_at=None if ids else now)
        for at, gate in enumerate(plan.gates):
            for first, last in gate.members:
                for number in range(first, last + 1):
                    flow.gates_of.setdefault(ids[number], []).append(at)
        for number, at, rule in plan.waits:
            gates[at].dependents.append((ids[number], rule))
            flow.waits[ids[number]] = flow.waits.get(ids[number], 0) + 1
        self._flows[flow_id] = flow

    def spawned(self, flow_id: int, job_id: int, first: int, count: int) -> list[int]:
        """What an earlier attempt has spawned at this place."""
        return self._flows[flow_id].spawned.get(job_id, [])[first : first + count]

    def spawn(self, flow_id: int, job_id: int, ids: Sequence[int]) -> None:
        """A member that runs has added these, at its own gates."""
        flow = self._flows[flow_id]
        flow.spawned.setdefault(job_id, []).extend(ids)
        flow.size += len(ids)
        flow.missing += len(ids)
        for one in ids:
            flow.gates_of[one] = flow.gates_of.get(job_id, [])
        for at in flow.gates_of.get(job_id, []):
            flow.gates[at].missing += len(ids)

    def arrive(self, flow_id: int, job: Job, now: datetime) -> Iterator[tuple[int, int | None]]:
        """A member has ended: the dependents that follow, and of those that end whose end has ended them."""
        flow = self._flows[flow_id]
        dead_id = None if job.status == "completed" else flow.blame.get(job.id, job.id)
        for at in flow.gates_of.get(job.id, []):
            gate = flow.gates[at]
            gate.missing -= 1
            gate.dead_id = dead_id if gate.dead_id is None else gate.dead_id
            if gate.missing == 0:
                yield from _opened(flow, gate)
        flow.missing -= 1
        flow.dead += dead_id is not None
        flow.ended_at = None if flow.missing else now

    def cancel(self, flow_id: int, message: str, now: datetime) -> CancelOutcome:
        """From now on none of its gates lets go or ends anything: what waits there is ended by who calls this."""
        flow = self._flows.get(flow_id)
        if flow is None or flow.ended_at is not None:
            return "unknown" if flow is None else "ended"
        outcome: CancelOutcome = "requested" if flow.cancel_requested_at is None else "cancelling"
        if outcome == "requested":
            flow.cancel_requested_at, flow.cancel_message = now, message
        flow.waits.clear()
        return outcome

    def row(self, flow_id: int) -> WorkflowRow | None:
        """The workflow as it is now."""
        flow = self._flows.get(flow_id)
        return None if flow is None else WorkflowRow(
            id=flow_id, name=flow.plan.name, size=flow.size, missing=flow.missing, dead=flow.dead, created_at=flow.created_at,
            ended_at=flow.ended_at, cancel_requested_at=flow.cancel_requested_at, cancel_message=flow.cancel_message,
            correlation_id=flow.plan.correlation_id, parent_job_id=flow.plan.parent_job_id,
        )  # fmt: skip

    def members(self, flow_id: int) -> list[int]:
        """The ids of all members, those that were spawned among them."""
        flow = self._flows[flow_id]
        return [*flow.ids, *(one for some in flow.spawned.values() for one in some)]

    def results(self, flow_id: int, ranges: Sequence[Range], get: Callable[[int], Job | None]) -> list[MemberResult]:
        """What these members have given, by their numbers."""
        ids = self._flows[flow_id].ids
        numbers = [number for first, last in ranges for number in range(first, last + 1)]
        return [_result(number, ids[number], get(ids[number])) for number in numbers]


def _opened(flow: _Flow, gate: _Gate) -> Iterator[tuple[int, int | None]]:
    for job_id, rule in gate.dependents:
        if job_id not in flow.waits:
            continue  # another gate has ended it
        if rule == "completed" and gate.dead_id is not None:
            del flow.waits[job_id]
            flow.blame[job_id] = gate.dead_id
            yield job_id, gate.dead_id
            continue
        flow.waits[job_id] -= 1
        if not flow.waits[job_id]:
            del flow.waits[job_id]
            yield job_id, None


def _result(number: int, job_id: int, job: Job | None) -> MemberResult:
    if job is None:
        return MemberResult(number, job_id, None, None, None, None)
    result = None if job.result is None else msgspec.json.encode(job.result).decode()
    return MemberResult(number, job_id, job.type, job.status, result, job.result_dropped)
