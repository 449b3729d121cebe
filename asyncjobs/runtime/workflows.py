"""What an open app does with workflows: write them, read what has become of them, wait for them, and cancel them.

1. A workflow is written as a whole by one statement: on a connection of ours, or on the caller's in its transaction.
2. On a connection of ours its ids are given first. So a call that was not answered is made again under the same ids, and finds
   what the first has written.
3. A cancel is two transactions at least: the request for it is committed first, so that no gate releases any more; then members
   are ended, or asked to end, a batch each. Who dies in between leaves it to the sweep (`runtime/folder.py`).
"""

import asyncio
import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from asyncjobs.connections import Connection, SyncConnection
from asyncjobs.errors import ClaimLost, UsageError, WaitTimeout, WorkflowNotFound
from asyncjobs.model.finding import Found
from asyncjobs.model.new_row import ORDINARY_PRIORITY, Enqueued, NewRow
from asyncjobs.model.workflow import FlowPlan, MemberResult, Range, WorkflowRow
from asyncjobs.runtime import callers
from asyncjobs.runtime.folder import Folder, cancel_members
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.store import door, finding, jobs, workflows
from asyncjobs.store.database import Database, Link
from asyncjobs.store.workflows import CancelOutcome, Spawned, Written
from asyncjobs.telemetry.events import Events, WorkflowEnqueued

_FIRST_LOOK_SECONDS: Final = 0.02
_LAST_LOOK_SECONDS: Final = 0.5
#: What the statement may take beyond the link's own time-out, as of an enqueue (`runtime/sender.py`).
_ROWS_PER_SECOND: Final = 2_000
_BYTES_PER_SECOND: Final = 2_000_000


async def write(opened: OpenApp, plan: FlowPlan, rows: Sequence[NewRow], connection: Connection | None) -> Written:
    """Write a workflow, or nothing; durable when this returns, or with the commit of `connection`. DuplicateJob."""
    opened.check_usable()
    if connection is not None:
        written = await workflows.enqueue_in_transaction(connection, opened.database, plan, rows)
    else:
        written = await _write(opened, plan, rows)
        later = set(written.later)
        _told(opened, [row for at, row in enumerate(rows) if not row.waits and at not in later])
        if later:
            opened.wakes.due_in(0.0)
    callers.tell(opened.events, rows, [Enqueued(job_id, True) for job_id in written.ids], connection)
    opened.events.emit(WorkflowEnqueued(workflow_id=written.id, name=plan.name, size=len(written.ids)))
    return written


def _told(opened: OpenApp, rows: Sequence[NewRow]) -> None:
    urgent = {row.queue for row in rows if row.priority < ORDINARY_PRIORITY}
    opened.wakes.became_pending([row.queue for row in rows], urgent=urgent)


def write_sync(events: Events, database: Database, plan: FlowPlan, rows: Sequence[NewRow], connection: SyncConnection) -> Written:
    """`write` on a synchronous connection."""
    written = workflows.enqueue_in_transaction_sync(connection, database, plan, rows)
    callers.tell(events, rows, [Enqueued(job_id, True) for job_id in written.ids], connection)
    events.emit(WorkflowEnqueued(workflow_id=written.id, name=plan.name, size=len(written.ids)))
    return written


async def _write(opened: OpenApp, plan: FlowPlan, rows: Sequence[NewRow]) -> Written:
    token = jobs.fresh_token()
    ids: list[int] = []
    while len(ids) < len(rows):
        ids += await opened.read(partial(door.give_ids, count=len(rows) - len(ids)))
    was_sent = False

    async def once(link: Link) -> Written:
        nonlocal was_sent
        again, was_sent = was_sent, True
        timeout = (
            link.timeout_seconds + len(rows) / _ROWS_PER_SECOND + sum([len(row.payload) for row in rows]) / _BYTES_PER_SECOND
        )
        return await workflows.enqueue(link, plan, rows, ids, token, again=again, timeout=timeout)

    return await opened.read(once)


async def spawn(opened: OpenApp, job_id: int, token: int, first: int, rows: Sequence[NewRow]) -> list[Enqueued]:
    """Add members to the workflow of a job that runs. A call that was not answered is made again, and finds them."""
    opened.check_usable()
    calls = 0

    async def once(link: Link) -> Spawned:
        nonlocal calls
        calls += 1
        return await workflows.spawn(link, job_id, token, first, rows)

    enqueued = enqueued_by(job_id, await opened.read(once), is_again=calls > 1)
    callers.tell(opened.events, rows, enqueued, None)
    _told(opened, rows)
    return enqueued


def enqueued_by(job_id: int, spawned: Spawned, *, is_again: bool = False) -> list[Enqueued]:
    """What a job has spawned, created by this attempt or by a former. `is_again`: a second call, which finds what the first has
    written. ClaimLost, UsageError.
    """
    if spawned.is_lost:
        raise ClaimLost(f"job {job_id} spawned others, and its claim is another's by now: nothing was written.")
    if spawned.is_alone:
        raise UsageError(f"job {job_id} is of no workflow, so nobody waits for what it spawns: enqueue it instead.")
    created = spawned.are_new or is_again
    return [Enqueued(one, created, did="made" if created else "kept") for one in spawned.ids or []]


async def results(opened: OpenApp, job_id: int, ranges: Sequence[Range]) -> list[MemberResult]:
    """What other members of this one's workflow have given, by their numbers."""
    return await opened.read(partial(workflows.results, job_id=job_id, ranges=ranges))


async def get(opened: OpenApp, workflow_id: int) -> WorkflowRow:
    """The workflow. WorkflowNotFound."""
    opened.check_usable()
    return found(workflow_id, await opened.read(partial(workflows.get, workflow_id=workflow_id)))


def found(workflow_id: int, row: WorkflowRow | None) -> WorkflowRow:
    """The row, or WorkflowNotFound."""
    if row is None:
        raise WorkflowNotFound(workflow_id)
    return row


def not_ended(row: WorkflowRow, why: str) -> WaitTimeout:
    """What a wait for it raises; `why` it ends."""
    left = f"{row.missing} of its {row.size} jobs have not ended"
    return WaitTimeout(f'workflow {row.id} "{row.name}" had not ended {why}: {left}.', job_id=row.id)


async def counts(opened: OpenApp, workflow_id: int) -> dict[str, int]:
    """How many of its members have which status."""
    opened.check_usable()
    return await opened.read(partial(workflows.counts, workflow_id=workflow_id))


async def members(opened: OpenApp, workflow_id: int, before: int | None, limit: int) -> Found:
    """A page of its jobs, the highest ids first."""
    opened.check_usable()

    async def read(link: Link) -> Found:
        page = await finding.find(link, {"workflow": workflow_id}, before=before, limit=limit)
        return Found(await finding.jobs(link, page.ids) if page.ids else [], page.next, page.looked)

    return await opened.read(read)


async def wait(opened: OpenApp, workflow_id: int, timeout: float | None) -> WorkflowRow:
    """The workflow when it has ended; found by looking now and then. WorkflowNotFound, WaitTimeout."""
    until = math.inf if timeout is None else time.monotonic() + timeout
    pause = _FIRST_LOOK_SECONDS
    while True:
        row = await get(opened, workflow_id)
        if row.ended_at is not None:
            return row
        if time.monotonic() + pause > until:
            raise not_ended(row, f"after {timeout:g} s")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LAST_LOOK_SECONDS)


async def cancel(opened: OpenApp, workflow_id: int, message: str) -> CancelOutcome:
    """Cancel what has not ended of a workflow; what runs is asked to end. WorkflowNotFound."""
    opened.check_usable()
    outcome = await opened.read(partial(workflows.request_cancel, workflow_id=workflow_id, message=message))
    if known(workflow_id, outcome) != "ended":
        async with opened.pool.take() as link:
            await cancel_members(link, workflow_id, message, opened.wakes, max_errors=opened.settings.max_errors)
            await Folder(opened.wakes, opened.events).fold(link)  # there may be no runner that does it
    return outcome


def known(workflow_id: int, outcome: CancelOutcome) -> CancelOutcome:
    """What came of a cancel, or WorkflowNotFound."""
    if outcome == "unknown":
        raise WorkflowNotFound(workflow_id)
    return outcome
