"""Dead letters: find, show, acknowledge, requeue."""

from collections.abc import Sequence
from typing import Final

import asyncpg

from asyncjobs.model.dead_letter import DeadLetter, DeadLetterFilter, DeadLetterVerb, ErrorKind, FoundDeadLetters
from asyncjobs.model.job import Job
from asyncjobs.store.database import Link
from asyncjobs.store.jobs import to_job

#: What no job is without.
_NEEDED: Final = ("id", "type", "status", "queue", "scheduled_at", "run_at", "created_at", "updated_at")
#: Dead letters that one call looks at.
LOOK: Final = 10_000


async def find(
    link: Link, which: DeadLetterFilter, *, before: int | None = None, limit: int = 100, look: int = LOOK
) -> FoundDeadLetters:
    """A page of the dead letters that fit, the newest first."""
    (row,) = await link.fetch(
        "find_dead_letters", before, limit, look, which.get("type"), which.get("queue"), which.get("key"),
        which.get("correlation_id"), which.get("error"), which.get("died_after"), which.get("died_before"),
        which.get("acknowledged"), which.get("error_kind"),
    )  # fmt: skip
    return FoundDeadLetters(await by_ids(link, row["ids"]) if row["ids"] else [], row["next"], row["looked"])


async def errors(link: Link, which: DeadLetterFilter, *, limit: int) -> list[ErrorKind]:
    """Those that nobody has acknowledged, by error."""
    times = which.get("died_after"), which.get("died_before")
    return [ErrorKind(*row) for row in await link.fetch("dead_letter_errors", which.get("type"), *times, LOOK, limit)]


async def by_ids(link: Link, ids: Sequence[int]) -> list[DeadLetter]:
    """These dead letters, the newest first."""
    return [DeadLetter(*row) for row in await link.fetch("dead_letters_by_id", ids)]


async def job(link: Link, dead_letter: DeadLetter) -> Job:
    """The job of a dead letter as it was when it died; what the list says of it when the record cannot be read."""
    try:
        row = await link.fetch_row("dead_letter_job", dead_letter.id)
    except (asyncpg.DataError, ValueError, OverflowError):  # a value that does not fit its column, or no program's
        row = None
    if row is not None and all(row[name] is not None for name in _NEEDED):
        return to_job(row)
    return Job(
        id=dead_letter.job_id, type=dead_letter.type, status="dead", queue=dead_letter.queue, attempts=dead_letter.attempts,
        error_message=dead_letter.error_message, scheduled_at=dead_letter.died_at, run_at=dead_letter.died_at,
        created_at=dead_letter.died_at, updated_at=dead_letter.died_at,
        completed_at=dead_letter.died_at, unreadable=["original_job"],
    )  # fmt: skip


async def acknowledge(link: Link, ids: Sequence[int], by: str) -> list[DeadLetterVerb]:
    """Acknowledge dead letters. Those that are not there are missing from the answer."""
    return [
        DeadLetterVerb(
            row["dead_letter_id"],
            "acknowledged" if row["is_new"] else "acknowledged before",
            row["job_id"],
            by=row["acknowledged_by"],
        )
        for row in await link.fetch("acknowledge_dead_letters", ids, by)
    ]


async def requeue(link: Link, ids: Sequence[int], by: str, *, force: bool) -> tuple[list[DeadLetterVerb], list[str]]:
    """Make new jobs of dead letters; and the queues where some are pending. Those that are not there are missing from the
    answer. Those of members of workflows are left alone, by the outcome "member": another job would be in nobody's way.
    """
    members = {row["id"]: row["job_id"] for row in await link.fetch("dead_letters_of_members", ids)}
    rows = await link.fetch("requeue_dead_letters", [one for one in ids if one not in members], by, force)
    done = [
        DeadLetterVerb(
            row["dead_letter_id"],
            row["outcome"],
            row["job_id"],
            row["new_id"],
            new_status=row["status"],
            by=by,
            other_id=row["other_id"],
        )
        for row in rows
    ]
    done += [DeadLetterVerb(one, "member", job_id, None, by=by) for one, job_id in members.items()]
    queues = {row["queue"] for row in rows if row["outcome"] == "requeued" and row["status"] == "pending"}
    return done, sorted(queues)
