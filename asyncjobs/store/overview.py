"""What operators look at first: how much of what is there, and whether anybody serves it."""

from datetime import datetime

import msgspec

from asyncjobs.model.job import Job
from asyncjobs.model.status import Status
from asyncjobs.store.database import Link
from asyncjobs.store.jobs import to_job


class Count(msgspec.Struct, frozen=True):
    """The unfinished jobs of one queue, type and status."""

    queue: str
    type: str
    status: Status
    count: int
    oldest_at: datetime  # due since, or started at, or (waiting) made at
    served: bool  # a live runner serves this queue and has a handler for this type


async def stats(link: Link) -> list[Count]:
    """The unfinished jobs by queue, type and status."""
    return [Count(*row) for row in await link.fetch("stats")]


async def trace(link: Link, correlation_id: str, limit: int) -> list[Job]:
    """The jobs of a correlation id in the order in which they were made."""
    return [to_job(row) for row in await link.fetch("trace", correlation_id, limit)]
