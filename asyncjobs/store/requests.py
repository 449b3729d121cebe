"""Ends that operators asked for of jobs that run: they are on the jobs' rows, and read by those who run them."""

from asyncjobs.model.request import Request
from asyncjobs.store.database import Link


async def look(link: Link, runner_id: int) -> list[Request]:
    """What was asked for of the jobs that this runner runs."""
    return [Request(*row) for row in await link.fetch("requests", runner_id)]
