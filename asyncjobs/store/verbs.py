"""Operators' verbs, and a look at a job, in the caller's own transaction: what is asked of `verb_in_transaction`, and what its
answer means.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Generic, TypeVar

import msgspec

from asyncjobs.connections import AsyncConnection, SyncConnection
from asyncjobs.model.audit import Deed
from asyncjobs.model.dead_letter import DeadLetterVerb
from asyncjobs.model.job import Job
from asyncjobs.model.request import Wanted
from asyncjobs.model.trace import own_trace
from asyncjobs.store import callers
from asyncjobs.store.database import Database
from asyncjobs.store.reading import readable
from asyncjobs.store.serialized import Verb

T = TypeVar("T")


class Asked(msgspec.Struct, Generic[T], frozen=True):
    """One verb on one job or dead letter."""

    verb: str
    said: Mapping[str, object]
    read: Callable[[dict[str, Any] | None], T]


async def do(asked: Asked[T], deed: Deed | None, connection: AsyncConnection, database: Database) -> T:
    """Do it in the connection's transaction. UnsupportedConnection, and the driver's own errors."""
    return asked.read(_done(await callers.call(connection, database.sql("verb_in_transaction"), *_texts(asked, deed))))


def do_sync(asked: Asked[T], deed: Deed | None, connection: SyncConnection, database: Database) -> T:
    """`do` on a synchronous connection."""
    return asked.read(_done(callers.call_sync(connection, database.sql("verb_in_transaction"), *_texts(asked, deed))))


def _texts(asked: Asked[Any], deed: Deed | None) -> tuple[str, str]:
    said = asked.said if deed is None else {**asked.said, "deed": deed}
    return asked.verb, msgspec.json.encode(said).decode()


def _done(answer: str) -> dict[str, Any] | None:
    return msgspec.json.decode(answer, type=dict[str, Any] | None)


def get(job_id: int) -> Asked[Job | None]:
    """The job as this transaction sees it, or None."""
    return Asked("get", {"id": job_id}, _job)


def end(job_id: int, wanted: Wanted, message: str, max_errors: int) -> Asked[Verb]:
    """End a job in whatever state it is, or write the request for it when it runs."""
    return Asked("end", {"id": job_id, "wanted": wanted, "message": message, "max_errors": max_errors}, _verb)


def retry(job_id: int, by: str) -> Asked[Verb]:
    """Run a job again, or now."""
    return Asked("retry", {"id": job_id, "by": by}, _verb)


def change(job_id: int, changes: Mapping[str, object]) -> Asked[Verb]:
    """Change a job that has not ended and does not run."""
    return Asked("change", {"id": job_id, "changes": changes}, _verb)


def delete(job_id: int) -> Asked[Verb]:
    """Delete a job that has ended."""
    return Asked("delete", {"id": job_id}, _verb)


def acknowledge(dead_letter_id: int, by: str) -> Asked[DeadLetterVerb | None]:
    """Acknowledge a dead letter; None: it is not there."""

    def read(done: dict[str, Any] | None) -> DeadLetterVerb | None:
        if done is None:
            return None
        outcome = "acknowledged" if done["is_new"] else "acknowledged before"
        return DeadLetterVerb(dead_letter_id, outcome, done["job_id"], by=done["acknowledged_by"])  # type: ignore[arg-type]

    return Asked("acknowledge", {"id": dead_letter_id, "by": by}, read)


def requeue(dead_letter_id: int, by: str, *, force: bool) -> Asked[DeadLetterVerb | None]:
    """Make a new job of a dead letter; None: it is not there."""

    def read(done: dict[str, Any] | None) -> DeadLetterVerb | None:
        if done is None:
            return None
        return DeadLetterVerb(
            dead_letter_id, done["outcome"], done["job_id"], done["new_id"], new_status=done["status"], by=by,
            other_id=done["other_id"],
        )  # fmt: skip

    return Asked("requeue", {"id": dead_letter_id, "by": by, "force": force}, read)


def _verb(done: dict[str, Any] | None) -> Verb:
    if done is None:  # no function of ours answers no row
        raise AssertionError("unreachable")
    return Verb(done["outcome"], done["was"], done.get("queues") or [], done.get("other_id"))


def _job(done: dict[str, Any] | None) -> Job | None:
    if done is None:
        return None
    values = readable(done)
    values["correlation_id"] = values["correlation_id"] or own_trace(values["id"])
    values["timeout"] = None if values["timeout"] is None else timedelta(seconds=values["timeout"])
    return msgspec.convert(values, Job)
