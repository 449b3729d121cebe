"""Jobs that were completed inside their handler's own transaction (`ctx.complete`).

Their outcome is the transaction's: committed, or not, or not yet. The job's row tells which, and nothing else does, whatever
the handler or its driver heard: completed under this claim's token, processing and free, or held by the open transaction. (A
savepoint that was rolled back has let it go; a prepared transaction holds it.) So they never join a batch of acks, where an open
transaction would hold up strangers. After the handler ended, one at a time:

1. A handler that called `ctx.complete` and returns as if it were done has done its work if the transaction was committed, and
   nothing if not: then its effects are gone, and the attempt has failed (`NotCommitted`), as by any error. What else it ends in
   (an error, a verdict) counts when the transaction was not committed. A completion that was committed counts whatever follows.
2. So when it returns, and what it used is closed, the row is looked at before anything is told of the attempt (`was_committed`).
   A transaction that is still open is waited for half a second, since drivers close connections that the server ends a moment
   later; but not where hooks are to be left, which may commit it. Then the attempt ends as it says.
3. Is the job completed under this claim's token? Then the completion was committed: its key and dedup key are let go, done.
4. If not, the transaction rolled back, or is still open. The attempt's real outcome, in place of a completion NotCommitted, is
   written with a lock time-out; if that runs out, the transaction is still open: back to 3 after a pause. If it says that the
   claim is lost, 3 decides once more: the transaction may have been committed during the wait. A completion that was told of, and
   turns out to be none, is told of, too (`CompletionUndone`).
5. Whatever the database says, nothing ends this: an outcome that it refuses to store is replaced by one that says so, and
   everything else is tried again.

A runner that dies meanwhile leaves either a completed job whose key and dedup key are let go by the rescue or the sweep, or a
processing one to the rescue.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import msgspec

from asyncjobs.connections import Connection, SyncConnection
from asyncjobs.errors import ClaimLost, UsageError
from asyncjobs.model.claim import Ack, storable
from asyncjobs.model.outcome import Outcome
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.parts import Start
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import callers, jobs
from asyncjobs.store.database import Database
from asyncjobs.store.failures import is_lock_timeout, is_unsendable
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import CompletionUndone, DatabaseFailed, Events

_PAUSE_SECONDS: Final = 0.25
_PATIENCE_SECONDS: Final = 0.5
_AT_ONCE_SECONDS: Final = 0.001
#: For so long the look may hold the slot of an attempt that has ended.
_LONGEST_LOOK_SECONDS: Final = 5.0


class Verifier:
    """Finds out what became of completions inside transactions."""

    def __init__(
        self,
        pool: Pool,
        database: Database,
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
        self._database = database
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
        """The jobs that are not verified yet: they are this runner's, although no handler runs."""
        return self._open.keys()

    async def wait_idle(self) -> None:
        """Wait until every such job is verified."""
        await self._idle.wait()

    async def complete(self, attempt: Attempt, connection: Connection, result: str | None, dropped: str | None) -> None:
        """Complete the attempt's job over the handler's own connection. ClaimLost: let its transaction roll back."""
        if attempt.claimed.number:
            waiting = asyncio.get_running_loop().create_future()
            _tell_when_in_front(attempt, waiting)
            await waiting
            _see_that_it_is_in_front(attempt)
        if not await callers.complete(connection, self._database, _completion(attempt, result, dropped)):
            raise _lost(attempt)

    def complete_sync(self, attempt: Attempt, connection: SyncConnection, result: str | None, dropped: str | None) -> None:
        """`complete` on a synchronous connection, in the handler's thread."""
        if attempt.claimed.number:
            waiting = concurrent.futures.Future[None]()
            attempt.loop.call_soon_threadsafe(_tell_when_in_front, attempt, waiting)
            waiting.result()
            _see_that_it_is_in_front(attempt)
        if not callers.complete_sync(connection, self._database, _completion(attempt, result, dropped)):
            raise _lost(attempt)

    async def was_committed(self, attempt: Attempt, /, *, is_patient: bool) -> bool | None:
        """Whether the transaction in which this attempt's job was completed was committed; None: it is not known yet."""
        claimed, patience = attempt.claimed, _PATIENCE_SECONDS if is_patient else _AT_ONCE_SECONDS
        try:
            async with asyncio.timeout(_LONGEST_LOOK_SECONDS), self._pool.take() as link:
                return await jobs.was_completed(link, claimed.id, claimed.token, patience_seconds=patience)
        except Exception as error:  # noqa: BLE001 - one pass; it is found out later
            self._events.emit(DatabaseFailed(during="verify", error=error))
            return None

    def verify(self, attempt: Attempt, ack: Ack) -> None:
        """Find out, in a task."""
        undone: Callable[[Ack], None] | None = None
        if ack.outcome.kind == "completed":
            ack = msgspec.structs.replace(ack, outcome=attempt.not_committed)
            undone = partial(self._tell_undone, attempt)
        try:
            self._start("verifier", partial(self._verify, ack, undone))
        except UsageError:
            return  # the app was closed while the handler ignored its cancellation: the rescue verifies it
        self._open[ack.id] = ack.token
        self._idle.clear()

    def _tell_undone(self, attempt: Attempt, ack: Ack) -> None:
        claimed = attempt.claimed
        self._events.emit(
            CompletionUndone(
                job_id=claimed.id, type=claimed.type, token=claimed.token, runner_id=self._runner_id(), status=ack.status
            )
        )  # fmt: skip

    async def _verify(self, ack: Ack, undone: Callable[[Ack], None] | None) -> None:
        is_verified = False
        while not is_verified:
            try:
                is_verified = await self._is_verified(ack, undone)
            except Exception as error:  # noqa: BLE001 - one pass
                ack = self._after(error, ack)
            if not is_verified:
                await asyncio.sleep(_PAUSE_SECONDS)  # nothing tells when a stranger's transaction ends
        self._open.pop(ack.id, None)
        if not self._open:
            self._idle.set()

    def _after(self, error: Exception, ack: Ack) -> Ack:
        if is_lock_timeout(error):
            return ack
        self._events.emit(DatabaseFailed(during="verify", error=error))
        return storable(ack) if is_unsendable(error) else ack

    async def _is_verified(self, ack: Ack, undone: Callable[[Ack], None] | None) -> bool:
        async with self._pool.take() as link:
            queues = await jobs.verify_completed(link, ack.id, ack.token)
            if queues is None:
                finished = await jobs.ack_alone(link, self._runner_id(), ack, max_errors=self._max_errors)
                if not finished.lost:
                    self._wakes.became_pending(finished.heads, urgent=finished.urgent, for_all=finished.for_all)
                    self._written(ack)
                    if undone is not None:
                        undone(ack)
                    return True
                # The transaction may have been committed while this waited for it.
                queues = await jobs.verify_completed(link, ack.id, ack.token)
        if queues is None:
            self._lost(ack)
        else:
            self._wakes.became_pending(queues, urgent=queues)
            self._written(msgspec.structs.replace(ack, outcome=Outcome(kind="completed")))
        return True


def _completion(attempt: Attempt, result: str | None, dropped: str | None) -> callers.Completion:
    claimed, empties = attempt.claimed, not attempt.keeps_payload
    return callers.Completion(claimed.id, claimed.token, result, dropped, attempt.unwritten_progress, empties)


def _tell_when_in_front(attempt: Attempt, waiting: "asyncio.Future[None] | concurrent.futures.Future[None]") -> None:
    """When the outcomes are written that are in front of its own (`runtime/followers.py`, 6)."""
    attempt.claimed.followers.when_written(attempt.claimed.number, lambda: waiting.done() or waiting.set_result(None))


def _see_that_it_is_in_front(attempt: Attempt) -> None:
    if attempt.claimed.followers.is_broken:
        raise _lost(attempt)


def _lost(attempt: Attempt) -> ClaimLost:
    return ClaimLost(f"job {attempt.claimed.id} is not this attempt's any more: let its transaction roll back.")
