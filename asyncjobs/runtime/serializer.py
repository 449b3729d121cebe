"""Serialization: jobs with the same key run one at a time, in the order in which they joined the key's line (P3).

**The truth is in the database.** A job with a key has its row in `jobs` from its enqueue on, like any other, and a narrow one in
`serialized_jobs` while it is in its key's line, which is ordered by `place`. At most one of these is *dispatched* (a unique index
sees to it): the head, which is claimed in `jobs` like any other job. All others are `waiting` there, and cost the claim nothing.
To dispatch is to write `dispatched_at` here and `pending` there. No process holds state that matters; any number of them enqueue,
run and dispatch.

**A key is** idle (no rows), running (its head is pending, processing, failed and to be retried, or snoozed), halted (its head is
dead and its type says `on_dead="halt"`), paused by an operator, or *stalled*: rows, none dispatched, not paused. A stalled key is
what the protocol must not leave behind; each event below says why it does not, or who mends it.

**Locks.** The key's lock is a transaction-scoped advisory lock on one of 4,096 slots, taken in ascending order. Lock order
everywhere: dedup rows, rows of `jobs` that do not wait, key locks, rows of `serialized_jobs`, rows of jobs that wait. The ack
alone has its rows of `serialized_jobs` before a key lock, and therefore waits for one only shortly. So who has a key's lock
locks the place of a job that waits before its row, and begins anew if it was dispatched meanwhile (`keys/lock_in_order.sql`).
Nothing that strangers share waits for a lock that a caller's open transaction may hold: batches of enqueues give up after 50
ms and go on one by one, acks leave the key to a serializer, calls of a runner go on without an outcome whose row is held
(`runtime/locked.py`), and serializers only try. Everything is a VOLATILE function under
READ COMMITTED: each statement in it has a fresh snapshot, so what is looked up after a lock is as it is under the lock.

**What can happen to a key:**

1. *Enqueue on a connection of ours.* Lock the key; in a new statement insert, with a place drawn under the lock; dispatch if the
   key has no dispatched row. The lock makes "no dispatched row" true until the commit: an ack that ends the last job either
   committed before (then the enqueue dispatches) or finds the key empty, waits for this lock, and looks again.
2. *Enqueue in a caller's transaction.* The row has no place until the commit; then a deferred trigger locks the keys of all such
   rows, draws places and dispatches. So the order is the order of the commits, and an open transaction blocks no other. Under
   REPEATABLE READ and SERIALIZABLE the trigger cannot see what others dispatched since its snapshot: it leaves a request
   (`dispatch_requests`, and a NOTIFY) that a serializer carries out after the commit. Under SERIALIZABLE it looks into no index,
   either: any two such transactions would conflict there, and one of them would fail.
3. *The head ends* (completed, dead, cancelled). The ack deletes its row and dispatches the next in the same transaction: first
   without the lock (no other can dispatch while the deleted row is visible to it), and for keys that seem empty under it.
   Crash before the commit: nothing happened. After: it is done. When that lock is held for longer than a moment, the ack
   leaves a request instead: the holder commits before or after it, and the serializer looks when both are visible.
   The ack looks behind the place of the head that ended: all who wait have later ones, since places are drawn under the lock. A
   row that was not dispatched says nothing of the kind: when such a one is let go, the line is looked at from its front.
   A runner that has nothing else to claim (`runtime/keys.py`) acks with `finish_one`, which makes the next head its own
   in a general slot that is free, if no operator paused anything. That is the claim's rule of one owner (token, attempt, the
   runner's row) and the dispatch's of one head, in one statement. A suspect becomes pending
   as always: only a scan knows whether a runner may have one.
   What follows in a run (`runtime/followers.py`) is processing before it is dispatched; its dispatch leaves it so.
4. *The head fails, snoozes, is interrupted, or is rescued*: it keeps its row, so the key is held and the place is kept. When it
   is due it becomes pending again, with a new place among the pending jobs: keys that fail for ever overtake no other.
5. *The head dies and its type halts*: the row stays, marked. Only `retry` or `release_key` move the key on; sweep and ack leave
   it.
6. *A delayed job* is `scheduled` in `jobs` and not in the line. When due it joins at the end, under the key's lock.
7. *A job is completed inside its handler's transaction*: only its row in `jobs` is written there; the key is let go when the
   handler has ended. If the runner dies in between, the rescue or the sweep lets it go.
8. *An operator's verb* (cancel a waiting job or the head, retry, release, pause, resume, purge) derives the head anew before its
   transaction ends. Those on a key lock its head's row first: no ack that dispatches without the lock is under way then. A cancel
   of a waiting job takes the key's lock and then the row, as a dispatch has the row first.
9. *Strangers' SQL* deletes rows, or a request is not carried out (its runner died): the sweep finds stalled keys and dispatched
   rows whose job is gone or ended, and mends them. A job that waits in `jobs` and is in no line joins it anew, at the end, by way
   of a promotion that is due. Nothing else relies on the sweep.
10. *A key is paused.* The pause is committed; then its head is held back under the key's lock. A head that is pending becomes
   `paused`. One that waits for its retry or its time stays as it is until it is due, and becomes `paused` then. One that runs
   goes on; when it has ended, no other is dispatched (`dispatch_keys` and `finish_one` look at pauses under the lock), and when
   it is given back it becomes `paused`. One that was claimed ahead is given back by its runner. All others wait as before.
   To resume lets a paused head go on, or dispatches one.

**The serializer** is the duty that looks for requests (when it is told of them; where no notification arrives, with each poll)
and sweeps; what it finds is put to the actors of keys (`runtime/keys.py`), which carry it out. What is to be done at gates
(`runtime/folder.py`) it does in the same look.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final, Protocol

from asyncjobs.runtime.duties import Duty
from asyncjobs.runtime.folder import Folder
from asyncjobs.runtime.set_aside import SetAside
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import limits, sequences, serialized
from asyncjobs.store.database import Link
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Events, SequenceMoved

_PAGE: Final = 5_000
#: Of the time, for looking through keys: a page, then nine times as long a rest (measured: 5,000 keys take some 25 ms).
_DUTY: Final = 0.1
#: When there were more requests than one look takes.
_NEXT_LOOK_SECONDS: Final = 0.05


class Advances(Protocol):
    """Who carries out what is found."""

    def advance(self, key: str, requests: Sequence[int] = ()) -> None:
        """Dispatch this key's head, if none is; drop the requests for it."""


class Serializer(Duty):
    """The sweep: page by page through the keys, and through those of limits (`store/routines/limits`).

    A sweep is a round through all keys. It starts with the service and then every `interval_seconds`; while keys are so many that
    a round takes longer, it takes a tenth of one connection's time.
    """

    name: ClassVar[str] = "serializer"
    duty = "sweep"

    def __init__(
        self,
        pool: Pool,
        wakes: Wakes,
        keys: Advances,
        *,
        events: Events,
        interval_seconds: float = 15.0,
        unheard_seconds: Callable[[], float] = lambda: math.inf,
        page: int = _PAGE,
    ) -> None:
        super().__init__(events=events, interval_seconds=interval_seconds)
        self._pool = pool
        self._wakes = wakes
        self._keys = keys
        self._folder = Folder(wakes, events)
        self._aside = SetAside[int]("sweep", "job", events)
        self._unheard_seconds = unheard_seconds
        self._page = page
        self._after = ""
        self._after_waiting: str | None = None
        self._after_limit: str | None = None
        self._sweep_at = float("-inf")
        self._again_seconds = float("inf")

    async def pass_(self) -> float | None:
        """Look at the requests, and at a page of keys if it is time for one."""
        return await self._look(sweeps=True)

    async def aside(self) -> None:
        """Look at the requests: the keys are swept by another runner."""
        self._again_seconds = await self._look(sweeps=False)

    def aside_seconds(self) -> float:
        """Soon, if there were more requests than one look takes; else when it is woken."""
        return min(self._again_seconds, super().aside_seconds())

    async def _look(self, *, sweeps: bool) -> float:
        now = self._monotonic()
        page = self._page if sweeps and now >= self._sweep_at else 0
        async with self._pool.take() as link:
            if page and not self._after:
                await self._move_sequences(link)
            found = await serialized.sweep(link, self._after, page, after_waiting=self._after_waiting)
            if page:
                self._plan(found.last, self._monotonic() - now)
                self._after_waiting = found.last_waiting
            if page and found.has_limits:
                self._after_limit, opened = await limits.sweep(self.turn.guard(link), self._after_limit, page)
                if opened:
                    self._wakes.due_in(0.0)
            await self._aside.whole(found.lost, partial(self._rejoin, self.turn.guard(link)))
            for job_id in found.ended:
                await self._aside.whole([job_id], partial(self._folder.release, self.turn.guard(link)))
            has_workflows = found.has_workflows or self._folder.refused > 0
            members = await self._folder.sweep(link, self.turn.guard(link)) if page and has_workflows else 0
            self.items = (self.items or 0) + len(found.ended) + len(found.stalled) + len(found.lost) + members
            left = has_workflows and await self._folder.fold(link)
        for key, requests in found.requests.items():
            self._keys.advance(key, requests)
        for key in found.stalled:
            if key not in found.requests:
                self._keys.advance(key)
        planned_at = self._sweep_at if sweeps else float("inf")
        again_at = self._look_again_at(found, has_left=left)
        return max(min(planned_at, again_at) - self._monotonic(), 0.0)

    def _plan(self, last: str | None, seconds: float) -> None:
        """When the next page follows: in the same round, or in a new one."""
        self._after = last or ""
        rest = self.interval_seconds * (0.9 + 0.2 * self._chance()) if last is None else seconds / _DUTY
        self._sweep_at = self._monotonic() + rest

    def _look_again_at(self, found: serialized.Sweep, *, has_left: bool) -> float:
        """When more requests than one look takes are there, the next look follows soon: these are being carried out meanwhile.
        Where no notification tells of the next one, it is looked for with each poll.
        """
        full = has_left or sum(map(len, found.requests.values())) >= serialized.MOST_REQUESTS
        return self._monotonic() + (_NEXT_LOOK_SECONDS if full else self._unheard_seconds())

    async def _move_sequences(self, link: Link) -> None:
        """With each round: after a switch-over they may stand behind the rows."""
        for one in await sequences.move_on(link, surely=False):
            self.events.emit(SequenceMoved(name=one.name, was=one.was, is_now=one.is_now))

    async def _rejoin(self, link: Link, job_ids: list[int]) -> None:
        if await serialized.rejoin(link, job_ids):
            self._wakes.due_in(0.0)

    @property
    def refused(self) -> int:
        """How many jobs and gates are set aside."""
        return len(self._aside) + self._folder.refused
