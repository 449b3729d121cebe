"""What tests look at: every job, and what there is to do. No program calls these: they read whole tables, and empty them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from asyncjobs.model.job import Job
from asyncjobs.store.database import Link
from asyncjobs.store.jobs import to_job


async def all_jobs(link: Link) -> list[Job]:
    """Every job, in the order of their enqueues."""
    return [to_job(row) for row in await link.fetch("all_jobs")]


async def unfinished(link: Link, queues: Sequence[str], versions: Mapping[str, int]) -> list[tuple[int, str, str]]:
    """Id, type and status of what runners of these queues, and of these types up to these versions, have to do now, or do."""
    return [
        (row["id"], row["type"], row["status"])
        for row in await link.fetch("unfinished_jobs", queues, list(versions), msgspec.json.encode(versions).decode())
    ]


async def next_due(link: Link, queues: Sequence[str], types: Sequence[str]) -> datetime | None:
    """When the next of their jobs becomes due; None when none will."""
    row = await link.fetch_row("next_due", queues, types)
    return None if row is None else row["run_at"]


async def clear(link: Link) -> None:
    """Forget all jobs, and close all circuit breakers."""
    await link.fetch("clear_jobs")
    await link.fetch("clear_breakers")
