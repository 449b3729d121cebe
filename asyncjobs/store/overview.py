"""What operators look at first: how much of what is there, and whether anybody serves it."""

from datetime import datetime

import msgspec

from asyncjobs.model.status import Status
from asyncjobs.store.database import Link


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
