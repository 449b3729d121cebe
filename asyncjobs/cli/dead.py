"""`asyncjobs dead`: dead letters, the records of jobs that failed for good."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec

from asyncjobs.cli import screen
from asyncjobs.cli.failures import BadInput
from asyncjobs.cli.filters import BEFORE, LIMIT, all_that_fit, is_filtered
from asyncjobs.cli.kit import ACTS, DRY_RUN, MOMENT, YES, Asked, Group, argument, found, group, option, verb
from asyncjobs.model.dead_letter import DeadLetter, DeadLetterDetail, DeadLetterFilter, DeadLettersDone, DeadLetterVerb

_WHICH = (
    option("--type", metavar="NAME", help="Dead letters of this type."),
    option("--queue", metavar="NAME", help="Dead letters of this queue."),
    option("--key", metavar="KEY", help="Dead letters of this serialization key."),
    option("--correlation-id", metavar="ID", help="Dead letters of one user action."),
    option("--error", metavar="TEXT", help="Dead letters whose error contains this."),
    option("--error-kind", metavar="KIND", help="Dead letters of this kind of error, as `dead errors` says it."),
    option(
        "--since",
        "--died-after",
        "died_after",
        type=MOMENT,
        metavar="WHEN",
        help="Died then or later: how long ago, as 1h, or when (UTC).",
    ),
    option("--until", "--died-before", "died_before", type=MOMENT, metavar="WHEN", help="Died before."),
)
_ALL = option("--all", "everything", is_flag=True, help="All of them, without a filter.")
_IDS = argument("dead_letter_ids", nargs=-1, type=int, metavar="[ID]...")
_FORCE = option("--force", is_flag=True, help="Also those that were requeued before.")


def add_to(program: Group) -> None:
    """Declare the verbs."""
    dead = group("dead", "Look at dead letters; acknowledge or requeue them, by id or by a filter.", parent=program)
    acknowledged = option("--acknowledged/--unacknowledged", default=None, help="Only those that are, or are not.")
    verb(dead, "list", *_WHICH, acknowledged, BEFORE, LIMIT)(list_dead_letters)
    when = [one for one in _WHICH if one.name in {"type", "died_after", "died_before"}]
    verb(dead, "errors", *when, LIMIT)(errors)
    verb(dead, "show", argument("dead_letter_id", type=int))(show)
    verb(dead, "ack", _IDS, *_WHICH, _ALL, *ACTS, DRY_RUN, YES)(acknowledge)
    verb(dead, "requeue", _IDS, *_WHICH, _ALL, _FORCE, *ACTS, DRY_RUN, YES)(requeue)


async def list_dead_letters(asked: Asked, before: int | None, limit: int, **given: Any) -> int | None:
    """List dead letters, the newest first.

    A call looks at 10,000 dead letters; when it stops there, it names the next page.
    """
    which = _filter(given)
    page = await asked.admin.dead_letters(before=before, limit=limit, **which)
    if page.next is not None:
        asked.note(f"there may be more: --before {page.next}")
    is_last = page.next is None
    return found(
        asked, "dead letter", page.dead_letters, lambda: _table(page.dead_letters), filtered=is_last and is_filtered(which)
    )


async def errors(asked: Asked, limit: int, **given: Any) -> int | None:
    """Show what dead letters that nobody has acknowledged died of, the most frequent first. Errors that differ by numbers are
    one.

    Requeue those of one by `dead requeue --type TYPE --error-kind KIND`.
    """
    kinds = await asked.admin.dead_letter_errors(limit=limit, **given)
    rows = [(one.count, one.type, one.kind, one.first_at, one.last_at, one.last_id) for one in kinds]
    columns = ("letters", "type", "error", "first", "last", "dead letter")
    return found(asked, "dead letter", kinds, lambda: screen.table(columns, rows), filtered=is_filtered(given))


async def show(asked: Asked, dead_letter_id: int) -> None:
    """Show a dead letter: the job as it was when it died, and the errors of its attempts."""
    detail = await asked.admin.dead_letter(dead_letter_id)
    asked.answer(detail, lambda: _shown(detail))


async def acknowledge(
    asked: Asked, dead_letter_ids: Sequence[int], *, everything: bool, dry_run: bool, **given: Any
) -> int | None:
    """Say that somebody has dealt with dead letters; they are deleted, with their jobs, some time after."""
    admin = asked.admin
    return await _do(
        asked, "acknowledge", dead_letter_ids, _filter(given), one=admin.acknowledge,
        many=lambda dry, told, which: admin.acknowledge_all(dry_run=dry, progress=told, acknowledged=False, **which),
        everything=everything, dry_run=dry_run,
    )  # fmt: skip


async def requeue(
    asked: Asked, dead_letter_ids: Sequence[int], *, everything: bool, force: bool, dry_run: bool, **given: Any
) -> int | None:
    """Make new jobs of dead letters, at the end of their keys' lines. With a filter: of those that nobody has acknowledged."""
    admin = asked.admin
    return await _do(
        asked, "requeue", dead_letter_ids, _filter(given), one=lambda one: admin.requeue(one, force=force),
        many=lambda dry, told, which: admin.requeue_all(force=force, dry_run=dry, progress=told, **which),
        everything=everything, dry_run=dry_run,
    )  # fmt: skip


async def _do(
    asked: Asked,
    what: str,
    dead_letter_ids: Sequence[int],
    which: DeadLetterFilter,
    *,
    one: Callable[[int], Awaitable[DeadLetterVerb]],
    many: Callable[[bool, Callable[[int], None], Any], Awaitable[DeadLettersDone]],
    everything: bool,
    dry_run: bool,
) -> int | None:
    if bool(dead_letter_ids) + (is_filtered(which) or everything) != 1:
        raise BadInput(f"say which dead letters to {what}: ids, or a filter as --type, or --all; one of them.")
    if not dead_letter_ids:
        return await all_that_fit(asked, f"{what} dead letters:", lambda dry, told: many(dry, told, which), dry_run=dry_run)
    if dry_run:
        raise BadInput("--dry-run goes with a filter: `asyncjobs dead show` shows a single dead letter.")
    done = [await one(dead_letter_id) for dead_letter_id in dead_letter_ids]
    asked.answer(done, lambda: "\n".join(map(_sentence, done)))
    return None


def _sentence(done: DeadLetterVerb) -> str:
    if done.new_id is not None:
        return f"dead letter {done.dead_letter_id} (job {done.job_id}) was requeued as job {done.new_id}, {done.new_status}"
    return f"dead letter {done.dead_letter_id}: {done.outcome}{f' by {screen.text(done.by)}' if done.by else ''}"


def _filter(given: dict[str, Any]) -> DeadLetterFilter:
    return cast("DeadLetterFilter", given)


def _table(dead_letters: Sequence[DeadLetter]) -> str:
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
        for one in dead_letters
    ]
    return screen.table(
        ("dead letter", "job", "type", "queue", "died", "attempts", "acknowledged by", "requeued as", "error"), rows
    )


def _shown(detail: DeadLetterDetail) -> str:
    fields = msgspec.structs.asdict(detail.dead_letter) | {"payload": detail.job.payload}
    if detail.job.unreadable:
        fields["unreadable"] = detail.job.unreadable
    return "\n\n".join([screen.record(fields), *map(screen.record, detail.job.errors)])
