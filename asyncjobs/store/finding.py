"""Find jobs, and end many of them."""

from collections.abc import Sequence
from typing import Final

import msgspec

from asyncjobs.model.finding import JobFilter, check_filter, ids_of, statuses_of, tags_of, workflow_of
from asyncjobs.model.job import Job
from asyncjobs.model.request import Wanted
from asyncjobs.model.status import Status
from asyncjobs.store.database import Link
from asyncjobs.store.jobs import to_job
from asyncjobs.store.serialized import Verb

#: Jobs that one call looks at.
LOOK: Final = 10_000


class Page(msgspec.Struct, frozen=True):
    """The jobs that a look found."""

    ids: list[int]
    statuses: list[Status]
    looked: int
    next: int | None


async def find(link: Link, which: JobFilter, *, before: int | None, limit: int, walk: bool = False, look: int = LOOK) -> Page:
    """A page of the jobs that fit. `walk`: along the ids, whatever indexes there are."""
    check_filter(which)
    payload = which.get("payload")
    (row,) = await link.fetch(
        "find_jobs", before, limit, look, walk, which.get("correlation_id"), which.get("type"), statuses_of(which),
        which.get("queue"), which.get("key"), which.get("parent_job_id"),
        None if payload is None else msgspec.json.encode(payload).decode(), which.get("error"), tags_of(which),
        which.get("dedup_key"), which.get("limit_key"), which.get("priority"), ids_of(which), which.get("created_after"),
        which.get("created_before"), which.get("since"), which.get("until"), workflow_of(which),
    )  # fmt: skip
    return Page(row["ids"], row["statuses"], row["looked"], row["next"])


async def jobs(link: Link, ids: Sequence[int]) -> list[Job]:
    """These jobs, the highest id first."""
    return [to_job(row) for row in await link.fetch("jobs_by_id", ids)]


async def end_many(link: Link, ids: Sequence[int], wanted: Wanted, message: str, max_errors: int) -> dict[int, Verb]:
    """End these jobs in one transaction, or write the requests for it."""
    rows = await link.fetch("end_jobs", ids, wanted, message, max_errors)
    return {row["id"]: Verb(row["outcome"], row["was"], row["queues"] or []) for row in rows}
