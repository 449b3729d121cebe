"""Verbs on jobs: on those that were ticked, or (`all`) on all that fit the filter."""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from asyncjobs.admin import Admin
from asyncjobs.admin.jobs import Change
from asyncjobs.dashboard.filters import JOB_FIELDS, is_filtered, job_filter
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.problems import BadInput
from asyncjobs.dashboard.verbs.verb import BACK, Deed, Outcome, Question, Verb, counted, tally
from asyncjobs.errors import JobNotFound, StateError
from asyncjobs.model.finding import JobFilter, JobsDone
from asyncjobs.store.serialized import CHANGES
from asyncjobs.store.serialized import Verb as Done

_MOST: Final = 500  # that one form names
_DIGITS: Final = 12


class _Way(msgspec.Struct, frozen=True):
    """How a verb is done to one, and to all that fit."""

    name: str
    done: str  # in messages: `cancelled by …`
    one: Callable[[Admin, int, Deed], Awaitable[Done]]
    many: Callable[[Admin, JobFilter, Deed, bool], Awaitable[JobsDone]]
    asks: str | None  # what is said of one job before it is done; None: it just is
    fields: tuple[str, ...] = ()  # that its form has besides


#: What a form may change of a job, by the name of its field without `to_`.
_CHANGED: Final = ("priority", "queue", "lane", "delay", "max_attempts", "timeout")


def _changes(deed: Deed) -> Change:
    """What is to be other; BadInput when nothing is, and for what is no number."""
    form, texts = deed.form, {name: deed.form.text(f"to_{name}") for name in _CHANGED}
    if not any(texts.values()):
        raise BadInput("Say what is to be other: a priority, a queue, a delay, attempts or a time-out.")
    return Change(
        priority=_whole(form, "to_priority"), queue=texts["queue"], lane=texts["lane"],
        delay=0.0 if texts["delay"] == "0" else form.seconds("to_delay"), max_attempts=_whole(form, "to_max_attempts"),
        timeout=form.seconds("to_timeout"),
    )  # fmt: skip


def _message(deed: Deed) -> str | None:
    return deed.form.text("message")


def _whole(form: Fields, name: str) -> int | None:
    text = form.text(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < _DIGITS):
        raise BadInput(f"{name}: a whole number, as 10.")
    return int(text)


_WAYS: Final = (
    _Way(
        "retry", "retried",
        lambda admin, job_id, _: admin.retry(job_id),
        lambda admin, which, _, dry: admin.retry_all(dry_run=dry, **which),
        None,
    ),
    _Way(
        "cancel", "cancelled",
        lambda admin, job_id, deed: admin.cancel(job_id, _message(deed)),
        lambda admin, which, deed, dry: admin.cancel_all(_message(deed), dry_run=dry, **which),
        "It will not run (again). If it runs, its handler is asked to end.",
    ),
    _Way(
        "kill", "killed",
        lambda admin, job_id, deed: admin.kill(job_id, _message(deed)),
        lambda admin, which, deed, dry: admin.kill_all(_message(deed), dry_run=dry, **which),
        "It becomes dead, with a dead letter. If it runs, its handler is asked to end.",
    ),
    _Way(
        "fail", "failed",
        lambda admin, job_id, deed: admin.fail(job_id, _message(deed), will_retry=True),
        lambda admin, which, deed, dry: admin.fail_all(_message(deed), will_retry=True, dry_run=dry, **which),
        "The attempt that runs is asked to end, and counts as failed; the job is retried while it has attempts left.",
    ),
    _Way(
        "change", "changed",
        lambda admin, job_id, deed: admin.change(job_id, **_changes(deed)),
        lambda admin, which, deed, dry: admin.change_all(_changes(deed), dry_run=dry, **which),
        None, tuple(f"to_{name}" for name in _CHANGED),
    ),
    _Way(
        "delete", "deleted",
        lambda admin, job_id, _: admin.delete(job_id),
        lambda admin, which, _, dry: admin.delete_all(dry_run=dry, **which),
        "It is gone for good, with its dead letters. One that has not ended is left as it is: cancel it first.",
    ),
)  # fmt: skip


def _verb(way: _Way) -> Verb:
    async def ask(deed: Deed) -> Question | None:
        return await _question(way, deed)

    async def do(deed: Deed) -> Outcome:
        return await (_do_all(way, deed) if deed.form.flag("all") else _do_some(way, deed))

    return Verb(f"jobs/{way.name}", do, ("id", "all", "message", *way.fields, *JOB_FIELDS), ask)


async def _question(way: _Way, deed: Deed) -> Question | None:
    if not deed.form.flag("all"):
        ids = _ids(deed)
        if way.asks is None:
            return None
        which = f"job {ids[0]}" if len(ids) == 1 else f"these {len(ids):,} jobs"
        return Question(f"{way.name.capitalize()} {which}?", f"{way.name.capitalize()} {which}", [way.asks])
    would = await way.many(deed.admin, _filter(deed), deed, True)
    if not would.outcomes:
        return Question("No job fits this filter.", "", nothing=True)
    details = [f"{count:,} {name}" for name, count in sorted(would.outcomes.items())]
    if not would.changed:
        return Question(f"None of the jobs that fit can be {way.done}.", "", details, nothing=True)
    text = f"{way.name.capitalize()} all that fit: this would change {would.changed:,} of {sum(would.outcomes.values()):,} jobs."
    return Question(text, f"{way.name.capitalize()} {would.changed:,} jobs", details)


async def _do_all(way: _Way, deed: Deed) -> Outcome:
    done = await way.many(deed.admin, _filter(deed), deed, False)
    said = f"{way.name.capitalize()} all that fit: {counted(done.outcomes)}."
    return Outcome(said, done.changed > 0)


async def _do_some(way: _Way, deed: Deed) -> Outcome:
    ids = _ids(deed)
    if len(ids) == 1:
        done = await way.one(deed.admin, ids[0], deed)
        is_gone = done.outcome == "deleted" and deed.form.text(BACK) == f"/jobs/{ids[0]}"  # its own page
        return Outcome(f"{done.told(ids[0]).capitalize()}.", done.is_change, to="/jobs" if is_gone else None)
    outcomes = tally([await _outcome(way.one(deed.admin, job_id, deed)) for job_id in ids])
    is_change = any(name in CHANGES for name in outcomes)
    return Outcome(f"{len(ids):,} jobs: {counted(outcomes)}.", is_change)


async def _outcome(done: Awaitable[Done]) -> str:
    try:
        return (await done).outcome
    except StateError:
        return "busy"
    except JobNotFound:
        return "unknown"


def _ids(deed: Deed) -> list[int]:
    ids = deed.form.ids("id")
    if not ids or len(ids) > _MOST:
        raise BadInput(f"Tick the jobs that are meant, at most {_MOST}, or take all that fit a filter.")
    return list(dict.fromkeys(ids))


def _filter(deed: Deed) -> JobFilter:
    which = job_filter(deed.form)
    if not is_filtered(which):
        raise BadInput("Without a filter this would take every job there is: say which, by a type or a status.")
    return which


VERBS: Final = [_verb(way) for way in _WAYS]
