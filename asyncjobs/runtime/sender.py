"""Send rows on one connection until it is certain what became of each.

1. Ids are reserved by an earlier call, so they are known before the first try. Ids older than a second, or from a connection that
   is gone, are dropped: after a fail-over the sequence may hand them out again.
2. If the answer never comes, the *same* ids and tokens are sent again, for at most `retry_seconds`: a row that is there with its
   token was written by the first try. Sending with new ids would write rows twice; looking whether they are there says "no" while
   the first try is still committing. A row that is there with another token is another job's: the sequence is looked at, moved
   on if it is behind its rows (`store/sequences.py`), and ours is sent with a new id. The lock that such a try waits for in vain
   may be the first try's own, whose commit takes long: so it is sent again like after a lost answer, and never comes back as a
   time-out (4), after which rows get new ids. (A try that the server rolled back was answered.) One thing is not known by its
   token: a first try that replaced a job whose dedup key ends with its start, and that has started since: then it runs again.
3. If the server refuses a batch, it is cut in halves until the bad row is alone: only that one is answered with the error.
4. A batch that waits for a lock longer than `lock_timeout` gives up and its rows are tried one by one; those that have to wait
   are answered with the time-out. A row whose key another row of the batch has just waited for in vain is not tried.
5. A row that asked for it is refused when its dedup key is taken; then nothing of the batch was written, and the others are sent
   again without it.
6. A row that waits for no lock may be sent by its caller's own task (`send_one`): one statement, and no more than that in the way
   of it. If it fails, that was the first try of all this. A caller that is cancelled meanwhile takes the connection with it,
   since the statement is on it; the next sender opens another.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from math import inf
from typing import Any, Final, TypeVar

from asyncjobs.errors import DatabaseUnavailable, DuplicateJob, EnqueueError, InvalidOption
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.runtime import points
from asyncjobs.runtime.batcher import BatcherEnded
from asyncjobs.runtime.service import backoff_seconds
from asyncjobs.store import jobs, plain, sequences
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_ambiguous, is_lock_timeout, is_passing, is_unsendable
from asyncjobs.telemetry.events import Events, SequenceMoved

T = TypeVar("T")
Answer = Enqueued | Exception

_FRESH_SECONDS: Final = 1.0
_LEAST_RESERVE: Final = 16
_MOST_RESERVE: Final = 1000
_MOST_TAKEN: Final = 5  # times that a row finds its id taken, although the sequence was moved on
#: What an insert may take beyond the link's own time-out: 100,000 rows took 4 s, and 100 MB 9 s, on a busy 2-core machine.
_ROWS_PER_SECOND: Final = 5_000
_BYTES_PER_SECOND: Final = 2_000_000


class Ids:
    """Reserved ids of one link, the oldest first."""

    def __init__(self, link: Link, *, events: Events | None = None, monotonic: Callable[[], float] | None = None) -> None:
        self._link = link
        self._events = events or Events()
        self._monotonic = monotonic or time.monotonic
        #: By when they were reserved. (Not one by one: a tuple for each of a thousand is what the garbage collector walks.)
        self._blocks: deque[tuple[float, deque[int]]] = deque()
        self._opened = -1
        self._looked = -1
        self._taken_at = -inf
        self._is_busy = False

    def take(self, count: int) -> list[int] | None:
        """So many ids, if there are enough that can be trusted. To be asked once before each insert."""
        now = self._drop_stale()
        self._is_busy, self._taken_at = now - self._taken_at < _FRESH_SECONDS, now
        return self._first(count) if self._count >= count else None

    def take_one(self) -> int | None:
        """One id, as `take`."""
        now = self._drop_stale()
        self._is_busy, self._taken_at = now - self._taken_at < _FRESH_SECONDS, now
        return self._first(1)[0] if self._blocks else None

    async def reserve(self, count: int) -> list[int]:
        """So many ids, of which those that are missing are reserved now. On a new connection, after a look at the sequences."""
        if self._looked != self._link.opened or not self._link.is_open:
            await self.move_on(surely=False)
            self._looked = self._link.opened
        while (missing := count - self._count) > 0:  # those that were there may become stale meanwhile
            self.put(await jobs.reserve_ids(self._link, missing))
        return self._first(count)

    async def move_on(self, *, surely: bool) -> None:
        """Move sequences on that are behind. Ids that were reserved before may belong to others: they are dropped."""
        moved = await sequences.move_on(self._link, surely=surely)
        for one in moved:
            self._events.emit(SequenceMoved(name=one.name, was=one.was, is_now=one.is_now))
        if moved or surely:
            self._blocks.clear()

    @property
    def _count(self) -> int:
        return sum([len(block) for _, block in self._blocks])

    def _first(self, count: int) -> list[int]:
        ids: list[int] = []
        while len(ids) < count:
            block, missing = self._blocks[0][1], count - len(ids)
            if len(block) > missing:
                ids += [block.popleft() for _ in range(missing)]
            else:
                ids += block
                self._blocks.popleft()
        return ids

    def put(self, ids: Iterable[int]) -> None:
        """Keep ids that the link's connection has just reserved."""
        now, block = self._drop_stale(), deque(ids)
        if block:
            self._blocks.append((now, block))

    def put_one(self, number: int) -> None:
        """Keep one, as `put`."""
        self._blocks.append((self._drop_stale(), deque((number,))))

    def missing(self, count: int) -> int:
        """How many to reserve along with an insert of so many rows, for the next one; none if none is to be expected soon."""
        if not self._is_busy:
            return 0
        return max(min(max(2 * count, _LEAST_RESERVE), _MOST_RESERVE) - self._count, 0)

    def _drop_stale(self) -> float:
        if self._opened != self._link.opened:
            self._blocks.clear()
            self._opened = self._link.opened
        now = self._monotonic()
        while self._blocks and self._blocks[0][0] < now - _FRESH_SECONDS:
            self._blocks.popleft()
        return now


class Sender:
    """Sends rows on its link. One call at a time."""

    def __init__(self, link: Link, *, events: Events, retry_seconds: float, lock_timeout: str | None = None) -> None:
        self.link = link
        self._ids = Ids(link, events=events)
        self._retry_seconds = retry_seconds
        self._lock_timeout = lock_timeout
        self._was_sent = False  # a try that is under way, or has never been answered: it may have written the rows
        self._given_up = False

    def give_up(self) -> None:
        """End the call that is on its way: it raises BatcherEnded."""
        self._given_up = True
        self.link.abort()

    async def send_one(self, row: NewRow) -> Enqueued:
        """Write a row that waits for no lock; raises why it was not. The caller's cancellation ends it."""
        if points.active or not self.link.is_open or (job_id := self._ids.take_one()) is None:
            (answer,) = await self.send([row])
            if isinstance(answer, Exception):
                raise answer
            return answer
        token = jobs.fresh_token()
        self._was_sent = True
        try:
            timeout = self._seconds_for(1, len(row.payload))
            reserved, is_due = await plain.enqueue_one(self.link, row, job_id, token, timeout=timeout)
        except Exception as error:  # noqa: BLE001 - raised again unless it passes
            self._was_sent = is_ambiguous(error)
            later = await self._write_as([row], [job_id], [token], failed=error)
            if not later.taken:
                return later.enqueued[0]
            (answer,) = await self._send_again([row], 0)
            if isinstance(answer, Exception):
                raise answer from None
            return answer
        finally:
            self._was_sent = False
        self._ids.put_one(reserved)
        return Enqueued(job_id, True, is_due)

    async def _send_again(self, rows: Sequence[NewRow], times: int) -> list[Answer]:
        """Send rows with new ids, since those that were reserved belong to other jobs."""
        try:
            await self._move_on(times)
        except Exception as error:  # noqa: BLE001 - to the callers
            return [error] * len(rows)
        return await self.send(rows, times=times + 1)

    async def _move_on(self, times: int) -> None:
        if times >= _MOST_TAKEN:
            raise EnqueueError(
                f"the sequence jobs_id_seq hands out ids that other jobs have, again and again: {sequences.REMEDY} moves it on."
            )
        await self._retried(lambda: self._ids.move_on(surely=True))

    async def send(self, rows: Sequence[NewRow], *, times: int = 0) -> list[Answer]:
        """The answer to each row. Rows may be written while others are not. `times`: how often their ids were others' before."""
        try:
            answer = await self._write(rows)
        except Exception as error:  # noqa: BLE001 - to the caller of the row that is at fault
            if len(rows) == 1:
                return [error]
            if is_lock_timeout(error):
                return await self._send_singles(rows, error)
            if not is_unsendable(error):
                return [error] * len(rows)
            half = len(rows) // 2
            return [*await self.send(rows[:half], times=times), *await self.send(rows[half:], times=times)]
        if answer.refused:
            return await self._send_others(rows, answer)
        answers: list[Answer] = list(answer.enqueued)
        if answer.taken:
            again = await self._send_again([rows[at] for at in answer.taken], times)
            for at, one in zip(answer.taken, again, strict=True):
                answers[at] = one
        return answers

    async def send_all(self, rows: Sequence[NewRow], *, times: int = 0) -> list[Enqueued]:
        """Write all rows in one transaction, or none: then what is wrong with the first that was refused is raised."""
        answer = await self._write(rows)
        if answer.taken:
            # Either the earlier call was committed, and all of its rows are there, or none is: these are all rows.
            await self._move_on(times)
            return await self.send_all([rows[at] for at in answer.taken], times=times + 1)
        if answer.refused:
            raise refusal(rows, answer.enqueued, answer.refused[0])
        return answer.enqueued

    async def _send_singles(self, rows: Sequence[NewRow], error: Exception) -> list[Answer]:
        held: set[tuple[str, str | None, str | None]] = set()
        answers: list[Answer] = []
        for row in rows:
            if lock_of(row) in held:
                answers.append(error)
                continue
            (answer,) = await self.send([row])
            if isinstance(answer, Exception) and is_lock_timeout(answer):
                held.add(lock_of(row))
            answers.append(answer)
        return answers

    async def _send_others(self, rows: Sequence[NewRow], answer: jobs.EnqueueAnswer) -> list[Answer]:
        """Refuse whom another job stands in the way of. Who met another row of the batch comes after that row."""
        answers: dict[int, Answer] = {}
        met = [one.at for one in answer.refused if one.status is None]
        for one in answer.refused:
            if one.status is not None:
                answers[one.at] = refusal(rows, answer.enqueued, one)
        for group in ([at for at in range(len(rows)) if at not in answers and at not in met], met):
            if group:
                answers.update(zip(group, await self.send([rows[at] for at in group]), strict=True))
        return [answers[at] for at in range(len(rows))]

    async def _write(self, rows: Sequence[NewRow]) -> jobs.EnqueueAnswer:
        ids = self._ids.take(len(rows))
        if ids is None:
            ids = await self._retried(lambda: self._ids.reserve(len(rows)))
        return await self._write_as(rows, ids, [jobs.fresh_token()] * len(rows))

    async def _write_as(
        self, rows: Sequence[NewRow], ids: Sequence[int], tokens: Sequence[int], *, failed: Exception | None = None
    ) -> jobs.EnqueueAnswer:
        """Write the rows with these ids and tokens. `failed`: why the first try, which was made already, did."""
        timeout = self._seconds_for(len(rows), sum([len(row.payload) for row in rows]))
        reserve = self._ids.missing(len(rows))

        again = failed is not None

        async def once() -> jobs.EnqueueAnswer:
            nonlocal failed, again
            if failed is not None:
                error, failed = failed, None
                raise error
            if not self.link.is_open:
                await self.link.connection()
            if self._given_up:
                raise BatcherEnded(was_sent=self._was_sent)
            is_doubtful, self._was_sent = self._was_sent, True
            try:
                if points.active:
                    await points.reach("enqueue.send")
                answer = await jobs.enqueue(
                    self.link, rows, ids, tokens, again=again, reserve=reserve, lock_timeout=self._lock_timeout, timeout=timeout
                )
                if points.active:
                    await points.reach("enqueue.sent")
            except Exception as error:
                self._was_sent, again = is_doubtful or is_ambiguous(error), True
                raise
            return answer

        try:
            answer = await self._retried(once)
        finally:
            self._was_sent = False
        self._ids.put(answer.reserved)
        return answer

    def _seconds_for(self, count: int, size: int) -> float:
        """How long the insert of so many rows with payloads of that size may take."""
        return self.link.timeout_seconds + count / _ROWS_PER_SECOND + size / _BYTES_PER_SECOND

    async def _retried(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The call's answer, tried again while the database is away. DatabaseUnavailable when that takes longer than it may."""
        until = time.monotonic() + self._retry_seconds
        failures = 0
        while True:
            try:
                return await call()
            except Exception as error:
                if self._given_up:
                    raise BatcherEnded(was_sent=self._was_sent) from error
                if not is_passing(error) or (is_lock_timeout(error) and not self._was_sent):
                    raise
                failures += 1
                pause = backoff_seconds(failures, 1.0, secrets.randbelow(1000) / 1000)
                if time.monotonic() + pause > until:
                    raise self._unavailable(error) from error
                await asyncio.sleep(pause)

    def _unavailable(self, error: Exception) -> DatabaseUnavailable:
        reason = str(error) or type(error).__name__
        what = "the job may have been written" if self._was_sent else "nothing was written"
        seconds = self._retry_seconds
        return DatabaseUnavailable(f"the database did not answer within {seconds:g} s (connect_timeout): {reason}; {what}.")


def lock_of(row: NewRow) -> tuple[str, str | None, str | None]:
    """Rows of which this is the same wait for the same locks."""
    return row.type, row.dedup_key, row.serialization_key


def refusal(rows: Sequence[NewRow], enqueued: Sequence[Enqueued], refused: jobs.Refused) -> EnqueueError:
    """Why this row was refused."""
    row, job_id = rows[refused.at], enqueued[refused.at].id
    if row.on_duplicate == "raise":
        return DuplicateJob(row.type, row.dedup_key or "", job_id, refused.status or "enqueued by the same call")
    return InvalidOption(
        f'{row.type} "{row.dedup_key}" is job {job_id}, which has another serialization key than {row.serialization_key!r}: '
        'on_duplicate="replace" cannot move a job to another line.',
        option="serialization_key",
    )
