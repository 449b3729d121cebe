"""Jobs as rows of a list: what a page of many shows, whatever the size of their payloads and errors."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from asyncjobs.model.finding import JobFilter, is_filtered
from asyncjobs.model.redaction import Redactions
from asyncjobs.model.status import Status
from asyncjobs.store import finding
from asyncjobs.store.database import Link


class JobRow(msgspec.Struct, frozen=True):
    """One job in a list. `error` and `payload_start` are beginnings; that of a payload above 2 kB is None."""

    id: int
    type: str
    status: Status
    queue: str
    lane: str | None
    priority: int
    attempts: int
    max_attempts: int
    serialization_key: str | None
    correlation_id: str | None
    parent_job_id: int | None
    run_at: datetime
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    error: str | None
    payload_bytes: int  # as the database stores it, which may be compressed
    payload_start: str | None


class Listed(msgspec.Struct, frozen=True):
    """A page of jobs, the highest ids first."""

    jobs: list[JobRow]
    next: int | None  # `before=` of the next page, which may be there even if this one is short; None: that was all
    looked: int  # jobs that were looked at for it, a bounded number


async def rows(link: Link, ids: Sequence[int], ours: Redactions) -> list[JobRow]:
    """These jobs, the highest id first. `ours`: the fields that the app knows nobody is to be shown."""
    if not ids:
        return []
    hidden = msgspec.json.encode({type: list(fields) for type, fields in ours.items()}).decode()
    return [JobRow(*row) for row in await link.fetch("list_jobs", ids, hidden)]


async def page(link: Link, which: JobFilter, ours: Redactions, *, before: int | None, limit: int) -> Listed:
    """A page of the jobs that fit."""
    look = finding.LOOK if is_filtered(which) else limit + 1  # everything fits
    found = await finding.find(link, which, before=before, limit=limit, look=look)
    return Listed(await rows(link, found.ids, ours), found.next, found.looked)


async def longest(link: Link, ours: Redactions, limit: int) -> list[JobRow]:
    """What runs, and for longest first."""
    ids = [row["id"] for row in await link.fetch("longest_running", limit)]
    found = {one.id: one for one in await rows(link, ids, ours)}
    return [found[id] for id in ids if id in found]


async def children(link: Link, job_id: int, ours: Redactions, limit: int) -> list[JobRow]:
    """The first jobs that this one enqueued, the lowest id first."""
    ids = [row["id"] for row in await link.fetch("family_ids", job_id, limit)]
    return (await rows(link, ids, ours))[::-1]


async def trace(link: Link, correlation_id: str, ours: Redactions, limit: int) -> list[JobRow]:
    """The first jobs of a correlation id, the lowest id first."""
    ids = [row["id"] for row in await link.fetch("trace_ids", correlation_id, limit)]
    return (await rows(link, ids, ours))[::-1]
