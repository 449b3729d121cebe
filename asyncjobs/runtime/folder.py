"""The folder: what the ends of members have left behind at their gates (`store/routines/gates`), and what nobody else sees to.

The serializer of each runner calls it when it is woken, and with each sweep. What it may meet, in this order:

1. Arrivals that the writer left, since another had the gate's lock: it folds them. If the gate is locked still, it tries again
   after a few milliseconds, and then with the next look.
2. Gates that have not done with their dependents (more than one batch, or rows that were held): it goes on, a batch a statement.
   So it does with a cascade, level by level.
3. With the sweep: members whose end a stranger's SQL has written. They arrive.
4. With the sweep: workflows that somebody has begun to cancel and has not ended. It ends the rest.

A gate whose fold the database refuses (a row of one of its dependents cannot be written) is set aside (`runtime/set_aside.py`).

A crash in the middle of each leaves it to the next look: there is no memory but where the sweep of members got to.
"""

import asyncio
from functools import partial
from typing import Final

from asyncjobs.model.request import Wanted
from asyncjobs.runtime.set_aside import SetAside
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import finding, serialized, workflows
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_lock_timeout
from asyncjobs.telemetry.events import Events

_PAGE: Final = 2_000
_TRIES: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.002
#: Statements that one look makes before others have a turn.
_MOST: Final = 100
_CANCELLED: Final[Wanted] = "cancel"
CANCEL_BATCH: Final = 500


async def cancel_members(link: Link, workflow_id: int, message: str, wakes: Wakes, *, max_errors: int = 10) -> int:
    """End, or ask to end, what has not ended of a workflow whose cancel has been requested; returns how many members."""
    count = 0
    while ids := await workflows.members_to_cancel(link, workflow_id, CANCEL_BATCH):
        done = await finding.end_many(link, ids, _CANCELLED, message, max_errors)
        count += len(done)
        if any(one.outcome == "requested" for one in done.values()):
            wakes.requested()
        for queue in {queue for one in done.values() for queue in one.queues}:
            wakes.pending(queue, front=True)
        if not any(one.is_change for one in done.values()):
            break  # they moved on under our eyes: the sweep looks again
    return count


class Folder:
    """Folds, and sweeps members. It belongs to one serializer."""

    def __init__(self, wakes: Wakes, events: Events) -> None:
        self._wakes = wakes
        self._gates = SetAside[int]("fold", "gate", events)
        self._jobs = SetAside[int]("sweep", "job", events)
        self._after: tuple[int, int] | None = None

    async def fold(self, link: Link) -> bool:
        """Fold what was left behind. Whether something is left still, which others hold."""
        tries = 0
        await self._gates.due(partial(self._fold_only, link))
        for _ in range(_MOST):
            aside = self._gates.rows
            fold = await self._gates.unless_refused(
                workflows.fold(link, aside=aside),
                partial(workflows.left_over_gates, link, aside=aside),
                partial(self._fold_only, link),
            )
            if fold is None:
                continue
            self._tell(fold)
            if fold.gates:
                tries = 0  # there may be another batch, or level
                continue
            if not fold.more:
                return False
            tries += 1
            if tries == _TRIES:
                return True
            await asyncio.sleep(_FIRST_PAUSE_SECONDS * 2.0**tries)
        return True

    async def sweep(self, link: Link, guarded: Link) -> int:
        """Look at a page of members, and at workflows that are being cancelled; how many ends were found."""
        look = await workflows.look(link, self._after, _PAGE)
        self._after = look.last
        for job_id in look.ended:
            await self._jobs.whole([job_id], partial(self.release, guarded))
        for workflow_id in look.cancelling:
            row = await workflows.get(guarded, workflow_id)
            message = row and row.cancel_message  # what the canceller has said
            await cancel_members(guarded, workflow_id, message or "its workflow was cancelled", self._wakes)
        return len(look.ended)

    async def release(self, link: Link, job_ids: list[int]) -> None:
        """These jobs have ended, or are gone: let their keys go, and let them arrive."""
        for job_id in job_ids:
            try:
                queues = await serialized.release_ended(link, job_id)
            except Exception as error:
                if not is_lock_timeout(error):
                    raise
                continue  # somebody is at it, or the next sweep is
            self._wakes.became_pending(queues, urgent=queues)

    @property
    def refused(self) -> int:
        """How many gates and jobs are set aside."""
        return len(self._gates) + len(self._jobs)

    async def _fold_only(self, link: Link, gates: list[int]) -> None:
        self._tell(await workflows.fold(link, only=gates))

    def _tell(self, fold: workflows.Fold) -> None:
        self._wakes.became_pending(fold.queues, urgent=fold.queues)
