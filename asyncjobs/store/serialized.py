"""Keys and their lines: dispatching heads, sweeping, and the verbs of operators."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from asyncjobs.model.request import Wanted
from asyncjobs.model.status import Status
from asyncjobs.store.database import Link

#: Requests that one look takes.
MOST_REQUESTS: Final = 1_000

VerbOutcome = Literal[
    "cancelled",
    "dead",
    "requested",
    "retried",
    "changed",
    "deleted",
    "unknown",
    "final",
    "busy",
    "waiting",
    "scheduled",
    "pending",
    "processing",
    "failed",
    "paused",
    "blocked",
    "member",
    "broken",
    "cancelling",
    "pruning",
    "duplicate",
    "again",
]


class Sweep(msgspec.Struct, frozen=True):
    """What one page of keys showed."""

    stalled: list[str]  # nothing dispatched, not paused
    ended: list[int]  # jobs that ended and still hold their key
    last: str | None  # where the next page starts; None: this was the last
    requests: dict[str, list[int]]  # keys whose dispatch was asked for, with the requests' ids
    lost: list[int]  # jobs that wait and are in no line
    last_waiting: str | None  # where the next page of waiting jobs starts; None: this was the last
    has_limits: bool  # whether limits were declared, or jobs have some
    has_workflows: bool  # whether some have not ended, or have left something behind


class KeyState(msgspec.Struct, frozen=True):
    """A key as an operator sees it."""

    key: str
    depth: int  # jobs in the line, the head among them
    head_id: int
    head_type: str
    head_status: Status  # `waiting` when it is not dispatched
    head_since: datetime  # started, dispatched or made at
    oldest_at: datetime
    halted_at: datetime | None
    halt_reason: str | None
    paused_at: datetime | None
    pause_reason: str | None
    runner_id: int | None  # who runs the head

    @property
    def blocked(self) -> str | None:
        """Why nothing of this key moves by itself, or None."""
        if self.halted_at is not None:
            return f"halted by job {self.head_id}: {self.halt_reason}"
        if self.paused_at is not None:
            return f"paused: {self.pause_reason or 'no reason given'}"
        if self.head_status == "failed":
            return f"job {self.head_id} failed and is to be retried"
        if self.head_status == "scheduled":
            return f"job {self.head_id} is to run later"
        if self.head_status == "paused":
            return f"job {self.head_id} is of a paused queue or type"
        return None


class Place(msgspec.Struct, frozen=True):
    """One job in a key's line."""

    id: int
    type: str
    created_at: datetime
    dispatched: bool


#: The outcomes of a verb that did something.
CHANGES: Final = frozenset({"retried", "cancelled", "dead", "requested", "changed", "deleted"})


#: What is said of members of workflows that were left as they are.
_REFUSED: Final = {
    "broken": "job {}, which it waits for, has not completed; retry that one",
    "cancelling": "its workflow is being cancelled",
    "pruning": "its workflow is being deleted",
    "member": "it is deleted with its workflow",
}


class Verb(msgspec.Struct, frozen=True):
    """What a verb found and did."""

    outcome: VerbOutcome
    was: Status | None  # the status in which it found the job
    queues: list[str]  # where jobs became pending
    other_id: int | None = None  # of the live job that has the dedup key, or of the member that is to be retried

    @property
    def is_change(self) -> bool:
        """Whether something is, or will be, other than before."""
        return self.outcome in CHANGES

    def told(self, job_id: int) -> str:
        """What became of this job, in words."""
        if self.outcome == "requested":
            return f"job {job_id} runs, and was asked to end"
        if self.outcome == "duplicate":
            return f"job {job_id} was not retried: job {self.other_id} lives and has its dedup key"
        if self.outcome in _REFUSED:
            return f"job {job_id} was left as it is: {_REFUSED[self.outcome].format(self.other_id)}"
        if self.is_change:
            return f"job {job_id}: {self.outcome} (was {self.was})"
        return f"job {job_id} was left as it is: {self.was or self.outcome}"


async def sweep(link: Link, after: str, limit: int, *, after_waiting: str | None = None) -> Sweep:
    """Look at a page of keys behind `after` and of waiting jobs behind `after_waiting` (none when `limit` is 0), and at the
    first requests.
    """
    (row,) = await link.fetch("sweep_keys", after, after_waiting, limit, MOST_REQUESTS)
    requests: dict[str, list[int]] = {}
    for key, number in zip(row["request_keys"] or (), row["request_ids"] or (), strict=True):
        requests.setdefault(key, []).append(number)
    return Sweep(
        row["stalled"] or [], row["ended"] or [], row["last"], requests, row["lost"] or [], row["last_waiting"],
        has_limits=row["has_limits"], has_workflows=row["has_workflows"],
    )  # fmt: skip


class Advanced(msgspec.Struct, frozen=True):
    """What a dispatch of heads did."""

    count: int  # heads that were dispatched
    queues: list[str]  # of each that is pending
    blocked: list[str]  # keys that were locked: nothing was done for them


async def advance(link: Link, keys: Sequence[str], requests: Sequence[int]) -> Advanced:
    """Dispatch the heads of idle keys, and drop the requests for it."""
    (row,) = await link.fetch("advance_keys", keys, requests)
    return Advanced(len(row["heads"] or ()), row["queues"] or [], row["blocked"] or [])


async def release_ended(link: Link, job_id: int) -> list[str]:
    """Let go the key of a job that ended without doing so; returns the queue of each job that became pending."""
    (row,) = await link.fetch("release_ended", job_id)
    return row["queues"] or []


async def end(link: Link, job_id: int, wanted: Wanted, message: str, max_errors: int = 10) -> Verb:
    """End a job in whatever state it is, or write the request for it when it runs."""
    (row,) = await link.fetch("end_job", job_id, wanted, message, max_errors)
    return Verb(row["outcome"], row["was"], row["queues"] or [])


async def rejoin(link: Link, job_ids: Sequence[int]) -> int:
    """Let jobs that wait in no line join theirs again, by way of a promotion that is due; returns how many needed it."""
    (row,) = await link.fetch("rejoin", job_ids)
    return int(row["count"])


async def cancel(link: Link, job_id: int, message: str) -> Verb:
    """Cancel a job in whatever state it is."""
    return await end(link, job_id, "cancel", message)


async def retry(link: Link, job_id: int, by: str) -> Verb:
    """Run a job again, or now."""
    (row,) = await link.fetch("retry_job", job_id, by)
    return Verb(row["outcome"], row["was"], row["queues"] or [], row["other_id"])


async def change(link: Link, job_id: int, changes: Mapping[str, object]) -> Verb:
    """Change a job that has not ended and does not run."""
    (row,) = await link.fetch("change_job", job_id, msgspec.json.encode(changes).decode())
    return Verb(row["outcome"], row["was"], row["queues"] or [])


async def delete(link: Link, job_id: int) -> Verb:
    """Delete a job that has ended."""
    (row,) = await link.fetch("delete_job", job_id)
    return Verb(row["outcome"], row["was"], [])


async def release_key(link: Link, key: str) -> tuple[int | None, list[str]]:
    """Let a halted key go on; the job that had halted it (None: it was not halted), and the queues where heads became pending."""
    (row,) = await link.fetch("release_key", key)
    return row["halted_id"], row["queues"] or []


async def hold_back(link: Link, key: str) -> None:
    """Hold back the head of a key whose pause is committed. When it has answered nothing of the key starts any more."""
    await link.fetch("hold_back_key", key)


async def resume_key(link: Link, key: str) -> tuple[bool, list[str]]:
    """Resume a key; whether it was paused, and the queues where heads became pending."""
    (row,) = await link.fetch("resume_key", key)
    return bool(row["resumed"]), row["queues"] or []


async def purge_key(link: Link, key: str, message: str, limit: int) -> tuple[list[int], int | None]:
    """Cancel a batch of waiting jobs of the key; their ids, and the head that is dispatched."""
    (row,) = await link.fetch("purge_key", key, message, limit)
    return row["cancelled"] or [], row["head_id"]


async def keys(link: Link, after: str, limit: int, only: str | None = None) -> list[KeyState]:
    """A page of keys in the order of their names, or one key."""
    return [KeyState(*row) for row in await link.fetch("list_keys", after, limit, only)]


async def stuck(link: Link, limit: int, *, deepest: bool) -> list[KeyState]:
    """Keys of which nothing moves by itself, the longest so first, or the deepest."""
    return [KeyState(*row) for row in await link.fetch("stuck_keys", deepest, limit)]


async def line(link: Link, key: str, limit: int) -> list[Place]:
    """The first jobs of the key's line."""
    return [Place(*row) for row in await link.fetch("key_line", key, limit)]


async def dead(link: Link, key: str | None, type: str | None, limit: int) -> list[int]:
    """Unacknowledged dead jobs in the order in which they died."""
    return [row["id"] for row in await link.fetch("dead_jobs", key, type, limit)]
