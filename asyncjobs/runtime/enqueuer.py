"""Enqueue on connections of our own: calls in flight at the same time share a statement.

Three lines, because they wait for different things: plain rows for nobody, keyed rows for locks of their keys, rows with a dedup
key for whoever is about to take it. What happens to a batch:

1. Its ids were reserved by an earlier call, so they are known before the first try. Ids older than a second, or from a connection
   that is gone, are dropped: after a fail-over the sequence may hand them out again.
2. It is inserted. If the answer never comes, the *same* ids and tokens are sent again until `connect_timeout` is over: a row
   that is there with its token was written by the first try. Sending with new ids would write rows twice; looking whether they
   are there says "no" while the first try is still committing.
3. If the server refuses it, it is cut in halves until the bad row is alone: only its caller gets the error.
4. A batch that waits for a lock longer than 50 ms gives up and its rows are tried one by one; those that still wait go on alone
   on a connection of their own, so a key that a stranger's open transaction holds delays nobody else.
5. After the commit the runners of this process are woken in memory, those of other processes by one NOTIFY per queue.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from asyncjobs.errors import DatabaseUnavailable, DuplicateJob, EnqueueError
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.runtime import points
from asyncjobs.runtime.batcher import Batcher
from asyncjobs.runtime.service import backoff_seconds
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import jobs
from asyncjobs.store.database import Database, Link
from asyncjobs.store.failures import is_lock_timeout, is_passing, is_unsendable
from asyncjobs.store.pool import Pool

_BATCH: Final = 500
_LOCK_TIMEOUT: Final = "50ms"
_IDS_FRESH_SECONDS: Final = 1.0
_MAX_RESERVE: Final = 500
#: Default priority; a better one may belong before jobs that were claimed already.
_ORDINARY: Final = 100
#: A job that is due within this time is told to the promoters, later ones are found by their interval.
_SOON_SECONDS: Final = 10.0

Spawn = Callable[[Coroutine[Any, Any, None], str], object]
Answer = Enqueued | Exception


class _Ids:
    """Reserved ids of one link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._ids: list[int] = []
        self._at = float("-inf")
        self._opened = -1

    async def take(self, count: int) -> list[int]:
        if time.monotonic() - self._at > _IDS_FRESH_SECONDS or self._opened != self._link.opened:
            self._ids = []
        if len(self._ids) < count:
            self.put(await jobs.reserve_ids(self._link, count))
        taken, self._ids = self._ids[:count], self._ids[count:]
        return taken

    def put(self, ids: list[int]) -> None:
        self._ids, self._at, self._opened = ids, time.monotonic(), self._link.opened


class _Line:
    """One line of rows, its batcher and its connection."""

    def __init__(self, database: Database, kind: str, *, lock_timeout: str | None, retry_seconds: float) -> None:
        self.link = database.link(f"enqueue {kind}")
        self._ids = _Ids(self.link)
        self._lock_timeout = lock_timeout
        self._retry_seconds = retry_seconds
        self.batcher: Batcher[NewRow, Enqueued] = Batcher(self._send, limit=_BATCH)

    async def _send(self, rows: Sequence[NewRow]) -> Sequence[Answer]:
        try:
            return await self._write(rows)
        except Exception as error:  # noqa: BLE001 - to the caller of the row that is at fault
            if len(rows) == 1:
                return [error]
            if is_lock_timeout(error):
                return [(await self._send([row]))[0] for row in rows]
            if not is_unsendable(error):
                return [error] * len(rows)
            half = len(rows) // 2
            return [*await self._send(rows[:half]), *await self._send(rows[half:])]

    async def _write(self, rows: Sequence[NewRow]) -> list[Answer]:
        ids = await _retried(lambda: self._ids.take(len(rows)), self._retry_seconds)
        return await write(
            self.link, rows, ids, retry_seconds=self._retry_seconds, lock_timeout=self._lock_timeout, keep=self._ids.put
        )


async def write(
    link: Link,
    rows: Sequence[NewRow],
    ids: Sequence[int],
    *,
    retry_seconds: float,
    lock_timeout: str | None = None,
    keep: Callable[[list[int]], None] | None = None,
    together: bool = False,
) -> list[Answer]:
    """Write the rows under these ids in one transaction, again and again until it is certain that they are (or are not) there.

    A row that asked for it is answered with DuplicateJob; the others are then written without it (`together`: none is, and the
    first DuplicateJob is raised). `keep` gets ids for the next call.
    """
    tokens = [secrets.randbits(62) for _ in rows]
    reserve = min(max(2 * len(rows), 16), _MAX_RESERVE) if keep else 0

    async def once() -> jobs.EnqueueAnswer:
        if points.active:
            await points.reach("enqueue.send")
        answer = await jobs.enqueue(link, rows, ids, tokens, reserve=reserve, lock_timeout=lock_timeout)
        if points.active:
            await points.reach("enqueue.sent")
        return answer

    answer = await _retried(once, retry_seconds)
    if keep:
        keep(answer.reserved)
    if not answer.duplicates and not answer.taken:
        return list(answer.enqueued)
    if answer.duplicates and together:
        at = answer.duplicates[0]
        raise await _duplicate(link, rows[at], answer.enqueued[at].id)
    return await _write_rest(link, rows, ids, answer, retry_seconds=retry_seconds, lock_timeout=lock_timeout)


async def _write_rest(
    link: Link,
    rows: Sequence[NewRow],
    ids: Sequence[int],
    first: jobs.EnqueueAnswer,
    *,
    retry_seconds: float,
    lock_timeout: str | None,
) -> list[Answer]:
    """The answers when some rows were refused, or met ids that are somebody else's."""
    answers: list[Answer] = list(first.enqueued)
    for at in first.duplicates:
        answers[at] = await _duplicate(link, rows[at], first.enqueued[at].id)
    rest = first.taken or [at for at in range(len(rows)) if at not in first.duplicates]
    if rest:
        fresh = await jobs.reserve_ids(link, len(rest)) if first.taken else [ids[at] for at in rest]
        again = await write(link, [rows[at] for at in rest], fresh, retry_seconds=retry_seconds, lock_timeout=lock_timeout)
        for at, answer in zip(rest, again, strict=True):
            answers[at] = answer
    return answers


async def _duplicate(link: Link, row: NewRow, job_id: int) -> DuplicateJob:
    return DuplicateJob(row.type, row.dedup_key or "", job_id, await jobs.status(link, job_id) or "gone")


async def _retried(call: Callable[[], Coroutine[Any, Any, Any]], seconds: float) -> Any:
    """The call's answer, tried again while the database is away. DatabaseUnavailable when that takes longer than `seconds`."""
    until = time.monotonic() + seconds
    failures = 0
    while True:
        try:
            return await call()
        except Exception as error:
            if not is_passing(error) or is_lock_timeout(error):
                raise
            failures += 1
            pause = backoff_seconds(failures, 1.0, secrets.randbelow(1000) / 1000)
            if time.monotonic() + pause > until:
                raise unavailable(error, seconds) from error
            await asyncio.sleep(pause)


def unavailable(error: BaseException, seconds: float) -> DatabaseUnavailable:
    """What the caller is told when the database did not answer in time."""
    reason = str(error) or type(error).__name__
    return DatabaseUnavailable(f"the database did not answer within {seconds:g} s (connect_timeout): {reason}.")


class Enqueuer:
    """The three lines, and bulk enqueues."""

    def __init__(self, database: Database, pool: Pool, wakes: Wakes, spawn: Spawn, *, retry_seconds: float) -> None:
        self._database = database
        self._pool = pool
        self._wakes = wakes
        self._spawn = spawn
        self._retry_seconds = retry_seconds
        self._lines: dict[str, _Line] = {}
        self._lonely = asyncio.Semaphore(4)

    async def enqueue(self, row: NewRow) -> Enqueued:
        """Write one row, together with those of other callers. Raises EnqueueError or DatabaseUnavailable."""
        line = self._line("dedup" if row.dedup_key is not None else "keyed" if row.serialization_key is not None else "plain")
        try:
            enqueued = await line.batcher.submit(row)
        except Exception as error:
            if not is_lock_timeout(error):
                raise _told(error) from error
            enqueued = await self._enqueue_alone(row)
        self.announce([row])
        return enqueued

    async def enqueue_many(self, rows: Sequence[NewRow]) -> list[Enqueued]:
        """Write all rows in one transaction, or none. Raises as `enqueue` does, for the first row that was refused."""
        if not rows:
            return []
        async with self._pool.take() as link:
            try:
                ids = await _retried(lambda: jobs.reserve_ids(link, len(rows)), self._retry_seconds)
                answers = await write(link, rows, ids, retry_seconds=self._retry_seconds, together=True)
            except Exception as error:
                raise _told(error) from error
        self.announce(rows)
        return [answer for answer in answers if isinstance(answer, Enqueued)]

    async def _enqueue_alone(self, row: NewRow) -> Enqueued:
        """Wait for the lock that others must not wait for, on a connection for this row."""
        async with self._lonely:
            link = self._database.link("enqueue alone", command_timeout=3600.0)
            try:
                ids = await _retried(lambda: jobs.reserve_ids(link, 1), self._retry_seconds)
                answer = (await write(link, [row], ids, retry_seconds=self._retry_seconds))[0]
            except Exception as error:
                raise _told(error) from error
            finally:
                await link.close()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def announce(self, rows: Sequence[NewRow], *, here_only: bool = False) -> None:
        """Wake whoever runs such jobs, after the commit."""
        queues: dict[str, bool] = {}
        soonest = _SOON_SECONDS
        here_only = here_only or not any(row.notify for row in rows)
        for row in rows:
            if row.delay_seconds is None and row.run_at is None:
                queues[row.queue] = queues.get(row.queue, False) or row.priority < _ORDINARY
            else:
                soonest = min(soonest, _due_in(row))
        for queue, front in queues.items():
            self._wakes.pending(queue, front=front, here_only=here_only)
        if soonest < _SOON_SECONDS:
            self._wakes.due_in(0.0, here_only=here_only)  # by this host's clock, so only a reason to look

    def _line(self, kind: str) -> _Line:
        line = self._lines.get(kind)
        if line is None:
            lock_timeout = None if kind == "plain" else _LOCK_TIMEOUT
            line = self._lines[kind] = _Line(self._database, kind, lock_timeout=lock_timeout, retry_seconds=self._retry_seconds)
            self._spawn(line.batcher.run(), f"enqueue {kind}")
        return line

    async def flush(self) -> None:
        """Wait until every row that was handed in has been answered."""
        await asyncio.gather(*(line.batcher.wait_idle() for line in self._lines.values()))

    async def close(self, *, timeout: float = 1.0) -> None:
        """Close the lines' connections, after their tasks have ended."""
        await asyncio.gather(*(line.link.close(timeout=timeout) for line in self._lines.values()))
        self._lines.clear()


def _due_in(row: NewRow) -> float:
    if row.delay_seconds is not None:
        return row.delay_seconds
    return 0.0 if row.run_at is None else (row.run_at - datetime.now(UTC)).total_seconds()


def _told(error: Exception) -> Exception:
    """What the caller sees of an error of the database."""
    if is_unsendable(error) and not isinstance(error, EnqueueError):
        return EnqueueError(f"the database refused the job: {error}")
    return error
