"""Verbs on dead letters.

Requeue or retry? `requeue` makes a *new* job of a dead letter: the dead one stays as it was, with its errors and its history,
and both are linked (`jobs.requeued_from`, `requeued_as` of the dead letter). It goes to the end of its key's
line. `retry` starts the *same* row over: the id that others hold stays good, and a job that halted its key keeps its
place in the line. So: retry what halts a key or what somebody waits for; requeue the rest.

Both take the dedup key. A live job that has it is in the way (`duplicate`), and named; verbs on many pass over such dead letters.

Nothing is requeued by itself. `requeue_count` goes on from dead letter to dead letter, so that poison is recognised.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, Unpack

from asyncjobs.admin.audit import filtered, recorded, recorded_sync
from asyncjobs.admin.desk import Desk, Progress, untold
from asyncjobs.admin.on_connection import on, on_sync
from asyncjobs.connections import AsyncConnection, SyncConnection
from asyncjobs.errors import DeadLetterNotFound, StateError
from asyncjobs.model.dead_letter import (
    DeadLetter,
    DeadLetterDetail,
    DeadLetterFilter,
    DeadLetterOutcome,
    DeadLettersDone,
    DeadLetterVerb,
    ErrorKind,
    FoundDeadLetters,
)
from asyncjobs.model.finding import check_instants
from asyncjobs.store import dead_letters, verbs
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_refused_value

_PAGE: Final = 1_000
_BATCH: Final = 200
_TRIES: Final = 2  # each waits for a lock for a second


class DeadLetters(Desk):
    """Verbs on dead letters."""

    async def dead_letters(
        self, *, before: int | None = None, limit: int = 100, **which: Unpack[DeadLetterFilter]
    ) -> FoundDeadLetters:
        """A page of the dead letters that fit, the newest first. `acknowledged=False` are those that nobody has looked at yet.

        A call looks at 10,000 dead letters and says so (`looked`): a filter that no index serves (an error's text, a queue) may
        find nothing on a page, and more `before=found.next`. Those of a type, of a key and of a correlation id are found
        directly, and so are those that nobody has acknowledged.
        """
        return await self._do("dead_letters", lambda link: dead_letters.find(link, which, before=before, limit=limit))

    async def dead_letter_errors(
        self,
        *,
        type: str | None = None,
        died_after: datetime | None = None,
        died_before: datetime | None = None,
        limit: int = 50,
    ) -> list[ErrorKind]:
        """What dead letters that nobody has acknowledged died of: by type and error, the most frequent first; of the last 10,000.

        Errors that differ only by numbers are of one kind: `requeue_all(type=one.type, error_kind=one.kind)` requeues those.
        """
        which = DeadLetterFilter(type=type, died_after=died_after, died_before=died_before)
        check_instants(which, "died_after", "died_before")
        return await self._do("dead_letter_errors", lambda link: dead_letters.errors(link, which, limit=limit))

    async def dead_letter(self, dead_letter_id: int, /) -> DeadLetterDetail:
        """One dead letter: the job as it was when it died, and the errors of its attempts. DeadLetterNotFound."""

        async def read(link: Link) -> DeadLetterDetail | None:
            found = await dead_letters.by_ids(link, [dead_letter_id])
            return DeadLetterDetail(found[0], await dead_letters.job(link, found[0])) if found else None

        detail = await self._do("dead_letter", read)
        if detail is None:
            raise DeadLetterNotFound(dead_letter_id)
        return DeadLetterDetail(detail.dead_letter, (await self._shown([detail.job]))[0])

    @recorded("dead.acknowledge", "dead letter {dead_letter_id}")
    async def acknowledge(
        self, dead_letter_id: int, /, *, by: str | None = None, connection: AsyncConnection | None = None
    ) -> DeadLetterVerb:
        """Say that somebody has dealt with it: outcome `acknowledged`, or `acknowledged before` (and `by` whom).

        It is deleted, with its job, some time after (`keep_dead`). DeadLetterNotFound. With `connection`, here and in `requeue`,
        in that connection's transaction (`admin/on_connection.py`).
        """
        if connection is not None:
            return _seen(dead_letter_id, await on(connection, verbs.acknowledge(dead_letter_id, self._by(by)), self._unopened()))
        done = await self._do("acknowledge", lambda link: dead_letters.acknowledge(link, [dead_letter_id], self._by(by)))
        if not done:
            raise DeadLetterNotFound(dead_letter_id)
        return done[0]

    @recorded_sync("dead.acknowledge", "dead letter {dead_letter_id}")
    def acknowledge_sync(self, dead_letter_id: int, /, *, by: str | None = None, connection: SyncConnection) -> DeadLetterVerb:
        """`acknowledge` on a synchronous connection, without a loop."""
        return _seen(dead_letter_id, on_sync(connection, verbs.acknowledge(dead_letter_id, self._by(by)), self._unopened()))

    @recorded("dead.requeue", "dead letter {dead_letter_id}")
    async def requeue(
        self, dead_letter_id: int, /, *, by: str | None = None, force: bool = False, connection: AsyncConnection | None = None
    ) -> DeadLetterVerb:
        """Make a new job with the same payload, queue, lane, priority, attempts, timeout, correlation id and key: `new_id`.

        The dead letter is acknowledged by that. Keyed work goes to the end of its key's line: behind a head that halted it, it
        waits. What is paused stays so. DeadLetterNotFound. StateError when the dead letter was requeued before, unless `force`;
        when a live job has its dedup key, or it is of a workflow's member (retry that), whatever you say; and when its record is
        not one of a job (a stranger's hand).
        """
        if connection is not None:
            asked = verbs.requeue(dead_letter_id, self._by(by), force=force)
            return _requeued(dead_letter_id, await on(connection, asked, self._unopened()))
        found = await self._requeue([dead_letter_id], self._by(by), force=force)
        return _requeued(dead_letter_id, found[0] if found else None)

    @recorded_sync("dead.requeue", "dead letter {dead_letter_id}")
    def requeue_sync(
        self, dead_letter_id: int, /, *, by: str | None = None, force: bool = False, connection: SyncConnection
    ) -> DeadLetterVerb:
        """`requeue` on a synchronous connection, without a loop."""
        asked = verbs.requeue(dead_letter_id, self._by(by), force=force)
        return _requeued(dead_letter_id, on_sync(connection, asked, self._unopened()))

    @recorded("dead.acknowledge", filtered("dead letters"))
    async def acknowledge_all(
        self, *, by: str | None = None, dry_run: bool = False, progress: Progress = untold, **which: Unpack[DeadLetterFilter]
    ) -> DeadLettersDone:
        """Acknowledge all that fit, in batches. `dry_run` only says how many there are."""
        return await self._all(which, dry_run, lambda ids: self._acknowledge(ids, self._by(by)), _would_acknowledge, progress)

    @recorded("dead.requeue", filtered("dead letters"))
    async def requeue_all(
        self,
        *,
        by: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        progress: Progress = untold,
        **which: Unpack[DeadLetterFilter],
    ) -> DeadLettersDone:
        """Requeue all that fit and that nobody has acknowledged, the oldest first, so that jobs of a key come in their order.

        `acknowledged=None` takes the acknowledged ones, too; of these, the ones that were requeued before are passed over unless
        `force`. So are those whose dedup key a live job has, the one that was just made of another dead letter among them:
        outcome `duplicate`, of which `dry_run` knows nothing. Dead letters that come into being meanwhile are not taken, so
        poison is requeued once. One whose record is not one of a job is left as it is, and counted: `unreadable`, which a dry run
        cannot tell.
        """
        which.setdefault("acknowledged", False)
        return await self._all(
            which, dry_run, lambda ids: self._requeue(ids, self._by(by), force=force), _would_requeue(force=force), progress
        )

    async def _all(
        self,
        which: DeadLetterFilter,
        dry_run: bool,  # noqa: FBT001 - handed on
        verb: Callable[[Sequence[int]], Awaitable[list[DeadLetterVerb]]],
        would: Callable[[DeadLetter], DeadLetterOutcome],
        progress: Progress,
    ) -> DeadLettersDone:
        outcomes: dict[DeadLetterOutcome, int] = {}
        ids: list[int] = []
        async for page in self._pages(which):
            ids += [dead_letter.id for dead_letter in page]
            if dry_run:
                _count(outcomes, map(would, page))
                progress(len(ids))
        if not dry_run:
            ids.reverse()
            for at in range(0, len(ids), _BATCH):
                _count(outcomes, [done.outcome for done in await self._one_by_one_if_busy(ids[at : at + _BATCH], verb)])
                progress(at + _BATCH)
        return DeadLettersDone(outcomes, dry_run)

    async def _pages(self, which: DeadLetterFilter) -> AsyncGenerator[list[DeadLetter]]:
        before: int | None = None
        while True:
            page = await self.dead_letters(before=before, limit=_PAGE, **which)
            yield page.dead_letters
            if page.next is None:
                return
            before = page.next

    async def _one_by_one_if_busy(
        self, ids: Sequence[int], verb: Callable[[Sequence[int]], Awaitable[list[DeadLetterVerb]]]
    ) -> list[DeadLetterVerb]:
        """One dead letter or key that a stranger's transaction holds must not keep the others of its batch."""
        try:
            return await verb(ids)
        except StateError:
            pass
        done: list[DeadLetterVerb] = []
        for dead_letter_id in ids:
            try:
                done += await verb([dead_letter_id])
            except StateError:
                done.append(DeadLetterVerb(dead_letter_id, "busy"))
        return done

    async def _acknowledge(self, ids: Sequence[int], by: str) -> list[DeadLetterVerb]:
        return await self._do("acknowledge", lambda link: dead_letters.acknowledge(link, ids, by), most=_TRIES)

    async def _requeue(self, ids: Sequence[int], by: str, *, force: bool) -> list[DeadLetterVerb]:
        try:
            done, queues = await self._do("requeue", lambda link: dead_letters.requeue(link, ids, by, force=force), most=_TRIES)
        except Exception as error:
            if not is_refused_value(error):
                raise
            if len(ids) == 1:
                return [DeadLetterVerb(ids[0], "unreadable")]
            half = len(ids) // 2  # the others of its batch are requeued
            return [
                *await self._requeue(ids[:half], by, force=force),
                *await self._requeue(ids[half:], by, force=force),
            ]
        self._announce(queues)
        return done


def _seen(dead_letter_id: int, done: DeadLetterVerb | None) -> DeadLetterVerb:
    if done is None:
        raise DeadLetterNotFound(dead_letter_id)
    return done


def _requeued(dead_letter_id: int, found: DeadLetterVerb | None) -> DeadLetterVerb:
    done = _seen(dead_letter_id, found)
    if done.outcome == "requeued before":
        raise StateError(
            f"dead letter {dead_letter_id} (job {done.job_id}) was requeued before, as job {done.new_id}, {done.new_status} "
            "now. `force` makes another job of it."
        )
    if done.outcome == "duplicate":
        raise StateError(
            f"dead letter {dead_letter_id} (job {done.job_id}) was not requeued: job {done.other_id} lives and has its dedup key."
        )
    if done.outcome == "member":
        raise StateError(
            f"dead letter {dead_letter_id} is of job {done.job_id}, a member of a workflow: retry that job, and "
            "what waits for it comes back."
        )
    if done.outcome == "unreadable":
        raise StateError(
            f"dead letter {dead_letter_id} cannot be requeued: a value of its record (`original_job`) is none that a job can "
            "have. Enqueue the job anew, and acknowledge the dead letter."
        )
    return done


def _count(outcomes: dict[DeadLetterOutcome, int], found: Iterable[DeadLetterOutcome]) -> None:
    for outcome in found:
        outcomes[outcome] = outcomes.get(outcome, 0) + 1


def _would_acknowledge(dead_letter: DeadLetter) -> DeadLetterOutcome:
    return "acknowledged before" if dead_letter.acknowledged else "acknowledged"


def _would_requeue(*, force: bool) -> Callable[[DeadLetter], DeadLetterOutcome]:
    return lambda dead_letter: "requeued before" if dead_letter.requeued_as is not None and not force else "requeued"
