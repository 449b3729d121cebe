"""Workflows: written, folded, looked after, cancelled, and read. The rules: `store/routines/gates`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from asyncjobs.connections import Connection, SyncConnection
from asyncjobs.errors import DuplicateJob
from asyncjobs.model.new_row import NewRow
from asyncjobs.model.workflow import Bunch, FlowPlan, GateRow, MemberResult, MemberRow, Missing, Range, WorkflowRow, WorkflowState
from asyncjobs.store import callers, door
from asyncjobs.store.database import Database, Link

_LIST: Final = 1_000  # rows in one document
_GATES: Final = 200  # that one call folds

CancelOutcome = Literal["requested", "cancelling", "ended", "unknown"]


class Written(msgspec.Struct, frozen=True):
    """A workflow that was written: the ids of its members in their order, and the numbers of those whose time has not come."""

    id: int
    ids: list[int]
    later: list[int]


class Fold(msgspec.Struct, frozen=True):
    """What a look at what was left behind has done."""

    gates: int
    queues: list[str]  # where jobs became pending
    more: bool  # others are left, or some that others have locked


class Ended(msgspec.Struct, frozen=True):
    """A workflow that has ended."""

    state: WorkflowState
    seconds: float  # since it was written


class OpenWorkflows(msgspec.Struct, frozen=True):
    """Workflows that have not ended."""

    running: int = 0
    cancelling: int = 0
    oldest_age_seconds: float = 0.0


class MemberLook(msgspec.Struct, frozen=True):
    """What a page of members showed."""

    ended: list[int]  # jobs that have ended, or are gone, and have not arrived
    last: tuple[int, int] | None  # where the next page starts; None: this was the last
    cancelling: list[int]


async def enqueue(
    link: Link,
    plan: FlowPlan,
    rows: Sequence[NewRow],
    ids: Sequence[int],
    token: int,
    *,
    again: bool = False,
    timeout: float | None = None,
) -> Written:
    """Write the workflow on a connection of ours; its ids were given by `door.give_ids`. Raises DuplicateJob."""
    proofs = [number.proof for number in ids if isinstance(number, door.GivenId)]
    (row,) = await link.fetch(
        "enqueue_workflow", _json(plan), _documents(rows), list(ids), proofs, [token] * len(ids), again, None, timeout=timeout
    )
    return _written(dict(row), rows)


async def enqueue_in_transaction(connection: Connection, database: Database, plan: FlowPlan, rows: Sequence[NewRow]) -> Written:
    """Write the workflow in the connection's transaction. Raises DuplicateJob and UnsupportedConnection."""
    answer = await callers.call(connection, *_in_transaction(database, plan, rows))
    return _written(msgspec.json.decode(answer, type=dict[str, Any]), rows)


def enqueue_in_transaction_sync(
    connection: SyncConnection, database: Database, plan: FlowPlan, rows: Sequence[NewRow]
) -> Written:
    """The same on a synchronous connection."""
    answer = callers.call_sync(connection, *_in_transaction(database, plan, rows))
    return _written(msgspec.json.decode(answer, type=dict[str, Any]), rows)


def _in_transaction(database: Database, plan: FlowPlan, rows: Sequence[NewRow]) -> tuple[str, str, str, str | None]:
    documents = "[" + ",".join(_documents(rows)) + "]"
    return database.sql("enqueue_workflow_in_transaction"), _json(plan), documents, database.channel


def _json(plan: FlowPlan) -> str:
    return msgspec.json.encode(plan).decode()


def _documents(rows: Sequence[NewRow]) -> list[str]:
    return [msgspec.json.encode(rows[start : start + _LIST]).decode() for start in range(0, len(rows), _LIST)]


def _written(row: Mapping[str, Any], rows: Sequence[NewRow]) -> Written:
    if row["refused"]:
        at = row["refused"][0] - 1
        raise DuplicateJob(rows[at].type, rows[at].dedup_key or "", row["ids"][at], row["statuses"][0] or "of the same workflow")
    return Written(row["id"], row["ids"] or [], [at - 1 for at in row["later"] or ()])


class Spawned(msgspec.Struct, frozen=True):
    """What became of jobs that a member adds: their ids, or why there are none."""

    ids: list[int] | None
    is_lost: bool  # the claim is another's by now
    is_alone: bool  # the job is no member
    are_new: bool = False  # else a former attempt has added them


async def spawn(link: Link, job_id: int, token: int, first: int, rows: Sequence[NewRow]) -> Spawned:
    """Add members to the workflow of a job that runs, or find those that a former attempt has added."""
    (row,) = await link.fetch("spawn_members", job_id, token, first, _documents(rows))
    return Spawned(row["ids"], row["is_lost"], row["is_alone"], row["are_new"])


async def fold(link: Link, *, aside: Sequence[int] = (), only: Sequence[int] | None = None) -> Fold:
    """Fold what was left behind at gates, but for those `aside`; or at `only` these."""
    (row,) = await link.fetch("fold_left_over", _GATES, list(aside), None if only is None else list(only))
    return Fold(row["gates"], list(row["queues"] or ()), row["more"])


async def left_over_gates(link: Link, *, aside: Sequence[int]) -> list[int]:
    """The gates that a `fold` would see to."""
    (row,) = await link.fetch("left_over_gates", _GATES, list(aside))
    return list(row["gates"] or ())


async def look(link: Link, after: tuple[int, int] | None, limit: int) -> MemberLook:
    """Look at a page of members behind `after`."""
    (row,) = await link.fetch("look_at_members", *(after or (0, -1)), limit)
    last = None if row["last_workflow"] is None else (row["last_workflow"], row["last_number"])
    return MemberLook(row["ended"] or [], last, row["cancelling"] or [])


async def request_cancel(link: Link, workflow_id: int, message: str) -> CancelOutcome:
    """Begin to cancel a workflow: from now on no gate of it releases."""
    (row,) = await link.fetch("request_cancel", workflow_id, message)
    outcome: CancelOutcome = row["outcome"]
    return outcome


async def members_to_cancel(link: Link, workflow_id: int, limit: int) -> list[int]:
    """Members that are to be ended, or asked to end."""
    (row,) = await link.fetch("members_to_cancel", workflow_id, limit)
    return list(row["ids"])


async def get(link: Link, workflow_id: int) -> WorkflowRow | None:
    """The workflow, or None when there is none."""
    row = await link.fetch_row("workflow", workflow_id)
    return None if row is None else WorkflowRow(**dict(row))


async def find(
    link: Link, *, name: str | None = None, only_open: bool = False, before: int | None = None, limit: int = 50
) -> list[WorkflowRow]:
    """Workflows, the newest first."""
    return [WorkflowRow(**dict(row)) for row in await link.fetch("list_workflows", before, name, only_open, limit)]


async def open_ones(link: Link) -> OpenWorkflows:
    """How many have not ended."""
    rows = await link.fetch("workflow_depths")
    count = {bool(row["is_cancelling"]): row["count"] for row in rows}
    return OpenWorkflows(count.get(False, 0), count.get(True, 0), max((row["oldest_age_seconds"] for row in rows), default=0.0))


async def ended_since(link: Link, after: datetime, limit: int = 10_000) -> tuple[datetime, list[Ended]]:
    """What has ended since then, but for the last seconds; and where the next look goes on."""
    rows = await link.fetch("ended_workflows", after, limit)
    return max(rows[0]["until"], after), [Ended(row["state"], row["seconds"]) for row in rows if row["seconds"] is not None]


async def counts(link: Link, workflow_id: int) -> dict[str, int]:
    """How many members have which status."""
    return {row["status"]: row["count"] for row in await link.fetch("member_counts", workflow_id)}


async def results(link: Link, job_id: int, ranges: Sequence[Range]) -> list[MemberResult]:
    """What other members of this one's workflow have given, by their numbers; none if it is no member."""
    rows = await link.fetch("member_results", job_id, msgspec.json.encode(ranges).decode())
    return [MemberResult(*row) for row in rows]


async def members(link: Link, workflow_id: int, after: int, limit: int) -> list[MemberRow]:
    """Members behind a number, in their order."""
    return [MemberRow(*row) for row in await link.fetch("workflow_members", workflow_id, after, limit)]


async def graph(link: Link, workflow_id: int, limit: int) -> list[Bunch]:
    """The first so many members in bunches, by what a picture tells of them."""
    return [
        Bunch(
            type=row["type"], gates=tuple(row["gates"]), waits=tuple(row["waits"]), after=tuple(row["after"]),
            is_spawned=row["is_spawned"], status=row["status"], count=row["count"], first=row["first"], job_id=row["job_id"],
        )
        for row in await link.fetch("workflow_graph", workflow_id, limit)
    ]  # fmt: skip


async def gates(link: Link, workflow_id: int, limit: int) -> list[GateRow]:
    """The gates of a workflow, without its own, the largest first."""
    return [GateRow(*row) for row in await link.fetch("workflow_gates", workflow_id, limit)]


async def missing(link: Link, job_id: int) -> list[Missing]:
    """What a job waits for that is blocked, that with the most missing first."""
    return [Missing(*row) for row in await link.fetch("gates_of_job", job_id)]


async def members_to_retry(link: Link, workflow_id: int, limit: int) -> list[int]:
    """Members that have died, or were cancelled otherwise than by their gates."""
    return [row["id"] for row in await link.fetch("members_to_retry", workflow_id, limit)]
