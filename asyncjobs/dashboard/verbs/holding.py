"""Verbs that hold back: pause, resume and drain a queue, a type or a key."""

from typing import Final, TypedDict

from asyncjobs.dashboard.problems import BadInput
from asyncjobs.dashboard.verbs.verb import Deed, Outcome, Verb

_FIELDS: Final = ("queue", "type", "key")


class _What(TypedDict, total=False):
    queue: str
    type: str
    key: str


def _what(deed: Deed) -> tuple[str, _What]:
    given = [(name, text) for name, text in deed.form if name in _FIELDS]
    kind = deed.form.choice("what", _FIELDS)
    if kind is not None:
        given.append((kind, deed.form.needed("name")))
    if len(given) != 1:
        raise BadInput("Say what: one queue, one type or one key.")
    [(kind, name)] = given
    what: _What = {"queue": name} if kind == "queue" else {"type": name} if kind == "type" else {"key": name}
    return f'{kind.capitalize()} "{name}"', what


async def _pause(deed: Deed) -> Outcome:
    name, what = _what(deed)
    paused = await deed.admin.pause(**what, reason=deed.form.text("reason"), by=deed.by)
    if not paused.is_new:
        return Outcome(name, f"{name} was paused before.", is_change=False)
    unserved = "" if paused.served else " No runner that lives serves it: is it spelled right?"
    return Outcome(name, f"{name} is paused. What runs goes on.{unserved}")


async def _resume(deed: Deed) -> Outcome:
    name, what = _what(deed)
    resumed = await deed.admin.resume(**what)
    return Outcome(name, f"{name} {'goes on' if resumed else 'was not paused'}.", resumed)


async def _drain(deed: Deed) -> Outcome:
    """Pause it, and say what still runs: the page shows when that has ended."""
    name, what = _what(deed)
    running = await deed.admin.drain(**what, timeout=0, reason=deed.form.text("reason") or "drained", by=deed.by)
    still = (
        f"{running:,} of its jobs still run; this page shows when they have ended" if running else "nothing of it runs any more"
    )
    return Outcome(name, f"{name} is paused: {still}.")


VERBS: Final = [
    Verb("pause", _pause, (*_FIELDS, "what", "name", "reason")),
    Verb("resume", _resume, (*_FIELDS, "what", "name")),
    Verb("drain", _drain, (*_FIELDS, "what", "name", "reason")),
]
