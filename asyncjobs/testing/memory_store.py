"""Jobs kept in memory as the tables keep them: the order of pending jobs, lines of keys, dedup keys, and what an outcome writes.

What SQL does is said again here, as small as can be; all that Python decides is decided by the same code. Whoever uses it holds
its lock: it may be reached from several threads and loops.
"""

import heapq
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final

import msgspec

from asyncjobs.declare.definition import JobDefinition
from asyncjobs.errors import UsageError
from asyncjobs.model.claim import Ack, Claimed
from asyncjobs.model.job import EXPIRED, Job
from asyncjobs.model.new_row import Did, Enqueued, NewRow
from asyncjobs.model.status import FINAL
from asyncjobs.model.workflow import FlowPlan, MemberResult, Range
from asyncjobs.runtime.sender import refusal
from asyncjobs.store.jobs import Refused
from asyncjobs.store.workflows import CancelOutcome, Spawned, Written
from asyncjobs.testing.key_lines import KeyLines, LineJob
from asyncjobs.testing.memory_flows import MemoryFlows
from asyncjobs.testing.memory_limits import MemoryLimits
from asyncjobs.testing.rows import claimed_of, job_of, made_up_ids

_NOT_STARTED: Final = frozenset({"waiting", "scheduled", "pending", "paused"})
#: What of an enqueue is heeded here besides what a job's row takes over as it is, or does nothing (`notify`). Any other option is
#: refused: nothing that a test says is passed over.
_HEEDED: Final = (
    "timeout_seconds", "delay_seconds", "dedup_for_seconds", "on_duplicate", "on_dead", "expires_seconds", "at_most_seconds",
    "notify", "waits", "takes",
)  # fmt: skip
_UNHEEDED: Final = tuple(name for name in NewRow.__struct_fields__ if name not in {*_HEEDED, *Job.__struct_fields__})


class Kept(LineJob, eq=False, kw_only=True):
    """One job: its row, and its status, which the lines of keys change."""

    row: Job
    payload: str
    place: int = 0
    token: int = 0

    @property
    def is_new(self) -> bool:
        """Whether it has never been started."""
        return self.row.attempts == 0 and self.row.started_at is None

    @property
    def job(self) -> Job:
        """As callers see it."""
        return msgspec.structs.replace(self.row, status=self.status)

    def change(self, **columns: Any) -> None:
        """Write these columns."""
        self.row = msgspec.structs.replace(self.row, **columns)


class _Taken(msgspec.Struct):
    """A dedup key: whose it is, whether that has not ended, and until when it is taken all the same."""

    job_id: int
    expires_at: datetime | None
    live: bool = True


class _Lines(KeyLines[Kept]):
    """The lines, and the order of what may be claimed. `ageing`: of a queue, what a level of priority is worth."""

    def __init__(self, ageing: Callable[[str], float | None], now: Callable[[], datetime]) -> None:
        super().__init__()
        self.pending: list[tuple[float, int, Kept]] = []
        self._places = count(1)
        self._ageing, self._now = ageing, now
        self._since = now()

    def due(self, job: Kept) -> None:
        super().due(job)
        job.place = next(self._places)
        heapq.heappush(self.pending, (self._level(job), job.place, job))

    def _level(self, job: Kept) -> float:
        """Its priority, and with ageing when it became ready, in levels. (The next of a key does as the one before ends.)"""
        row, seconds = job.row, self._ageing(job.row.queue)
        if seconds is None:
            return row.priority
        return row.priority + ((row.run_at if job.key is None else self._now()) - self._since).total_seconds() / seconds


class MemoryStore:
    """All jobs of one app."""

    def __init__(
        self, now: Callable[[], datetime], *, max_errors: int, ended: Callable[[Kept], object] = lambda _: None,
        ageing: Callable[[str], float | None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.lock = threading.RLock()
        self.kept: dict[int, Kept] = {}
        self._now, self._max_errors, self._ended = now, max_errors, ended
        self._ageing = ageing
        self._lines = _Lines(ageing, now)
        self.flows = MemoryFlows()
        self._limits = MemoryLimits()
        self._dedup: dict[tuple[str, str], _Taken] = {}
        self._timed: list[tuple[datetime, int, Kept]] = []
        self._expiring: list[tuple[datetime, int, Kept]] = []
        self._tokens = count(1)

    def jobs(self) -> list[Job]:
        """All, in the order of their enqueues."""
        self.pass_time()
        return [kept.job for kept in self.kept.values()]

    def get(self, job_id: int) -> Job | None:
        """The job as it is now."""
        self.pass_time()
        kept = self.kept.get(job_id)
        return None if kept is None else kept.job

    def clear(self) -> None:
        """Forget all jobs, and what is kept of their keys."""
        self.kept.clear()
        self.flows.clear()
        self._lines = _Lines(self._ageing, self._now)
        self._limits = MemoryLimits()
        for kept in (self._dedup, self._timed, self._expiring):
            kept.clear()

    # -- enqueues

    def enqueue(self, rows: Sequence[NewRow], workflow_id: int | None = None) -> list[Enqueued]:
        """Write them all, or raise and write none. `workflow_id`: whose members they are; a member is no other job."""
        if workflow_id is not None:
            rows = [msgspec.structs.replace(row, on_duplicate="raise") for row in rows]
        _refuse_unheeded(rows)
        self.pass_time()
        now = self._now()
        written, replacing, enqueued = self._meet_duplicates(list(rows), now)
        for kept, row in replacing:
            self._replace(kept, row, now)
        for job_id, row in written.items():
            if row.dedup_key is not None:
                until = None if row.dedup_for_seconds is None else now + timedelta(seconds=row.dedup_for_seconds)
                self._dedup[row.type, row.dedup_key] = _Taken(job_id, until)
            job = msgspec.structs.replace(job_of(row, job_id=job_id, now=now), workflow_id=workflow_id)
            kept = Kept(id=job_id, key=row.serialization_key, halts=row.on_dead == "halt", row=job, payload=row.payload)
            self.kept[job_id] = kept
            if row.waits:
                kept.status = "blocked"
            else:
                self._watch_expiry(kept)
                self._place(kept, now)
        return enqueued

    def enqueue_workflow(self, plan: FlowPlan, rows: Sequence[NewRow]) -> Written:
        """Write a workflow, or raise and write none of it."""
        flow_id, now = next(made_up_ids), self._now()
        ids = [one.id for one in self.enqueue(rows, flow_id)]
        self.flows.add(flow_id, plan, ids, now)
        return Written(flow_id, ids, [at for at, one in enumerate(ids) if self.kept[one].status == "scheduled"])

    def spawn(self, job_id: int, token: int, first: int, rows: Sequence[NewRow]) -> Spawned:
        """Add members to the workflow of a job that runs, or find those that a former attempt has added."""
        kept = self.kept.get(job_id)
        if kept is None or kept.status != "processing" or kept.token != token:
            return Spawned(None, is_lost=True, is_alone=False)
        flow_id = kept.row.workflow_id
        if flow_id is None:
            return Spawned(None, is_lost=False, is_alone=True)
        if ids := self.flows.spawned(flow_id, job_id, first, len(rows)):
            return Spawned(ids, is_lost=False, is_alone=False)
        ids = [one.id for one in self.enqueue(rows, flow_id)]
        self.flows.spawn(flow_id, job_id, ids)
        if (row := self.flows.row(flow_id)) is not None and row.state == "cancelling":
            self.cancel_workflow(flow_id, row.cancel_message or "")
        return Spawned(ids, is_lost=False, is_alone=False, are_new=True)

    def cancel_workflow(self, flow_id: int, message: str) -> tuple[CancelOutcome, list[tuple[int, int]]]:
        """End what does not run of a workflow: what came of it, and the jobs that run, which are to be asked to end."""
        self.pass_time()
        outcome, now = self.flows.cancel(flow_id, message, self._now()), self._now()
        if outcome in {"unknown", "ended"}:
            return outcome, []
        members = [self.kept[job_id] for job_id in self.flows.members(flow_id)]
        for kept in members:
            if kept.status != "processing" and kept.status not in FINAL:
                kept.change(error_message=message, completed_at=now, updated_at=now)
                self._end(kept, "cancelled", now)
        return outcome, [(kept.id, kept.token) for kept in members if kept.status == "processing"]

    def results(self, job_id: int, ranges: Sequence[Range]) -> list[MemberResult]:
        """What other members of this one's workflow have given."""
        flow_id = self.kept[job_id].row.workflow_id
        return [] if flow_id is None else self.flows.results(flow_id, ranges, self.get)

    def _meet_duplicates(
        self, rows: list[NewRow], now: datetime
    ) -> tuple[dict[int, NewRow], list[tuple[Kept, NewRow]], list[Enqueued]]:
        written: dict[int, NewRow] = {}
        replacing: list[tuple[Kept, NewRow]] = []
        enqueued: list[Enqueued] = []
        taken: dict[tuple[str, str], int] = {}  # by this call
        for at, row in enumerate(rows):
            key = None if row.dedup_key is None else (row.type, row.dedup_key)
            owner = None if key is None else taken.get(key) or self._owner(key, now)
            if owner is None:
                job_id = next(made_up_ids)
                if key is not None:
                    taken[key] = job_id
                written[job_id] = row
                enqueued.append(Enqueued(job_id, created=True))
                continue
            other = self.kept.get(owner)
            other_key = written[owner].serialization_key if other is None else other.key
            is_open = other is None or other.status in _NOT_STARTED
            enqueued.append(Enqueued(owner, created=False, did=_did(row, other)))
            moves = row.on_duplicate == "replace" and is_open and other_key != row.serialization_key
            if row.on_duplicate == "raise" or moves:
                raise refusal(rows, enqueued, Refused(at, None if other is None else other.status))
            if row.on_duplicate == "replace" and other is None:
                written[owner] = msgspec.structs.replace(
                    written[owner], payload=row.payload, version=row.version, run_at=row.run_at, delay_seconds=row.delay_seconds,
                    at_most_seconds=row.at_most_seconds,
                )  # fmt: skip
            elif row.on_duplicate == "replace" and other is not None and is_open:
                replacing.append((other, row))
        return written, replacing, enqueued

    def _owner(self, key: tuple[str, str], now: datetime) -> int | None:
        taken = self._dedup.get(key)
        is_taken = taken is not None and (taken.live or (taken.expires_at is not None and taken.expires_at > now))
        return taken.job_id if taken is not None and is_taken else None

    def _replace(self, kept: Kept, row: NewRow, now: datetime) -> None:
        if not kept.is_new:
            return
        due = job_of(row, job_id=kept.id, now=now).run_at
        if row.run_at is None and row.at_most_seconds is not None:
            due = min(due, kept.row.created_at + timedelta(seconds=row.at_most_seconds))
        start_before = None if kept.row.start_before is None else due + (kept.row.start_before - kept.row.scheduled_at)
        kept.payload = row.payload
        kept.change(
            payload=msgspec.json.decode(row.payload), version=row.version, run_at=due, scheduled_at=due,
            start_before=start_before, limit_key=row.limit_key, updated_at=now,
        )  # fmt: skip
        self._watch_expiry(kept)
        if due > now:
            kept.status = "scheduled"
            heapq.heappush(self._timed, (due, kept.id, kept))
            if self._lines.is_in_line(kept):
                self._lines.leave(kept)
        elif kept.status == "scheduled":
            self._place(kept, now)

    def _place(self, kept: Kept, now: datetime) -> None:
        if kept.row.run_at > now:
            kept.status = "scheduled"
            heapq.heappush(self._timed, (kept.row.run_at, kept.id, kept))
        else:
            self._become_due(kept)

    def _become_due(self, kept: Kept) -> None:
        if kept.key is None or self._lines.is_in_line(kept):
            self._lines.due(kept)
        else:
            self._lines.join(kept)
            self._lines.settle([kept.key])

    # -- runs

    def pass_time(self) -> None:
        """What has expired ends, and what is due is due."""
        now = self._now()
        while self._expiring and self._expiring[0][0] <= now:
            start_before, _, kept = heapq.heappop(self._expiring)
            if kept.row.start_before == start_before and kept.status != "processing" and kept.status not in FINAL:
                kept.change(error_message=EXPIRED, completed_at=now, updated_at=now)
                self._end(kept, "cancelled", now)
        while self._timed and self._timed[0][0] <= now:
            run_at, _, kept = heapq.heappop(self._timed)
            if kept.status in {"scheduled", "failed"} and kept.row.run_at == run_at:
                self._become_due(kept)

    def claim(
        self, queues: Mapping[str, int | None], handlers: Mapping[str, JobDefinition], is_held: Callable[[JobDefinition], bool]
    ) -> Claimed | None:
        """The next job that these may run now, for an attempt. Queues with their totals."""
        self.pass_time()
        now = self._now()
        left: list[tuple[float, int, Kept]] = []
        pending = self._lines.pending
        found: Claimed | None = None
        while pending and found is None:
            entry = heapq.heappop(pending)
            kept = entry[2]
            if kept.status != "pending" or kept.place != entry[1]:
                continue
            handler = handlers.get(kept.row.type)
            if handler is None or kept.row.queue not in queues or kept.row.version > handler.version or is_held(handler):
                left.append(entry)
                continue
            if not self._limits.allow(kept.row, handler.limit, queues[kept.row.queue], now):
                left.append(entry)
                continue
            self._limits.start(kept, handler.limit, now)
            kept.status, kept.token = "processing", next(self._tokens)
            kept.change(attempts=kept.row.attempts + 1, started_at=now, updated_at=now)
            if kept.row.dedup_until == "start":
                self._end_dedup(kept, now)
            found = claimed_of(kept.row, kept.payload, kept.row.attempts, token=kept.token, place=kept.place)
        for entry in left:
            heapq.heappush(pending, entry)
        return found

    def ack(self, ack: Ack) -> None:
        """Write an outcome, if the claim is there."""
        kept, outcome, now = self.kept.get(ack.id), ack.outcome, self._now()
        if kept is None or kept.status != "processing" or kept.token != ack.token:
            return
        status, row = ack.final_status, kept.row
        delays = status in {"failed", "scheduled"}
        error = outcome.error
        kept.change(
            run_at=now + timedelta(seconds=outcome.delay_seconds) if delays else row.run_at,
            attempts=row.attempts - (outcome.kind in {"snooze", "interrupted"}),
            snoozes=row.snoozes + (outcome.kind == "snooze"),
            completed_at=now if status in FINAL else None,
            result=None if outcome.result is None else msgspec.json.decode(outcome.result),
            result_dropped=outcome.result_dropped, error_message=outcome.message,
            progress=row.progress if ack.progress is None else msgspec.json.decode(ack.progress),
            last_error=row.last_error if error is None else error["message"],
            last_error_at=row.last_error_at if error is None else now,
            errors=row.errors if error is None else [*row.errors, {**error, "at": now.isoformat()}][-self._max_errors :],
            payload={} if outcome.empties and status == "completed" else row.payload, updated_at=now,
        )  # fmt: skip
        if status in FINAL:
            self._end(kept, status, now)
        else:
            self._lines.again(kept, status)
            self._watch_expiry(kept)
            if delays:
                heapq.heappush(self._timed, (kept.row.run_at, kept.id, kept))

    def _end(self, kept: Kept, status: str, now: datetime) -> None:
        ended = [(kept, status)]
        while ended:  # what a member's end ends, level by level
            kept, status = ended.pop()
            self._lines.end(kept, status)
            self._end_dedup(kept, now)
            self._ended(kept)
            if kept.row.workflow_id is not None:
                ended += self._arrive(kept.row.workflow_id, kept, now)

    def _arrive(self, flow_id: int, kept: Kept, now: datetime) -> list[tuple[Kept, str]]:
        """A member has ended. Those that wait for it follow; returns those that end."""
        broken: list[tuple[Kept, str]] = []
        for job_id, dead_id in self.flows.arrive(flow_id, kept.job, now):
            dependent = self.kept[job_id]
            if dead_id is None:
                self._let_go(dependent, now)
                continue
            dead = self.kept[dead_id].job
            what = "died" if dead.status == "dead" else "was cancelled"
            dependent.change(error_message=f"upstream {dead_id} ({dead.type}) {what}", completed_at=now, updated_at=now)
            broken.append((dependent, "cancelled"))
        return broken

    def _let_go(self, kept: Kept, now: datetime) -> None:
        """It was blocked, and is not any more; its expiry counts from here."""
        due = max(kept.row.run_at, now)
        start_before = None if kept.row.start_before is None else due + (kept.row.start_before - kept.row.run_at)
        kept.change(run_at=due, scheduled_at=due, start_before=start_before, updated_at=now)
        self._watch_expiry(kept)
        self._place(kept, now)

    def _watch_expiry(self, kept: Kept) -> None:
        if kept.row.start_before is not None:
            heapq.heappush(self._expiring, (kept.row.start_before, kept.id, kept))

    def _end_dedup(self, kept: Kept, now: datetime) -> None:
        key = (kept.row.type, kept.row.dedup_key or "")
        taken = self._dedup.get(key)
        if taken is not None and taken.job_id == kept.id:
            taken.live = False
            if taken.expires_at is None or taken.expires_at <= now:
                del self._dedup[key]

    def next_due(self, queues: Collection[str], handlers: Mapping[str, JobDefinition]) -> datetime | None:
        """When the next of these becomes due, or its limit's key opens."""
        now = self._now()
        served = [kept for kept in self.kept.values() if kept.row.queue in queues and kept.row.type in handlers]
        opens = [self._limits.opens_at(one.row, handlers[one.row.type].limit) for one in served if one.status == "pending"]
        times = [one.row.run_at for one in served if one.status in {"scheduled", "failed"}]
        return min([*times, *(at for at in opens if at is not None and at > now)], default=None)

    def close_key(self, job_id: int, token: int, seconds: float) -> bool:
        """A service said to a job that runs that its limit's key is to be closed for so long: whether it is now."""
        kept = self.kept.get(job_id)
        if kept is None or kept.token != token or kept.row.limit_key is None:
            return False
        self._limits.close(kept.row.limit_key, self._now() + timedelta(seconds=seconds))
        return True


def _did(row: NewRow, other: Kept | None) -> Did:
    """What becomes of a row that met this job (None: another row of the call) with its dedup key."""
    is_open = other is None or other.status in _NOT_STARTED
    if row.on_duplicate == "replace":
        return "replaced" if is_open and (other is None or other.is_new) else "dropped"
    has_begun = other is not None and (other.status == "processing" or other.status in FINAL)
    return "dropped" if has_begun else "kept"


def _refuse_unheeded(rows: Sequence[NewRow]) -> None:
    for name in _UNHEEDED:
        usual = next(one.default for one in msgspec.structs.fields(NewRow) if one.name == name)
        if any(getattr(row, name) != usual for row in rows):
            raise UsageError(f"{name} was given, but this test keeps jobs in memory (in_memory), which does not do that.")
