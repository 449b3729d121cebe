"""Enqueue on connections of our own: calls in flight at the same time share a statement.

Three lines, because they wait for different things: plain rows for nothing, keyed rows (and those with a limit) for locks of
their keys, rows with a dedup key for the transaction that is about to take it. How a line sends its batches is in `sender`.
Around it:

1. A row whose key a stranger's open transaction holds comes back from its line with a time-out. It goes on alone, on a connection
   of its own; a row with the same key that comes meanwhile waits in memory until it is through. So a held key costs the others of
   its line two lock time-outs, once, however long it is held and however many want it.
2. Those who wait alone take turns on a few connections, a second each: a key that is never let go does not keep others from
   being noticed when theirs is.
3. `enqueue_many` is a transaction of its own. It waits for held keys on such a connection, too, so that it does not keep one of
   the pool meanwhile.
4. After the commit the runners of this process are woken in memory, those of other processes by one NOTIFY per queue. (One of
   a single plain row is not sent if a runner of this process answers for the job: `runtime/herd.py`, 8.) What the
   INSERT found due became pending with it, whatever time it was given; only what is to run later is left to the promoters, and
   what expires before it is claimed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

from asyncjobs.errors import DatabaseUnavailable, EnqueueError, UsageError
from asyncjobs.model.new_row import ORDINARY_PRIORITY, Enqueued, NewRow
from asyncjobs.runtime.batcher import Batcher, BatcherEnded
from asyncjobs.runtime.parts import Start
from asyncjobs.runtime.sender import Sender, lock_of
from asyncjobs.runtime.wakes import SOON_SECONDS, Wakes
from asyncjobs.store.database import Database, Link
from asyncjobs.store.failures import is_lock_timeout, is_unsendable
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Events

T = TypeVar("T")

_BATCH: Final = 500
_BATCH_BYTES: Final = 1 << 22
_LOCK_TIMEOUT: Final = "50ms"
_LONELY: Final = 4
_LONELY_LOCK_TIMEOUT: Final = "1s"


class _Line:
    """One line of rows, its batcher and its connection."""

    def __init__(self, database: Database, kind: str, *, events: Events, lock_timeout: str | None, retry_seconds: float) -> None:
        link = database.link(f"enqueue {kind}")
        self.sender = Sender(link, events=events, retry_seconds=retry_seconds, lock_timeout=lock_timeout)
        send_one = self.sender.send_one if kind == "plain" and not database.by_door else None
        self.batcher: Batcher[NewRow, Enqueued] = Batcher(
            self.sender.send, send_one=send_one, limit=_BATCH, weigh=_weight, heaviest=_BATCH_BYTES
        )


class Enqueuer:
    """The three lines, and bulk enqueues."""

    def __init__(
        self, database: Database, pool: Pool, wakes: Wakes, start: Start, *, events: Events, retry_seconds: float
    ) -> None:
        self._database = database
        self._pool = pool
        self._wakes = wakes
        self._start = start
        self._events = events
        self._retry_seconds = retry_seconds
        self._lines: dict[str, _Line] = {}
        self._plain: _Line | None = None  # one of them, until it is closed
        self._many: dict[Link, Sender] = {}
        self._lonely = asyncio.Semaphore(_LONELY)
        self._lonely_senders: set[Sender] = set()
        self._held: dict[tuple[str, str | None, str | None], asyncio.Event] = {}
        self._closed = False

    async def enqueue(self, row: NewRow) -> Enqueued:
        """Write one row, together with those of other callers. Raises EnqueueError or DatabaseUnavailable."""
        try:
            if row.dedup_key is None and row.serialization_key is None and row.limit_key is None:  # it waits for no lock
                enqueued = await (self._plain or self._line(row)).batcher.submit(row)
            else:
                enqueued = await self._enqueue(row)
        except Exception as error:
            raise _translated(error) from error
        if enqueued.is_due and enqueued.created and row.expires_seconds is None:
            is_first = row.priority < ORDINARY_PRIORITY
            self._wakes.enqueued(row.queue, row.type, row.version, front=is_first, in_process_only=not row.notify)
        else:
            self._announce([row], [enqueued])
        return enqueued

    async def enqueue_many(self, rows: Sequence[NewRow]) -> list[Enqueued]:
        """Write all rows in one transaction, or none. Raises as `enqueue` does, for the first row that was refused."""
        if not rows:
            return []
        try:
            enqueued = await self._enqueue_many(rows)
        except Exception as error:
            raise _translated(error) from error
        self._announce(rows, enqueued)
        return enqueued

    async def _enqueue(self, row: NewRow) -> Enqueued:
        lock = lock_of(row)
        while True:
            held = self._held.get(lock)
            if held is not None:
                await held.wait()
                continue
            try:
                return await self._line(row).batcher.submit(row)
            except Exception as error:
                if not is_lock_timeout(error):
                    raise
            if lock not in self._held:  # else another row of the same batch was first
                return await self._enqueue_held(row)

    async def _enqueue_held(self, row: NewRow) -> Enqueued:
        held = self._held[lock_of(row)] = asyncio.Event()
        try:
            return await self._apart(lambda sender: _only(sender, row))
        finally:
            del self._held[lock_of(row)]
            held.set()

    async def _enqueue_many(self, rows: Sequence[NewRow]) -> list[Enqueued]:
        async with self._pool.take() as link:
            try:
                return await self._sender_on(link).send_all(rows)
            except Exception as error:
                if not is_lock_timeout(error):
                    raise
        return await self._apart(lambda sender: sender.send_all(rows))

    def _sender_on(self, link: Link) -> Sender:
        """The pool's links are few and stay, and so do the ids that were reserved on one."""
        sender = self._many.get(link)
        if sender is None:
            sender = self._many[link] = self._sender(link, _LOCK_TIMEOUT)
        return sender

    def _sender(self, link: Link, lock_timeout: str) -> Sender:
        return Sender(link, events=self._events, retry_seconds=self._retry_seconds, lock_timeout=lock_timeout)

    async def _apart(self, call: Callable[[Sender], Awaitable[T]]) -> T:
        """Call until no lock is in the way, with a connection for this call."""
        while True:
            async with self._lonely:
                if self._closed:
                    raise BatcherEnded(was_sent=False)
                link = self._database.link("enqueue alone")
                sender = self._sender(link, _LONELY_LOCK_TIMEOUT)
                self._lonely_senders.add(sender)
                try:
                    return await call(sender)
                except Exception as error:
                    if not is_lock_timeout(error):
                        raise
                finally:
                    self._lonely_senders.discard(sender)
                    await link.close()

    def _announce(self, rows: Sequence[NewRow], enqueued: Sequence[Enqueued]) -> None:
        """Wake the runners of such jobs, after the commit."""
        queues: dict[str, tuple[bool, int]] = {}
        soonest = expires = SOON_SECONDS
        in_process_only = not any(row.notify for row in rows)
        for row, one in zip(rows, enqueued, strict=True):
            if not one.created and row.on_duplicate != "replace":
                continue
            if one.is_due is not False:
                front, count = queues.get(row.queue, (False, 0))
                # (one that was replaced has kept its place)
                queues[row.queue] = front or row.priority < ORDINARY_PRIORITY or not one.created, count + 1
                if row.expires_seconds is not None:
                    expires = min(expires, row.expires_seconds)
            if not one.is_due:
                soonest = min(soonest, _due_in(row))
            elif not one.created:  # it was replaced: one that was delayed and has a key is left to the promoters
                soonest = 0.0
        for queue, (front, count) in queues.items():
            self._wakes.pending(queue, front=front, count=count, in_process_only=in_process_only)
        if soonest < SOON_SECONDS:
            self._wakes.due_in(0.0, in_process_only=in_process_only)  # by this host's clock, so only a reason to look
        elif expires < SOON_SECONDS:
            self._wakes.expires_in(expires, in_process_only=in_process_only)

    def _line(self, row: NewRow) -> _Line:
        is_plain = row.serialization_key is None and row.limit_key is None
        kind = "dedup" if row.dedup_key is not None else "plain" if is_plain else "keyed"
        if self._closed:
            raise BatcherEnded(was_sent=False)
        line = self._lines.get(kind)
        if line is None:
            lock_timeout = None if kind == "plain" else _LOCK_TIMEOUT
            line = self._lines[kind] = _Line(
                self._database, kind, events=self._events, lock_timeout=lock_timeout, retry_seconds=self._retry_seconds
            )
            self._start(f"enqueue {kind}", line.batcher.run)
            if kind == "plain":
                self._plain = line
        return line

    async def flush(self) -> None:
        """Wait until every row that was handed in has been answered."""
        await asyncio.gather(*(line.batcher.wait_idle() for line in self._lines.values()))

    async def close(self, *, timeout: float = 1.0) -> None:
        """Close all connections, after the lines' tasks have ended. Who still waits alone is told so."""
        self._closed = True
        self._plain = None
        for sender in self._lonely_senders:
            sender.give_up()
        for line in self._lines.values():
            line.batcher.end()
            if line.batcher.is_sent_apart:
                line.sender.give_up()
        await asyncio.gather(*(line.sender.link.close(timeout=timeout) for line in self._lines.values()))
        self._lines.clear()


async def _only(sender: Sender, row: NewRow) -> Enqueued:
    (answer,) = await sender.send([row])
    if isinstance(answer, Exception):
        raise answer
    return answer


def _weight(row: NewRow) -> int:
    return len(row.payload)


def _due_in(row: NewRow) -> float:
    if row.delay_seconds is not None:
        return row.delay_seconds
    return 0.0 if row.run_at is None else (row.run_at - datetime.now(UTC)).total_seconds()


def _translated(error: Exception) -> Exception:
    """What the caller sees of an error of the database, and of the lines."""
    if isinstance(error, BatcherEnded):
        if error.was_sent:
            return DatabaseUnavailable("the enqueue was ended before the database had answered; the job may have been written.")
        return UsageError("asyncjobs was closed before the job was sent: nothing was written.")
    if is_unsendable(error) and not isinstance(error, EnqueueError):
        return EnqueueError(f"the database refused the job: {error}")
    return error
