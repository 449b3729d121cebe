"""Roll-ups: what attempts did, counted in memory and added to `job_metrics` now and then.

No row and no statement per attempt. What may happen, in this order:

1. An attempt ends: its type, what it made of its job, and how long it had waited and ran are counted here. An attempt that was
   given back (a shutdown) is not counted; one that a dead runner took with it is, as failed, by the runner that rescues it.
2. Each interval the counts are added to the rows of the minute that the server's clock shows, in one statement; with nothing
   to add there is none. So a row may count an attempt that ended up to an interval before its minute.
3. The database says no, or is away: the counts are kept and added later, to that minute. When the answer of the statement never
   comes they are dropped: it may have been written, and what is missing misleads less than what is there twice.
4. A stop adds what is left, if the database answers in time. A process that is killed takes the counts of one interval with it.

The duty `rollup` folds rows: minutes older than two hours into hours, hours older than a day into quarters of a day, quarters
older than a week into days, so that the size of the table depends on types and time, never on the number of jobs. A row is folded
into the next larger one in a transaction: a crash changes nothing.

It also counts the unfinished jobs where there are very many, into `job_depths`. A pass that fails leaves the last count, which
says when it was; while no runner does the duty it is not believed for long, and those who look count for themselves.
"""

from typing import ClassVar, Final

from asyncjobs.model.claim import Ack
from asyncjobs.model.outcome import COMPLETED
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.duties import Duty
from asyncjobs.runtime.service import Service
from asyncjobs.store import metrics, overview
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_ambiguous
from asyncjobs.store.metrics import Tally
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Events

_MINUTES_SECONDS: Final = 2 * 3600.0
_HOURS_SECONDS: Final = 86_400.0
_QUARTERS_SECONDS: Final = 7 * 86_400.0
#: Counting a million takes half a second, on a busy server several.
_COUNT_TIMEOUT: Final = 60.0


class Metrics(Service):
    """Counts the attempts of a runner and adds them to the table."""

    name: ClassVar[str] = "metrics"

    def __init__(self, pool: Pool, *, events: Events, interval_seconds: float = 30.0) -> None:
        super().__init__(events=events, interval_seconds=interval_seconds)
        self._pool = pool
        self._tallies: dict[tuple[str, str], Tally] = {}

    def ended(self, attempt: Attempt, ack: Ack) -> None:
        """Count an attempt that ended here."""
        status = "completed" if ack.outcome is COMPLETED else ack.final_status
        if status == "pending":
            return
        claimed = attempt.claimed
        tally = self._tallies.get((claimed.type, status)) or self._tally(claimed.type, status)
        tally.add(claimed.started_epoch - claimed.run_epoch, attempt.run_seconds)

    def lost(self, type: str, status: str) -> None:
        """Count an attempt that ended with its runner; how long it ran is not known."""
        tally = self._tally(type, status)
        tally.count += 1

    def _tally(self, type: str, status: str) -> Tally:
        tally = self._tallies.get((type, status))
        if tally is None:
            tally = self._tallies[type, status] = Tally()
        return tally

    async def pass_(self) -> float | None:
        """Add what was counted since the last pass."""
        await self.write()
        return None

    async def write(self, *, timeout: float | None = None) -> None:
        """Add what was counted, if anything was."""
        if not self._tallies:
            return
        async with self._pool.take() as link:
            tallies, self._tallies = self._tallies, {}
            try:
                await metrics.record(link, tallies, timeout=timeout)
            except Exception as error:
                if not is_ambiguous(error):
                    self._keep(tallies)
                raise

    def _keep(self, tallies: dict[tuple[str, str], Tally]) -> None:
        for (type, status), kept in tallies.items():
            tally = self._tally(type, status)
            tally.count += kept.count
            tally.queue_seconds += kept.queue_seconds
            tally.run_seconds += kept.run_seconds
            for ours, theirs in ((tally.queue_time, kept.queue_time), (tally.run_time, kept.run_time)):
                for number, count in theirs.items():
                    ours[number] = ours.get(number, 0) + count


class Rollup(Duty):
    """Folds old rows, and counts what there is very much of. The link may be shared with other duties."""

    name: ClassVar[str] = "rollup"
    duty = "rollup"

    def __init__(self, link: Link, *, keep_seconds: float, events: Events, interval_seconds: float = 30.0) -> None:
        super().__init__(events=events, interval_seconds=interval_seconds)
        self._link = link
        self._keep_seconds = keep_seconds

    async def pass_(self) -> float | None:
        """Fold an hour, a quarter and a day; when nothing is left of that, count."""
        self.items, more = await metrics.fold(
            self._link, minutes=_MINUTES_SECONDS, hours=_HOURS_SECONDS, quarters=_QUARTERS_SECONDS, days=self._keep_seconds,
            fence=self.turn.fence,
        )  # fmt: skip
        if more:
            return 0.0
        await overview.count_depths(self._link, fence=self.turn.fence, timeout=_COUNT_TIMEOUT)
        return None
