"""Verbs on dead letters: on those that were ticked, or (`all`) on all that fit the filter."""

from typing import Final

from asyncjobs.dashboard.filters import DEAD_LETTER_FIELDS, dead_letter_filter
from asyncjobs.dashboard.problems import BadInput
from asyncjobs.dashboard.verbs.verb import Deed, Outcome, Question, Verb, counted, tally
from asyncjobs.errors import DeadLetterNotFound, StateError
from asyncjobs.model.dead_letter import DeadLettersDone

_MOST: Final = 500


async def _acknowledge_all(deed: Deed, *, dry_run: bool) -> DeadLettersDone:
    return await deed.admin.acknowledge_all(dry_run=dry_run, **dead_letter_filter(deed.form))


async def _requeue_all(deed: Deed, *, dry_run: bool) -> DeadLettersDone:
    return await deed.admin.requeue_all(force=deed.form.flag("force"), dry_run=dry_run, **dead_letter_filter(deed.form))


async def _ask_acknowledge(deed: Deed) -> Question | None:
    return _question("Acknowledge", await _acknowledge_all(deed, dry_run=True)) if deed.form.flag("all") else None


async def _ask_requeue(deed: Deed) -> Question | None:
    return _question("Requeue", await _requeue_all(deed, dry_run=True)) if deed.form.flag("all") else None


def _question(verb: str, would: DeadLettersDone) -> Question:
    details = [f"{count:,} {name}" for name, count in sorted(would.outcomes.items())]
    if not would.changed:
        return Question("There is nothing to do: no dead letter that fits can be taken.", "", details, nothing=True)
    return Question(f"{verb} all {would.changed:,} dead letters that fit?", f"{verb} {would.changed:,} dead letters", details)


async def _acknowledge(deed: Deed) -> Outcome:
    if deed.form.flag("all"):
        done = await _acknowledge_all(deed, dry_run=False)
        return Outcome(f"Dead letters: {counted(done.outcomes)}.", done.changed > 0)
    outcomes: list[str] = []
    for dead_letter_id in _ids(deed):
        try:
            outcomes.append((await deed.admin.acknowledge(dead_letter_id)).outcome)
        except (StateError, DeadLetterNotFound) as error:
            outcomes.append("unknown" if isinstance(error, DeadLetterNotFound) else "busy")
    return _some(outcomes, "acknowledged")


async def _requeue(deed: Deed) -> Outcome:
    if deed.form.flag("all"):
        done = await _requeue_all(deed, dry_run=False)
        return Outcome(f"Dead letters: {counted(done.outcomes)}.", done.changed > 0)
    ids = _ids(deed)
    if len(ids) == 1:
        made = await deed.admin.requeue(ids[0], force=deed.form.flag("force"))
        return Outcome(f"Dead letter {ids[0]}: requeued as job {made.new_id}, {made.new_status}.")
    outcomes: list[str] = []
    for dead_letter_id in sorted(ids):
        try:
            outcomes.append((await deed.admin.requeue(dead_letter_id, force=deed.form.flag("force"))).outcome)
        except StateError:
            outcomes.append("requeued before, duplicate, busy or unreadable")
        except DeadLetterNotFound:
            outcomes.append("unknown")
    return _some(outcomes, "requeued")


def _some(outcomes: list[str], changed: str) -> Outcome:
    return Outcome(f"Dead letters: {counted(tally(outcomes))}.", changed in outcomes)


def _ids(deed: Deed) -> list[int]:
    ids = deed.form.ids("id")
    if not ids or len(ids) > _MOST:
        raise BadInput(f"Tick the dead letters that are meant, at most {_MOST}, or take all that fit a filter.")
    return list(dict.fromkeys(ids))


VERBS: Final = [
    Verb("dead/acknowledge", _acknowledge, ("id", "all", *DEAD_LETTER_FIELDS), _ask_acknowledge),
    Verb("dead/requeue", _requeue, ("id", "all", "force", *DEAD_LETTER_FIELDS), _ask_requeue),
]
