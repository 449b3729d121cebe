"""Jobs that were completed inside their handler's own transaction (`ctx.complete`).

Their outcome is the transaction's: committed, or not, or not yet. So they never join a batch of acks, where an open transaction
would hold up strangers. After the handler ended, one at a time:

1. Is the job completed under this claim's token? Then the completion was committed: its key and dedup key are released, done.
2. If not, the transaction rolled back, or is still open. The attempt's real outcome is written with a lock time-out; if that
   runs out, the transaction is still open: back to 1 after a pause. If it says that the claim is lost, 1 decides once more: the
   transaction may have been committed during the wait. A handler that returned as if all were well has failed
   (CompletionNotCommitted): what it wrote is gone, so its job is not completed.
3. Whatever the database says, nothing ends this: an outcome that it refuses to store is replaced by one that says so, and
   everything else is tried again.

A runner that dies meanwhile leaves either a completed job whose key is released by the sweep, or a processing one to the rescue.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

import msgspec

from asyncjobs.errors import CompletionNotCommitted, UsageError
from asyncjobs.model.claim import Ack
from asyncjobs.model.outcome import Outcome, refused
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.parts import Start
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import jobs
from asyncjobs.store.failures import is_lock_timeout, is_unsendable
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import DatabaseFailed, Events

_PAUSE_SECONDS: Final = 0.25


class Settler:
    """Finds out what became of completions inside transactions."""

    def __init__(
        self,
        pool: Pool,
        wakes: Wakes,
        *,
        events: Events,
        written: Callable[[Ack], None],
        lost: Callable[[Ack], None],
        runner_id: Callable[[], int],
        start: Start,
        max_errors: int,
    ) -> None:
        self._pool = pool
        self._wakes = wakes
        self._events = events
        self._written = written
        self._lost = lost
        self._runner_id = runner_id
        self._start = start
        self._max_errors = max_errors
        self._open: dict[int, int] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def ids(self) -> Collection[int]:
        """The jobs that are not settled yet: they are this runner's, although no handler runs."""
        return self._open.keys()

    async def wait_idle(self) -> None:
        """Wait until every such job is settled."""
        await self._idle.wait()

    def settle(self, attempt: Attempt, ack: Ack) -> None:
        """Find out, in a task."""
        if ack.outcome.kind == "completed":
            error = CompletionNotCommitted("the handler returned after ctx.complete(), and its transaction was not committed")
            ack = msgspec.structs.replace(ack, outcome=attempt.failed_by(error))
        try:
            self._start("settler", partial(self._settle, ack))
        except UsageError:
            return  # the app was closed while the handler ignored its cancellation: the rescue settles it
        self._open[ack.id] = ack.token
        self._idle.clear()

    async def _settle(self, ack: Ack) -> None:
        is_settled = False
        while not is_settled:
            try:
                is_settled = await self._is_settled(ack)
            except Exception as error:  # noqa: BLE001 - one pass
                ack = self._after(error, ack)
            if not is_settled:
                await asyncio.sleep(_PAUSE_SECONDS)  # nobody tells when a stranger's transaction ends
        self._open.pop(ack.id, None)
        if not self._open:
            self._idle.set()

    def _after(self, error: Exception, ack: Ack) -> Ack:
        if is_lock_timeout(error):
            return ack
        self._events.emit(DatabaseFailed(during="settle", error=error))
        return msgspec.structs.replace(ack, outcome=refused(ack.outcome)) if is_unsendable(error) else ack

    async def _is_settled(self, ack: Ack) -> bool:
        async with self._pool.take() as link:
            queues = await jobs.settle_completed(link, ack.id, ack.token)
            if queues is None:
                finished = await jobs.ack_alone(link, self._runner_id(), ack, max_errors=self._max_errors)
                if not finished.lost:
                    self._tell(finished.heads)
                    self._written(ack)
                    return True
                # The transaction may have been committed while this waited for it.
                queues = await jobs.settle_completed(link, ack.id, ack.token)
        if queues is None:
            self._lost(ack)
        else:
            self._tell(queues)
            self._written(msgspec.structs.replace(ack, outcome=Outcome(kind="completed")))
        return True

    def _tell(self, queues: Sequence[str]) -> None:
        for queue in queues:
            self._wakes.pending(queue)
