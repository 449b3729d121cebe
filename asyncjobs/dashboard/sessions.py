"""Which sessions were ended before their time: known to every process of the dashboard, through the database.

This process remembers its own, too: where the database cannot be written (a role that only reads), or is away, the session ends
here at least. While the database cannot be read, a session counts: there is nothing to be seen then, and nothing to be done.
"""

import time

from asyncjobs.app import AsyncJobs
from asyncjobs.store import sessions
from asyncjobs.store.failures import DATABASE_ERRORS
from asyncjobs.telemetry.events import DatabaseFailed


class Sessions:
    """Ends sessions, and knows those that were ended."""

    def __init__(self, jobs: AsyncJobs) -> None:
        self._jobs = jobs
        self._ended: dict[str, float] = {}  # here, and until when they would have lasted

    async def end(self, session: str, until: float) -> None:
        """End it."""
        self._ended = {one: at for one, at in self._ended.items() if at > time.time()} | {session: until}
        opened = self._jobs.lifecycle.opened
        if opened is None:
            return
        try:
            async with opened.pool.take() as link:
                await sessions.end(link, session, until)
        except DATABASE_ERRORS as error:
            self._jobs.events.emit(DatabaseFailed(during="logout", error=error))

    async def is_ended(self, session: str) -> bool:
        """Whether it was ended, here or elsewhere."""
        opened = self._jobs.lifecycle.opened
        if session in self._ended or opened is None:
            return session in self._ended
        try:
            async with opened.pool.take() as link:
                return await sessions.is_ended(link, session)
        except DATABASE_ERRORS:
            return False
