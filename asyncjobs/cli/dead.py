"""`asyncjobs dead`: dead letters, the records of jobs that failed for good."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from asyncjobs.cli import screen
from asyncjobs.cli.failures import BadInput
from asyncjobs.cli.filters import BEFORE, LIMIT, all_that_fit, is_filtered
from asyncjobs.cli.kit import BY, DRY_RUN, YES, Asked, Group, Instant, argument, found, group, option, verb
from asyncjobs.model.letter import DeadLetter, DeadLetterDetail, LetterFilter, LettersDone, LetterVerb

_WHICH = (
    option("--type", metavar="NAME", help="Letters of this type."),
    option("--queue", metavar="NAME", help="Letters of this queue."),
    option("--key", metavar="KEY", help="Letters of this serialization key."),
    option("--correlation-id", metavar="ID", help="Letters of one user action."),
    option("--error", metavar="TEXT", help="Letters whose error contains this."),
    option("--died-after", type=Instant(), metavar="UTC", help="Died then or later, as 2027-01-31T12:00:00."),
    option("--died-before", type=Instant(), metavar="UTC", help="Died before."),
)
_ALL = option("--all", "everything", is_flag=True, help="All of them, without a filter.")
_IDS = argument("letter_ids", nargs=-1, type=int, metavar="[LETTER]...")
_FORCE = option("--force", is_flag=True, help="Also those that were requeued before.")


def add_to(program: Group) -> None:
    """Declare the verbs."""
    dead = group("dead", "Look at dead letters; acknowledge or requeue them, by id or by a filter.", parent=program)
    acknowledged = option("--acknowledged/--unacknowledged", default=None, help="Only those that are, or are not.")
    verb(dead, "list", *_WHICH, acknowledged, BEFORE, LIMIT)(list_letters)
    verb(dead, "show", argument("letter_id", type=int))(show)
    verb(dead, "ack", _IDS, *_WHICH, _ALL, BY, DRY_RUN, YES)(acknowledge)
    verb(dead, "requeue", _IDS, *_WHICH, _ALL, _FORCE, BY, DRY_RUN, YES)(requeue)


async def list_letters(asked: Asked, before: int | None, limit: int, **given: Any) -> int | None:
    """List dead letters, the newest first.

    A call looks at 10,000 letters; when it stops there, it names the next page.
    """
    which = _filter(given)
    page = await asked.jobs.admin.dead_letters(before=before, limit=limit, **which)
    if page.next is not None:
        asked.note(f"there may be more: --before {page.next}")
    is_last = page.next is None
    return found(asked, "dead letter", page.letters, lambda: _table(page.letters), filtered=is_last and is_filtered(which))


async def show(asked: Asked, letter_id: int) -> None:
    """Show a dead letter: the job as it was when it died, and the errors of its attempts."""
    detail = await asked.jobs.admin.dead_letter(letter_id)
    asked.answer(detail, lambda: _shown(detail))


async def acknowledge(
    asked: Asked, letter_ids: Sequence[int], by: str, *, everything: bool, dry_run: bool, **given: Any
) -> int | None:
    """Say that somebody has dealt with dead letters; they are deleted, with their jobs, some time after."""
    admin = asked.jobs.admin
    return await _do(
        asked, "acknowledge", letter_ids, _filter(given), one=lambda letter_id: admin.acknowledge(letter_id, by=by),
        many=lambda dry, told, which: admin.acknowledge_all(by=by, dry_run=dry, progress=told, acknowledged=False, **which),
        everything=everything, dry_run=dry_run,
    )  # fmt: skip


async def requeue(
    asked: Asked, letter_ids: Sequence[int], by: str, *, everything: bool, force: bool, dry_run: bool, **given: Any
) -> int | None:
    """Make new jobs of dead letters, at the end of their keys' lines. With a filter: of those that nobody has acknowledged."""
    admin = asked.jobs.admin
    return await _do(
        asked, "requeue", letter_ids, _filter(given), one=lambda letter_id: admin.requeue(letter_id, by=by, force=force),
        many=lambda dry, told, which: admin.requeue_all(by=by, force=force, dry_run=dry, progress=told, **which),
        everything=everything, dry_run=dry_run,
    )  # fmt: skip


async def _do(
    asked: Asked,
    what: str,
    letter_ids: Sequence[int],
    which: LetterFilter,
    *,
    one: Callable[[int], Awaitable[LetterVerb]],
    many: Callable[[bool, Callable[[int], None], Any], Awaitable[LettersDone]],
    everything: bool,
    dry_run: bool,
) -> int | None:
    if bool(letter_ids) + (is_filtered(which) or everything) != 1:
        raise BadInput(f"say which letters to {what}: ids, or a filter as --type, or --all; one of them.")
    if not letter_ids:
        return await all_that_fit(asked, f"{what} letters:", lambda dry, told: many(dry, told, which), dry_run=dry_run)
    if dry_run:
        raise BadInput("--dry-run goes with a filter: `asyncjobs dead show` shows a single letter.")
    done = [await one(letter_id) for letter_id in letter_ids]
    asked.answer(done, lambda: "\n".join(map(_told, done)))
    return None


def _told(done: LetterVerb) -> str:
    if done.new_id is not None:
        return f"letter {done.letter_id} (job {done.job_id}) was requeued as job {done.new_id}, {done.new_status}"
    return f"letter {done.letter_id}: {done.outcome}{f' by {screen.text(done.by)}' if done.by else ''}"


def _filter(given: dict[str, Any]) -> LetterFilter:
    for name in ("died_after", "died_before"):
        if isinstance(given[name], datetime):
            given[name] = given[name].replace(tzinfo=UTC)
    return cast("LetterFilter", given)


def _table(letters: Sequence[DeadLetter]) -> str:
    rows = [
        (
            one.id,
            one.job_id,
            one.type,
            one.queue,
            one.died_at,
            one.attempts,
            one.acknowledged_by,
            one.requeued_as,
            one.error_message,
        )
        for one in letters
    ]
    return screen.table(("letter", "job", "type", "queue", "died", "attempts", "acknowledged by", "requeued as", "error"), rows)


def _shown(detail: DeadLetterDetail) -> str:
    fields = msgspec.structs.asdict(detail.letter) | {"payload": detail.job.payload}
    if detail.job.unreadable:
        fields["unreadable"] = detail.job.unreadable
    return "\n\n".join([screen.record(fields), *map(screen.record, detail.job.errors)])
