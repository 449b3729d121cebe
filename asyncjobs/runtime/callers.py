"""Enqueues in a transaction of the caller's: on the connection that the caller gave, awaited or called.

Nothing of an open app is needed for that, and none of its connections: the schema's name says which function to call, and the
notifications go out with the caller's commit.
"""

from collections.abc import Sequence

from asyncjobs.connections import Connection, SyncConnection
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.runtime import undone
from asyncjobs.runtime.sender import refusal
from asyncjobs.store import callers, jobs
from asyncjobs.store.database import Database
from asyncjobs.store.jobs import EnqueueAnswer
from asyncjobs.telemetry.events import EnqueuesUndone, Events, JobEnqueued


async def enqueue(connection: Connection, database: Database, rows: Sequence[NewRow]) -> list[Enqueued]:
    """Write the rows, all or none: durable with the connection's commit. An EnqueueError, and the transaction can go on."""
    return _accepted(rows, await callers.enqueue(connection, database, rows, _tokens(rows))) if rows else []


def enqueue_sync(connection: SyncConnection, database: Database, rows: Sequence[NewRow]) -> list[Enqueued]:
    """`enqueue` on a synchronous connection."""
    return _accepted(rows, callers.enqueue_sync(connection, database, rows, _tokens(rows))) if rows else []


def _tokens(rows: Sequence[NewRow]) -> list[int]:
    return [jobs.fresh_token()] * len(rows)


def _accepted(rows: Sequence[NewRow], answer: EnqueueAnswer) -> list[Enqueued]:
    if answer.refused:
        raise refusal(rows, answer.enqueued, answer.refused[0])
    return answer.enqueued


def tell(events: Events, rows: Sequence[NewRow], enqueued: Sequence[Enqueued], connection: Connection | None) -> None:
    """Tell of what was enqueued, and later, if the caller's connection says so, that it came to nothing."""
    if connection is not None and enqueued and events.wants(EnqueuesUndone):
        undone.watch(connection, enqueued, events)
    if events.wants(JobEnqueued):
        for row, one in zip(rows, enqueued, strict=True):
            events.emit(JobEnqueued(job_id=one.id, type=row.type, queue=row.queue, created=one.created))
