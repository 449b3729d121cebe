"""Writes how far running handlers are: the last word of each, at most once a second, and only while there is something to say.

1. A report is the attempt's own (`Attempt.reported`) until it is written. What is not written when the attempt ends goes with its
   outcome, whatever that is: how far a job was is never older than its end. (An attempt whose claim is lost writes neither.)
2. It is fenced like an outcome: by id and token, while the job is processing. So a write that comes late, when the outcome was
   written, changes nothing.
3. While a handler's own transaction holds its job's row (`ctx.complete`) its report is not written here: the completion has it.
   While another one does (an operator's verb in a transaction that is open) the row is skipped, so that the reports of others
   are written, and looked at again with the next pass.
4. A report stays to be written until a pass has written it: one that fails leaves all of its reports to the next.
"""

from collections.abc import Collection, Sequence
from typing import ClassVar

from asyncjobs.model.claim import progress_in_ascii
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.service import Service
from asyncjobs.store import jobs
from asyncjobs.store.failures import is_unstorable_text
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Events

_INTERVAL_SECONDS = 1.0


class Progress(Service):
    """Writes what attempts report while they run."""

    name: ClassVar[str] = "progress"

    def __init__(self, pool: Pool, *, events: Events) -> None:
        super().__init__(events=events, interval_seconds=60.0)
        self._pool = pool
        self._reporting: dict[int, Attempt] = {}  # by token

    def report(self, attempt: Attempt) -> None:
        """Write what it has reported with the next pass, within a second."""
        if attempt.reported is not None:  # else it has ended meanwhile
            self._reporting[attempt.claimed.token] = attempt
            self.wake_within(_INTERVAL_SECONDS)

    async def pass_(self) -> float | None:
        """Write what was reported since the last pass."""
        reporting, self._reporting = self._reporting, {}
        reports = [(one, one.reported, one.unwritten_progress) for one in reporting.values() if not one.completed_in_transaction]
        try:
            locked = await self._write(
                [(one.claimed.id, one.claimed.token, text) for one, _, text in reports if text is not None]
            )
        except BaseException:
            self._reporting = reporting | self._reporting
            raise
        for attempt, report, _ in reports:
            if attempt.claimed.id in locked:
                self.report(attempt)
            elif attempt.reported is report:
                attempt.reported = None
        return None

    async def _write(self, rows: Sequence[tuple[int, int, str]]) -> Collection[int]:
        """Write them; the jobs whose rows are locked."""
        if not rows:
            return ()
        async with self._pool.take() as link:
            try:
                return await jobs.set_progress(link, rows)
            except Exception as error:
                if not is_unstorable_text(error):
                    raise
                return await jobs.set_progress(link, [(id, token, progress_in_ascii(text)) for id, token, text in rows])
