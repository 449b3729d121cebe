"""Jobs that were completed inside their handler's own transaction (`ctx.complete`).

Their outcome is the transaction's: committed, or not, or not yet. So they never join a batch of acks, where an open transaction
would hold up strangers. After the handler ended, one at a time:

1. Is the job completed under this claim's token? Then the completion was committed: its key and dedup key are released, done.
2. If not, the transaction rolled back, or is still open. The attempt's real outcome is written with a lock time-out; if that
   runs out, the transaction is still open: back to 1 after a pause.

A runner that dies meanwhile leaves either a completed job whose key is released by the sweep, or a processing one to the rescue.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import asyncpg

from asyncjobs.model.claim import Ack
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.store import jobs
from asyncjobs.store.failures import is_lock_timeout, is_passing
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import DatabaseFailed, Events

_PAUSE_SECONDS: Final = 0.25


class Settler:
    """Finds out what became of completions inside transactions."""

    def __init__(
        self,
        pool: Pool,
        *,
        events: Events,
        written: Callable[[Ack], None],
        lost: Callable[[Ack], None],
        runner_id: Callable[[], int],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        max_errors: int,
    ) -> None:
        self._pool = pool
        self._events = events
        self._written = written
        self._lost = lost
        self._runner_id = runner_id
        self._spawn = spawn
        self._max_errors = max_errors
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def wait_idle(self) -> None:
        """Wait until every such job is settled."""
        await self._idle.wait()

    def settle(self, _attempt: Attempt, ack: Ack) -> None:
        """Find out, in a task."""
        self._open += 1
        self._idle.clear()
        self._spawn(self._settle(ack), f"settle job {ack.id}")

    async def _settle(self, ack: Ack) -> None:
        try:
            # Nobody tells when a stranger's transaction ends.
            while not await self._is_settled(ack):  # noqa: ASYNC110
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._open -= 1
            if not self._open:
                self._idle.set()

    async def _is_settled(self, ack: Ack) -> bool:
        try:
            async with self._pool.take() as link:
                if await jobs.settle_completed(link, ack.id, ack.token):
                    self._written(ack)
                    return True
                finished = await jobs.ack_alone(link, self._runner_id(), ack, max_errors=self._max_errors)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            if not is_lock_timeout(error):
                self._events.emit(DatabaseFailed(during="settle", error=error))
                if not is_passing(error):
                    raise
            return False
        (self._lost if finished.lost else self._written)(ack)
        return True
