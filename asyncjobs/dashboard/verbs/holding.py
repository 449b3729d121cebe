"""Verbs that hold back: pause, resume and drain a queue, a type, a key or everything."""

from typing import Final, TypedDict

from asyncjobs.dashboard.problems import BadInput
from asyncjobs.dashboard.verbs.verb import Deed, Outcome, Verb

_FIELDS: Final = ("queue", "type", "key", "all")


class _What(TypedDict, total=False):
    queue: str
    type: str
    key: str


def _what(deed: Deed) -> tuple[str, _What]:
    """Its name, and what to hand on: nothing for everything."""
    given = [(name, text) for name, text in deed.form if name in _FIELDS]
    kind = deed.form.choice("what", _FIELDS)
    if kind is not None:
        given.append((kind, "all" if kind == "all" else deed.form.needed("name")))
    if len(given) != 1:
        raise BadInput("Say what: one queue, one type, one key, or all.")
    [(kind, name)] = given
    if kind == "all":
        return "Everything", {}
    what: _What = {"queue": name} if kind == "queue" else {"type": name} if kind == "type" else {"key": name}
    return f'{kind.capitalize()} "{name}"', what


async def _pause(deed: Deed) -> Outcome:
    name, what = _what(deed)
    why = deed.form.text("reason")
    paused = await (deed.admin.pause(**what, reason=why) if what else deed.admin.pause_all(reason=why))
    if not paused.is_new:
        return Outcome(f"{name} was paused before.", is_change=False)
    unserved = "" if paused.served else " No runner that lives serves it: is it spelled right?"
    return Outcome(f"{name} is paused. What runs goes on.{unserved}")


async def _resume(deed: Deed) -> Outcome:
    name, what = _what(deed)
    resumed = await (deed.admin.resume(**what) if what else deed.admin.resume_all())
    return Outcome(f"{name} {'goes on' if resumed else 'was not paused'}.", resumed)


async def _drain(deed: Deed) -> Outcome:
    """Pause it, and say what still runs: the page shows when that has ended."""
    name, what = _what(deed)
    why = deed.form.text("reason") or "drained"
    if what:
        running = await deed.admin.drain(**what, timeout=0, reason=why)
    else:
        running = await deed.admin.drain_all(timeout=0, reason=why)
    still = (
        f"{running:,} of its jobs still run; this page shows when they have ended" if running else "nothing of it runs any more"
    )
    return Outcome(f"{name} is paused: {still}.")


VERBS: Final = [
    Verb("pause", _pause, (*_FIELDS, "what", "name", "reason")),
    Verb("resume", _resume, (*_FIELDS, "what", "name")),
    Verb("drain", _drain, (*_FIELDS, "what", "name", "reason")),
]
