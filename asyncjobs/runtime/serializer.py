"""Serialization: jobs with the same key run one at a time, in the order in which they joined the key's line (P3).

**The truth is in the database.** A key's line is its rows in `serialized_jobs`, ordered by `place`. At most one of them is
*dispatched* (a unique index sees to it): the head, which has its row in `jobs` and is claimed there like any other job. All
others wait, and cost the claim nothing. No process holds state that matters; any number of them enqueue, run and dispatch.

**A key is** idle (no rows), running (its head is pending, processing, failed and to be retried, or snoozed), halted (its head is
dead and its type says `on_dead="halt"`), paused by an operator, or *stalled*: rows, none dispatched, not paused. A stalled key is
what the protocol must not leave behind; each event below says why it does not, or who mends it.

**The key's lock** is a transaction-scoped advisory lock on one of 4,096 slots, taken in ascending order. Lock order everywhere:
dedup rows, rows of `jobs`, key locks, rows of `serialized_jobs`.

**What can happen to a key:**

1. *Enqueue on a connection of ours.* Lock the key; in a new statement insert, with a place drawn under the lock; dispatch if the
   key has no dispatched row. The lock makes "no dispatched row" true until the commit: an ack that ends the last job either
   committed before (then the enqueue dispatches) or finds the key empty, waits for this lock, and looks again.
2. *Enqueue in a caller's transaction.* The row has no place until the commit; then a deferred trigger locks the keys of all such
   rows, draws places and dispatches. So the order is the order of the commits, and an open transaction blocks nobody. Under
   REPEATABLE READ and SERIALIZABLE the trigger cannot see what others dispatched since its snapshot: it leaves a request
   (`dispatch_requests`, and a NOTIFY) that a serializer carries out after the commit.
3. *The head ends* (completed, dead, cancelled). The ack deletes its row and dispatches the next in the same transaction: first
   without the lock (nobody else can dispatch while the deleted row is visible to them), and for keys that seem empty under it.
   Crash before the commit: nothing happened. After: it is done.
4. *The head fails, snoozes, is interrupted, or is rescued*: it keeps its row, so the key is held and the place is kept. When it
   is due it becomes pending again.
5. *The head dies and its type halts*: the row stays, marked. Only `retry` or `release_key` move the key on; sweep and ack leave
   it.
6. *A delayed job* is `scheduled` in `jobs` and not in the line. When due it joins at the end, under the key's lock.
7. *A job is completed inside its handler's transaction*: only its row in `jobs` is written there; the key is let go when the
   handler has ended. If the runner dies in between, the sweep lets it go.
8. *An operator's verb* (cancel a waiting job or the head, retry, release, pause, resume, purge) derives the head anew before its
   transaction ends.
9. *Somebody's hand* deletes rows, or a request is not carried out (its runner died): the sweep finds stalled keys and dispatched
   rows whose job is gone or ended, and mends them. Nothing relies on it.

**The serializer** carries out requests and what the sweep finds: partitions, each a task with a queue of keys. A partition takes
all that wait, drops duplicates, and dispatches the heads of all those keys in one call; a key whose lock a stranger's transaction
holds is left to the next sweep, and delays no other key. Its memory is what is in flight, not the keys ever seen.
"""

import asyncio
from typing import ClassVar, Final
from zlib import crc32

from asyncjobs.runtime.service import Service
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import serialized
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_lock_timeout
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import DatabaseFailed, Events, KeysAdvanced

PARTITIONS: Final = 16
_BATCH: Final = 500
_PAGE: Final = 5_000


class Partition:
    """One actor: a queue of keys, and the task that dispatches their heads."""

    def __init__(self, pool: Pool, wakes: Wakes, *, events: Events) -> None:
        self._pool = pool
        self._wakes = wakes
        self._events = events
        self._keys: asyncio.Queue[tuple[str, list[int]]] = asyncio.Queue()

    def put(self, key: str, requests: list[int]) -> None:
        """Dispatch this key's head, if none is; drop the requests for it."""
        self._keys.put_nowait((key, requests))

    async def run(self) -> None:
        """Dispatch until cancelled. What is lost with this task is found by the next sweep."""
        while True:
            batch = await self._take()
            try:
                await self._advance(batch)
            except Exception as error:  # noqa: BLE001 - one pass of a service
                self._events.emit(DatabaseFailed(during="advance keys", error=error))

    async def _take(self) -> dict[str, list[int]]:
        key, requests = await self._keys.get()
        batch = {key: requests}
        while len(batch) < _BATCH and not self._keys.empty():
            key, requests = self._keys.get_nowait()
            batch[key] = [*batch.get(key, ()), *requests]
        return batch

    async def _advance(self, batch: dict[str, list[int]]) -> None:
        requests = [number for numbers in batch.values() for number in numbers]
        try:
            async with self._pool.take() as link:
                queues = await serialized.advance(link, list(batch), requests)
        except Exception as error:
            if not is_lock_timeout(error):
                raise
            if len(batch) > 1:
                for key, numbers in batch.items():
                    await self._advance({key: numbers})
            return
        self._events.emit(KeysAdvanced(count=len(batch)))
        for queue in queues:
            self._wakes.pending(queue)


class Serializer(Service):
    """The partitions, and the sweep that feeds them: a page of keys each pass, one statement when there is nothing to mend."""

    name: ClassVar[str] = "serializer"

    def __init__(
        self,
        pool: Pool,
        wakes: Wakes,
        *,
        events: Events,
        interval_seconds: float = 15.0,
        partitions: int = PARTITIONS,
        page: int = _PAGE,
    ) -> None:
        super().__init__(events=events, interval_seconds=interval_seconds)
        self._pool = pool
        self._wakes = wakes
        self._page = page
        self._after = ""
        self.partitions = [Partition(pool, wakes, events=events) for _ in range(partitions)]

    def put(self, key: str, requests: list[int] | None = None) -> None:
        """Dispatch the head of this key."""
        self.partitions[crc32(key.encode()) % len(self.partitions)].put(key, requests or [])

    async def run(self) -> None:
        """Sweep and dispatch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number, partition in enumerate(self.partitions):
                group.create_task(partition.run(), name=f"asyncjobs partition {number}")
            await super().run()

    async def pass_(self) -> float | None:
        """Look at a page of keys, and at the requests; the next page follows at once if something was found on a full one."""
        async with self._pool.take() as link:
            found = await serialized.sweep(link, self._after, self._page)
            for job_id in found.ended:
                await self._release(link, job_id)
        for key, requests in found.requests.items():
            self.put(key, requests)
        for key in found.stalled:
            if key not in found.requests:
                self.put(key)
        self._after = found.last or ""
        return 0.0 if found.last is not None and (found.stalled or found.ended) else None

    async def _release(self, link: Link, job_id: int) -> None:
        try:
            queues = await serialized.release_ended(link, job_id)
        except Exception as error:
            if not is_lock_timeout(error):
                raise
            return  # somebody is at it, or the next sweep is
        for queue in queues:
            self._wakes.pending(queue)
