"""When a runner has nothing left to do: a program that runs what is due, and what that enqueues, ends then.

1. Work is what this runner could do now: what is pending in its queues, of its types and versions; what is due and not promoted
   yet; the first of a line without a head; what the folders have to do at gates; what has expired in its queues, whatever holds
   it; and what it runs, or has not written yet.
2. No work is what is for later (a delay, a retry after its back-off, a snooze); what is held by a pause of its queue, type or
   key, by an open breaker, or behind a halted key; what no slot here may take; and what another runner runs: what that one
   enqueues is work again, for the runners that are there.
3. The database is asked only while nothing runs here, and it is asked for this runner's claims, too: one that is committed and
   whose answer is on its way is seen as a job that runs. Nothing ran before the look and nothing is there: no task here enqueues
   any more.
4. Between looks it waits: as long as they find something that is not claimed, up to a second, and twenty times what a look takes.
   What cannot be asked is asked again: a database that is away for a while does not end the program.
"""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from typing import Final

from asyncjobs.model.scan import COST_RATIO
from asyncjobs.runtime.budget import Budget
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.runtime.runner_parts import RunnerParts
from asyncjobs.store.due import has_work
from asyncjobs.store.failures import is_passing
from asyncjobs.telemetry.events import DatabaseFailed

_FIRST_SECONDS: Final = 0.02
_LONGEST_SECONDS: Final = 1.0


class Idle:
    """One runner's."""

    def __init__(self, opened: OpenApp, parts: RunnerParts, versions: Mapping[str, int], *, budget: Budget | None) -> None:
        self._opened = opened
        self._parts = parts
        self._versions = versions  # of each type, the newest
        self._budget = budget

    @property
    def is_busy(self) -> bool:
        """Whether anything runs here, or is not written yet."""
        parts = self._parts
        return bool(
            len(parts.attempts) or parts.line.claims or parts.keys.unwritten or parts.line.unwritten or parts.verifier.ids
        )

    async def wait(self) -> None:
        """Wait until this runner has nothing to do."""
        pause = _FIRST_SECONDS
        while True:
            if self.is_busy:
                pause = _FIRST_SECONDS
            else:
                began = time.monotonic()
                if not await self._finds_work() and not self.is_busy:
                    return
                pause = min(max(pause * 1.5, (time.monotonic() - began) * COST_RATIO), _LONGEST_SECONDS)
            await asyncio.sleep(pause)

    async def wait_spent(self) -> None:
        """Wait until it has started as many jobs as it may (for ever without such a number), and these have ended."""
        await (asyncio.Event() if self._budget is None else self._budget.spent).wait()
        await self._parts.attempts.wait_ended(math.inf)

    async def _finds_work(self) -> bool:
        try:
            async with self._opened.pool.take() as link:
                return await has_work(
                    link, self._parts.registration.id, self._queues(), self._parts.turnstile.claimable(), self._versions
                )
        except Exception as error:
            if not is_passing(error):
                raise
            self._opened.events.emit(DatabaseFailed(during="look for work", error=error))
            return True

    def _queues(self) -> dict[str, Sequence[str] | None]:
        return {one.queue: None if one.general.slots.size else [*filter(None, one.lanes)] for one in self._parts.queues}
