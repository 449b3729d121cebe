"""Make jobs pending when their time has come: scheduled ones, snoozed ones, and failed ones that are tried again.

Every runner does it (SKIP LOCKED shares the work), unless another strategy is asked for. What may happen, in this order:

1. One statement promotes a batch and tells when the next job is due, by the server's clock. The loop sleeps until then, or
   for the interval if that comes first; so a job starts within milliseconds of its time, without asking each second.
2. A process that schedules a job that is due before the next pass says so: `hint` in this process, a NOTIFY in the others. A hint
   that gets lost, or that no runner listens for, costs at most the interval, or the poll's where that is shorter.
3. Jobs with a serialization key that are not the head of their key's line join it, in statements of their own, under the
   locks of their keys. A key whose lock is held by a stranger's transaction is left for the next pass, and delays no other
   key.
4. After the commit the queues are woken, here and by NOTIFY. A crash in between leaves pending jobs that no runner was told of:
   the poll finds them.

What was promoted stays in the index, as dead entries at its front, while any session holds an old snapshot: after 50,000 jobs
a scan from the front took 8 ms, one from behind them 0.5 ms. So a pass starts where the last one got to, and at the front
only when twenty times the cost of the last such scan have passed: it then costs at most a twentieth of the time, and finds
jobs that committed after they were due. A pass that started elsewhere is followed by one from the front as soon as that is
allowed.

What is locked is skipped, and nothing tells when it is let go. So while anything due was skipped passes follow each
other, after 50 ms and then twice as long each time, up to a second. So they do for a keyed job that is held; its key is left
alone for the rest of the pass.

A job that the database refuses to make pending is set aside (`runtime/set_aside.py`), and so is a key whose jobs it does not let
join.

A pass that promoted a full batch is followed by another at once. With nothing due a pass is one statement.

What expires is one of these things that are due: a job that waits for whatever reason is ended at its instant, in the place of
being promoted (`store/routines/expiry`). Whatever lets a job wait that expires within ten seconds hints at that: its enqueue, and
an attempt that is to be made again. Later instants are seen by the passes before. So with a promoter that listens a job is ended
within 0.1 s of its instant, plus what a pass takes; where a hint is lost, at the interval.
"""

import math
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import ClassVar

from asyncjobs.model.scan import COST_RATIO
from asyncjobs.runtime.clock import TIMER_MARGIN_SECONDS
from asyncjobs.runtime.duties import Duty
from asyncjobs.runtime.expiry import tell_expired
from asyncjobs.runtime.set_aside import SetAside
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import due
from asyncjobs.store.database import Link
from asyncjobs.telemetry.events import Events, JobsPromoted

#: After a pass that skipped what others hold.
_FIRST_LOOK_SECONDS = 0.05
_LONGEST_LOOK_SECONDS = 1.0


class Promoter(Duty):
    """Promotes. The link may be shared with other duties."""

    name: ClassVar[str] = "promoter"
    duty = "promote"

    def __init__(
        self,
        link: Link,
        wakes: Wakes,
        *,
        events: Events,
        interval_seconds: float = 5.0,
        poll_seconds: Callable[[], float] = lambda: math.inf,
        batch: int = 100,
    ) -> None:
        super().__init__(events=events, interval_seconds=interval_seconds)
        self._poll_seconds = poll_seconds
        self._link = link
        self._wakes = wakes
        self._batch = batch
        self._reached_at: datetime | None = None
        self._skips = 0  # passes in a row that skipped something
        self._aside = SetAside[int]("promote", "job", events)
        self._keys_aside = SetAside[str]("promote", "key", events)
        self._front_at = 0.0  # from when on the next pass may start at the front of the index

    def hint(self, seconds: float) -> None:
        """A job becomes due in so many seconds. Costs nothing when a pass is planned before that."""
        self.wake_within(seconds + TIMER_MARGIN_SECONDS)

    async def pass_(self) -> float | None:
        """Promote what is due; returns the seconds until something is due again."""
        since = None if self._monotonic() >= self._front_at else self._reached_at
        await self._aside.due(self._promote_only)
        await self._keys_aside.due(partial(self._join, blocked=[]))
        aside = self._aside.rows
        answer = await self._aside.unless_refused(
            due.promote(self.turn.guard(self._link), self._batch, since=since, blocked=self._keys_aside.rows, aside=aside),
            partial(due.due_ids, self._link, self._batch, since=since, aside=aside),
            self._promote_only,
        )
        if answer is None:
            return _FIRST_LOOK_SECONDS
        promoted, reached = answer
        if since is None:
            self._front_at = self._monotonic() + COST_RATIO * reached.scan_seconds
        self._reached_at = reached.at
        self._tell(promoted)
        left = await self._promote_keyed(promoted.keys, since)
        self._skips = self._skips + 1 if promoted.skipped or left else 0
        if promoted.count + len(promoted.expired) >= self._batch:
            return 0.0
        return self._delay(promoted.next_due_seconds, looked_at_the_front=since is None)

    def _delay(self, next_due_seconds: float | None, *, looked_at_the_front: bool) -> float | None:
        due = math.inf if next_due_seconds is None else next_due_seconds + TIMER_MARGIN_SECONDS
        delay = min(due, self._poll_seconds(), self._aside.due_seconds, self._keys_aside.due_seconds)
        if self._skips:
            delay = min(delay, _FIRST_LOOK_SECONDS * 2.0 ** min(self._skips - 1, 16), _LONGEST_LOOK_SECONDS)
        if not looked_at_the_front:
            delay = min(delay, max(self._front_at - self._monotonic(), 0.0))
        return None if delay >= self.interval_seconds else delay

    async def _promote_keyed(self, keys: list[str], since: datetime | None) -> bool:
        """Whether the jobs of a key were left, since it or they are locked."""
        blocked: list[str] = []
        while keys:
            blocked += await self._keys_aside.whole(keys, partial(self._join, blocked=blocked))
            more, _ = await due.promote(
                self.turn.guard(self._link), self._batch, since=since, blocked=[*blocked, *self._keys_aside.rows],
                aside=self._aside.rows,
            )  # fmt: skip
            self._tell(more)
            keys = more.keys
        return bool(blocked)

    async def _join(self, keys: list[str], blocked: list[str]) -> None:
        """Let the due jobs of these keys join their lines. Those that have to be left are added to `blocked`."""
        joined = await due.promote_keyed(self.turn.guard(self._link), keys, self._batch)
        if joined is not None:
            self._tell(joined)
        elif len(keys) > 1:
            for key in keys:
                await self._join([key], blocked)
            return
        if joined is None or not (joined.count or joined.expired):
            blocked += keys

    async def _promote_only(self, ids: list[int]) -> None:
        promoted, _ = await due.promote(self.turn.guard(self._link), len(ids), only=ids)
        self._tell(promoted)

    @property
    def refused(self) -> int:
        """How many jobs and keys are set aside."""
        return len(self._aside) + len(self._keys_aside)

    def _tell(self, promoted: due.Promoted) -> None:
        if promoted.count:
            self.items = (self.items or 0) + promoted.count
            self.events.emit(JobsPromoted(count=promoted.count))
        if promoted.expired:
            self.items = (self.items or 0) + len(promoted.expired)
            tell_expired(promoted.expired, self._wakes, self.events)
        self._wakes.became_pending(promoted.queues, urgent=promoted.urgent, for_all=promoted.opened)
