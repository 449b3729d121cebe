"""A handler that waits for another job, for as long as it takes: what of that can be known to end badly.

A slot is not free while its handler waits. So a job that waits for one of its own queue needs a second slot there, and when its
like have taken all of them each waits for a slot that none of them gives. That is told at once, for each pair of types,
although the awaited job has a slot already: its like, or its next attempt, may find none. It cannot happen where slots are kept
for the awaited job's lane: others never take those. What waits for a job that may start only when it has ended itself is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from asyncjobs.context import current
from asyncjobs.errors import UsageError
from asyncjobs.model.claim import Claimed
from asyncjobs.model.ending import AwaitedKind
from asyncjobs.settings import Queue
from asyncjobs.telemetry.events import Events, HandlerWaitsForItsQueue


class WaitingApp(Protocol):
    """The app whose handler may wait."""

    @property
    def queues(self) -> dict[str, Queue]:
        """Its queues by name."""
        ...


class Kinds(Protocol):
    """Knows of the jobs that are waited for: the open app, or what keeps its jobs in memory."""

    @property
    def events(self) -> Events:
        """Where it tells what happens."""
        ...

    @property
    def waits_told(self) -> set[tuple[str, str]]:
        """The pairs of types that it has told of."""
        ...

    async def awaited_kinds(self, ids: Sequence[int], key: str | None) -> list[AwaitedKind]:
        """Of those jobs one of each kind that has not ended. The handler that waits has this key."""
        ...


async def check_wait(app: WaitingApp, opened: Kinds, job_ids: Sequence[int]) -> None:
    """Before those jobs are waited for without a time-out: where a handler of the app's waits, refuse it (UsageError) or tell of
    it. What waits outside of handlers takes no slot.
    """
    context = current.get()
    if context is None or context.jobs is not app:
        return
    waiter, queues = context.claimed, app.queues
    kinds = await opened.awaited_kinds(job_ids, waiter.serialization_key)
    for awaited in kinds:
        if awaited.is_behind:
            raise UsageError(
                f'job {waiter.id} waits for job {awaited.id}, which has its key "{waiter.serialization_key}" and so starts only '
                "when it has ended: give the other job another key, or wait outside of a handler."
            )
    for awaited in kinds:
        pair = waiter.type, awaited.type
        if pair not in opened.waits_told and _may_be_starved(waiter, awaited, queues):
            opened.waits_told.add(pair)
            opened.events.emit(
                HandlerWaitsForItsQueue(
                    job_id=waiter.id, type=waiter.type, queue=waiter.queue, awaited_id=awaited.id, awaited_type=awaited.type
                )
            )


def _may_be_starved(waiter: Claimed, awaited: AwaitedKind, queues: Mapping[str, Queue]) -> bool:
    """Whether jobs like the waiter may take every slot that the awaited job could have."""
    if awaited.queue != waiter.queue:
        return False
    lanes = queues[waiter.queue].lanes if waiter.queue in queues else {}
    return awaited.lane is None or awaited.lane == waiter.lane or awaited.lane not in lanes
