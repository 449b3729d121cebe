"""Fire schedules: make a job of each tick, once, whatever runners come and go (P9).

It is the duty `cron`: under a lease, unless another strategy is asked for, and `background_job_leases` shows who does it. But
what makes a tick happen once is the tick itself, not the lease: the row of a schedule says which tick it got to, and a tick is
one statement that moves the row on *from the tick that was seen* and makes the job, or does neither. So no term has to be named,
and a runner that is not the holder may do without harm what the holder does not. What may happen, in this order:

1. Declare, each runner: the rows are held against what this program declares. A row is added (its first tick comes after now),
   changed, enabled again, or, when no runner that lives declares it, disabled; none is ever deleted. The rules for programs that
   differ are in `store/routines/schedules`. A runner that was declared dead declares again under its new id.
2. Look, one statement: where the rows are that have the definition this program declared, which of them the holder of the lease
   declared likewise, and what the server's clock says. Local clocks only time the next look.
3. For each row that owes ticks: tick. The holder does so at once. Another runner does so at once if the holder would not (its
   program has other definitions, or there is none: the lease is free, or its runner is gone), else only when a tick is over
   `LATE` late: the holder died, or hangs. If several find the same tick due, one moves the row on, the others find it locked
   (and look again a moment later) or moved. Nothing raises in the server.
4. After the commit the queue is woken, here and by NOTIFY. A crash in between leaves pending jobs to the poll.
5. Sleep until the next tick that is this runner's is due, or for the interval if that comes first. A runner that is no holder so
   asks once per interval, whatever the ticks; when a lease was handed over it looks again within a second.

A tick that comes between two terms is late by up to `lease_expiry` and the next look after a crash (15 s; less with more runners,
since the first of them that looks makes it), and on time when the lease was handed over. Under `everyone` none is late after a
crash, but each runner asks at each tick. Measured with a schedule that ticks each second, in statements/s of all runners: under
a lease 2.1, 2.4 and 3.0 with 3, 8 and 20 runners, under `everyone` 7.8, 20.9 and 58.

The server's clock put forward: what lies in between was missed, and is treated as the schedule's `misfire` says. Put back: ticks
that had their turn do not come twice, so a schedule rests until the clock gets to where it was. But if there are ticks up to then
that had none (the clock had been put forward over them), it begins anew from now, and passes over those that had theirs: however
wrong the clock was, no schedule rests for longer than its ticks came one after the other meanwhile. All that from a minute on.

One that is to run on start makes a job when a runner that declares it starts, once in that runner's life, as an operator's
`run_schedule` would: none if its last job has not ended, or was made within a minute, so that a deployment of many makes one.

A schedule that cannot tick (no such time zone on this host, a job that the database refuses) has failed: it is disabled with
the reason, alone, and told once. A runner that would let it tick tries again at each look, and the first tick that makes its job
enables it; what it missed meanwhile is treated as its `misfire` says. Until then health, doctor and metrics name it. One whose
key a stranger's transaction holds is tried again a moment later. An error of the connection fails the pass.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Final

from asyncjobs.model.new_row import ORDINARY_PRIORITY, NewRow
from asyncjobs.model.schedule import Due, Schedule, due_ticks
from asyncjobs.model.storable import cut
from asyncjobs.runtime.clock import TIMER_MARGIN_SECONDS
from asyncjobs.runtime.duties import Duty
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import schedules as store
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_passing, is_rolled_back
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import (
    Events,
    ScheduleDiffers,
    ScheduleDisabled,
    ScheduleFired,
    ScheduleReanchored,
    ScheduleRecovered,
    SchedulesDeclared,
    ScheduleTicksSkipped,
)

#: After a tick that had to wait for a stranger's lock.
_AGAIN_SECONDS: Final = 1.0
#: How long a runner's start waits for its schedules to be declared.
_DECLARE_SECONDS: Final = 1.0
#: After a tick whose row was locked: it was taken, unless that was a runner that declares, or an operator.
_LOCKED_SECONDS: Final = 0.2
#: A tick that is so late is made by any runner that sees it: its holder does not.
LATE: Final = timedelta(seconds=2)
#: A runner without schedules of its own only looks for such as were removed.
_IDLE_FACTOR: Final = 4


class Scheduler(Duty):
    """Declares and fires the schedules of one runner."""

    name: ClassVar[str] = "scheduler"
    duty = "cron"

    def __init__(
        self,
        pool: Pool,
        wakes: Wakes,
        schedules: Sequence[Schedule],
        *,
        events: Events,
        runner_id: Callable[[], int],
        interval_seconds: float = 15.0,
    ) -> None:
        super().__init__(events=events, interval_seconds=interval_seconds if schedules else interval_seconds * _IDLE_FACTOR)
        self._pool = pool
        self._wakes = wakes
        self._schedules = {one.name: one for one in schedules}
        self._to_start = {one.name for one in schedules if one.runs_on_start}
        self._runner_id = runner_id
        self._declared_as: int | None = None
        self._declare_at = 0.0
        self._looked_at = 0.0
        self._differing: set[str] = set()
        self.failed: frozenset[str] = frozenset()  # as of the last look
        self._aside_seconds: float | None = None

    def handed_over(self) -> None:
        """The lease may have another holder, who may not fire what the last one did: look, but not all runners at once."""
        if self._schedules:
            self.wake_within(self._chance())

    async def wait_declared(self) -> None:
        """Wait for the first pass, so that an operator finds what was declared; not for a database that is slow to answer."""
        if self._schedules:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DECLARE_SECONDS):
                    await self.wait_passed()

    async def pass_(self) -> float | None:
        """Fire what is due; returns the seconds until the next tick."""
        return await self._fire(leads=True)

    async def aside(self) -> None:
        """Fire what the holder does not."""
        self._aside_seconds = await self._fire(leads=False)

    def aside_seconds(self) -> float:
        """Until the next tick that the holder will not see to, at most the interval."""
        if self._aside_seconds is not None:
            return self._aside_seconds
        seconds = self.strategy.pause_seconds(self.interval_seconds, had_turn=False)
        return min(seconds, self.interval_seconds) * (0.9 + 0.2 * self._chance())

    async def _fire(self, *, leads: bool) -> float | None:
        runner_id = self._runner_id()
        async with self._pool.take() as link:
            if self._declared_as != runner_id:
                await self._declare(link, runner_id)
            seen = await self._look(link, runner_id)
            if self._is_stale(seen):
                await self._declare(link, runner_id)
                seen = await self._look(link, runner_id)
            if seen.ahead:
                await self._reanchor(link, seen)
                seen = await self._look(link, runner_id)
            if self._to_start:
                await self._start(link, seen)
            # Who holds an advisory lock cannot be seen: it is taken for a runner that declares the same.
            led = set[str]() if leads else seen.led if self.leader is not None else set(seen.last_ticks)
            self.failed = frozenset(seen.failed)
            delays = [await self._see_to(link, name, at, seen.now, is_led=name in led) for name, at in seen.last_ticks.items()]
        delay = min(delays, default=self.interval_seconds) - (self._monotonic() - self._looked_at)
        return None if delay >= self.interval_seconds else max(delay, 0.0)

    async def _start(self, link: Link, seen: store.ScheduleLook) -> None:
        """Make the jobs of those that run on start, once in this runner's life."""
        self._to_start &= seen.last_ticks.keys()
        for name in sorted(self._to_start):
            try:
                ids = await store.start(link, self._declared_as or 0, name)
            except Exception as error:
                if is_rolled_back(error):
                    continue  # its row or its key is held: at the next look
                if is_passing(error):
                    raise
                await self._disable(link, name, error)
                ids = []
            self._to_start.discard(name)
            if ids:
                row = self._schedules[name].row
                self._tell(row, ids)
                self.events.emit(ScheduleFired(schedule=name, job_ids=ids, tick_at=seen.now, late_seconds=0.0))

    async def _look(self, link: Link, runner_id: int) -> store.ScheduleLook:
        self._looked_at = self._monotonic()
        return await store.look(link, runner_id)

    def _is_stale(self, seen: store.ScheduleLook) -> bool:
        # Other programs' newer definitions stay: declaring against them again and again would change nothing.
        return seen.declared != len(self._schedules) or (seen.is_stale and self._monotonic() >= self._declare_at)

    async def _declare(self, link: Link, runner_id: int) -> None:
        declared = await store.declare(link, runner_id, list(self._schedules.values()))
        self._declare_at = self._monotonic() + self.interval_seconds / 2
        if not declared.registered:
            return  # the heartbeat finds out, and the runner registers anew
        self._declared_as = runner_id
        if declared.added or declared.changed or declared.enabled or declared.removed:
            self.events.emit(
                SchedulesDeclared(
                    added=declared.added, changed=declared.changed, enabled=declared.enabled, removed=declared.removed
                )
            )
        for name in declared.differing:
            if name not in self._differing:
                self.events.emit(ScheduleDiffers(schedule=name))
        self._differing = set(declared.differing)

    async def _reanchor(self, link: Link, seen: store.ScheduleLook) -> None:
        for name in seen.ahead:
            last_tick = seen.last_ticks[name]
            now_at = await store.reanchor(link, name, last_tick)
            if now_at is not None:
                self.events.emit(ScheduleReanchored(schedule=name, was_at=last_tick, now_at=now_at))

    async def _see_to(self, link: Link, name: str, last_tick: datetime, now: datetime, *, is_led: bool) -> float:
        """Let one schedule tick if it is due; returns the seconds until it wants to be seen to again."""
        schedule = self._schedules[name]
        try:
            first = schedule.timing.following(last_tick)
            if is_led and (first is None or name in self.failed or now - first < LATE):
                return self.interval_seconds
            due = due_ticks(schedule.timing, schedule.misfire, last_tick, now)
            if due is not None:
                if await self._tick(link, schedule, last_tick, due, now) == "locked":
                    return _LOCKED_SECONDS
                last_tick = due.reached
            following = schedule.timing.following(last_tick)
        except Exception as error:
            if is_rolled_back(error):
                return _AGAIN_SECONDS
            if is_passing(error):
                raise
            await self._disable(link, name, error)
            return self.interval_seconds
        if following is None:
            return self.interval_seconds
        return max((following - now).total_seconds(), 0.0) + TIMER_MARGIN_SECONDS

    def _tell(self, row: NewRow, ids: Sequence[int]) -> None:
        is_first = row.priority < ORDINARY_PRIORITY
        self._wakes.pending(row.queue, front=is_first, count=len(ids), in_process_only=not row.notify)

    async def _tick(self, link: Link, schedule: Schedule, last_tick: datetime, due: Due, now: datetime) -> store.Outcome:
        ticked = await store.tick(link, self._declared_as or 0, schedule.name, last_tick, due)
        if ticked.outcome in {"taken", "locked"}:
            return ticked.outcome
        if schedule.name in self.failed and due.ticks:
            self.failed -= {schedule.name}
            self.events.emit(ScheduleRecovered(schedule=schedule.name))
        if ticked.job_ids:
            row = schedule.row
            self._tell(row, ticked.job_ids)
            if row.expires_seconds is not None:
                self._wakes.expires_in(row.expires_seconds, in_process_only=not row.notify)
            late = (now - due.reached).total_seconds()
            self.events.emit(
                ScheduleFired(schedule=schedule.name, job_ids=ticked.job_ids, tick_at=due.reached, late_seconds=late)
            )
        if ticked.outcome != "fired" or due.is_skipping:
            reason = ticked.outcome if ticked.outcome in {"overlapped", "duplicate", "spent"} else "missed"
            self.events.emit(ScheduleTicksSkipped(schedule=schedule.name, reason=reason, after=last_tick, until=due.reached))
        return ticked.outcome

    async def _disable(self, link: Link, name: str, error: Exception) -> None:
        reason = cut(f"{type(error).__name__}: {error}", 500)
        self.failed |= {name}
        if await store.disable(link, name, because="failed", reason=reason):
            self.events.emit(ScheduleDisabled(schedule=name, reason=reason))
