"""A service said "not now" to a job that runs (`Throttled`): its limit key is closed, before the outcome is written.

What the database cannot be told is told by the outcome alone: then the job comes back after the time that the service named, and
the others of its key are not held up (`store/routines/limits`, rule 8).
"""

from asyncjobs.model.claim import Claimed
from asyncjobs.store import limits
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import DatabaseFailed, Events, LimitKeyClosed


class Throttling:
    """One runner's."""

    def __init__(self, pool: Pool, events: Events) -> None:
        self._pool = pool
        self._events = events

    async def close_key(self, claimed: Claimed, seconds: float) -> bool:
        """Whether the job's key is closed for so long."""
        if claimed.limit_key is None:
            return False
        try:
            async with self._pool.take() as link:
                is_closed = await limits.throttle(link, claimed.id, claimed.token, seconds)
        except Exception as error:  # noqa: BLE001 - the job comes back by itself
            self._events.emit(DatabaseFailed(during="throttle", error=error))
            return False
        if is_closed:
            self._events.emit(LimitKeyClosed(key=claimed.limit_key, job_id=claimed.id, seconds=seconds))
        return is_closed
