"""Keeps the rows in step with what operators paused, and what no runner serves out of the claim's way.

A pause takes effect by its row in `pauses`: no claim that begins after its commit takes a job of that queue or type; the pending
head of a key may be claimed until `hold_back_key` has held it back. Claims that are under way then have ended when the verb
answers (`wait_for_claims`, for a key `hold_back_key`, in `store/routines/pauses`); no verb waits for a row written by hand.
What was claimed before goes on: a claim is the start as the database knows it, and the handler is called when the claim's answer
has come to the runner. To wait for that, too, would take a write for each start. All else is housekeeping, so that claims do not
walk over what they may not take:

1. Enqueue, promote, dispatch, retry and rescue write `paused` for a job whose type or key is paused. One that read `pauses`
   before the pause committed writes `pending`; one that read it before a resume committed writes `paused`. The duty mends both.
2. Each change, also one by hand, wakes the duty (in memory here, by NOTIFY elsewhere). It moves a batch at a time, and goes on at
   once as long as there was something to move; else it comes back after its interval. So a notification that got lost costs that.
3. Of a paused queue nothing is moved: no claim looks into it. Claims do not look at keys: the verb holds the head of a paused one
   back, under the locks of its row and its key, and the duty one that an operator's SQL made pending.
4. Jobs of a type or a version that no live runner serves are moved out of the way, too, when they are among the first of a queue
   and have been due for five minutes. A runner that registers wakes the duty, and does one pass itself, whatever its turn: what
   it serves comes back.
5. Only rows that asyncjobs had made `paused` come back by themselves: `holds` has the types and keys that were paused, until ten
   minutes after that was seen to have ended, and what had no runner. What an operator's UPDATE has set to `paused` stays so until
   an UPDATE, or the verb that resumes its type or key, lets it go.
6. Rows that come back keep their order among those of the same type and version, and get new places, behind what is pending.

Looking for pending jobs of paused types reads the queue's pending entries when there are none: a pass is followed by a pause of
at least twenty times what it took.

Every statement may be made by any number of processes at once and repeated after a crash: it skips locked rows, and changes only
rows that say something else than `pauses` does.
"""

from typing import ClassVar, Final

from asyncjobs.model.scan import COST_RATIO
from asyncjobs.runtime.duties import Duty
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import pauses
from asyncjobs.store.database import Link
from asyncjobs.store.pauses import Converged
from asyncjobs.telemetry.events import Events

BATCH: Final = 1_000
WINDOW: Final = 1_000
GRACE_SECONDS: Final = 300.0


class Pauser(Duty):
    """Keeps statuses in step with pauses. The link may be shared with other duties."""

    name: ClassVar[str] = "pauser"
    duty = "pauses"

    def __init__(self, link: Link, wakes: Wakes, *, events: Events, interval_seconds: float = 15.0) -> None:
        super().__init__(events=events, interval_seconds=interval_seconds)
        self._link = link
        self._wakes = wakes
        self._has_looked = False

    async def pass_(self) -> float | None:
        """Move a batch."""
        began = self._monotonic()
        converged = await self._converge()
        if converged.more:
            return 0.0
        return max(self.interval_seconds, COST_RATIO * (self._monotonic() - began))

    async def aside(self) -> None:
        """At the start: what no runner served until now comes back."""
        if not self._has_looked:
            await self._converge()

    async def _converge(self) -> Converged:
        converged = await pauses.converge(self._link, BATCH, window=WINDOW, grace_seconds=GRACE_SECONDS)
        self._has_looked = True
        self.items = (self.items or 0) + converged.held + converged.resumed
        for queue in converged.queues:
            self._wakes.pending(queue, front=True)
        return converged
