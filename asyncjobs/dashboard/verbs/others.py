"""Verbs on schedules, circuit breakers and limits, and pruning."""

from typing import Final

from asyncjobs.dashboard.verbs.verb import Deed, Outcome, Question, Verb
from asyncjobs.store.limits import LimitKind, LimitRow


async def _run(deed: Deed) -> Outcome:
    name = deed.form.needed("name")
    made = await deed.admin.run_schedule(name)
    if made.created:
        return Outcome(f'Schedule "{name}": made job {made.id}.')
    why = f"job {made.id} lives and has its dedup key" if made.id else "its job was refused"
    return Outcome(f'Schedule "{name}": nothing was made, {why}.', is_change=False)


async def _disable(deed: Deed) -> Outcome:
    name = deed.form.needed("name")
    disabled = await deed.admin.disable_schedule(name, reason=deed.form.text("reason"))
    return Outcome(f'Schedule "{name}" {"ticks no more" if disabled else "was disabled before"}.', disabled)


async def _enable(deed: Deed) -> Outcome:
    name = deed.form.needed("name")
    enabled = await deed.admin.enable_schedule(name)
    return Outcome(f'Schedule "{name}" {"ticks again" if enabled else "was enabled"}.', enabled)


async def _open(deed: Deed) -> Outcome:
    service = deed.form.needed("service")
    seconds = deed.form.seconds("for")
    is_new = await deed.admin.open_breaker(service, for_=seconds, reason=deed.form.text("message"))
    until = "until it is reset" if seconds is None else f"for {seconds:g} s"
    return Outcome(f'Breaker "{service}" is open {until}{"" if is_new else " (it was open)"}.')


async def _reset(deed: Deed) -> Outcome:
    service = deed.form.needed("service")
    is_change = await deed.admin.reset_breaker(service)
    return Outcome(f'Breaker "{service}" {"is closed" if is_change else "was closed"}.', is_change)


_OF_QUEUE: Final[LimitKind] = "queue"


def _kind(deed: Deed) -> LimitKind:
    return _OF_QUEUE if deed.form.choice("kind", ("limit", "queue")) == "queue" else "limit"


async def _set_limit(deed: Deed) -> Outcome:
    name, kind = deed.form.needed("name"), _kind(deed)
    limit = await deed.admin.set_limit(name, total=deed.form.permits("total"), each=deed.form.permits("each"), kind=kind)
    return Outcome(f'{kind.capitalize()} "{name}": {_permits(limit)}, until it is reset.')


async def _reset_limit(deed: Deed) -> Outcome:
    queue = deed.form.text("queue")
    name, kind = (deed.form.needed("name"), _kind(deed)) if queue is None else (queue, _OF_QUEUE)
    limit = await deed.admin.reset_limit(name, kind=kind)
    return Outcome(f'{kind.capitalize()} "{name}": {_permits(limit)}, as programs declare it.')


async def _open_key(deed: Deed) -> Outcome:
    key = deed.form.needed("key")
    await deed.admin.open_limit_key(key)
    return Outcome(f'Limit key "{key}" is open.')


def _permits(limit: LimitRow) -> str:
    return f"total {_or_none(limit.total)}, each {_or_none(limit.each)}"


def _or_none(count: int | None) -> str:
    return "none" if count is None else f"{count:,}"


async def _ask_prune(deed: Deed) -> Question:
    would = await deed.admin.prune(dry_run=True)
    if not would.rows:
        return Question("There is nothing to prune: everything is still to be kept.", "", nothing=True)
    return Question("Delete what has been kept for long enough?", f"Delete {would.rows:,} rows", would.in_words().split(", "))


async def _prune(deed: Deed) -> Outcome:
    done = await deed.admin.prune()
    return Outcome(f"Deleted {done.in_words()}.", done.rows > 0)


VERBS: Final = [
    Verb("schedules/run", _run, ("name",)),
    Verb("schedules/disable", _disable, ("name", "reason")),
    Verb("schedules/enable", _enable, ("name",)),
    Verb("breakers/open", _open, ("service", "for", "message")),
    Verb("breakers/reset", _reset, ("service",)),
    Verb("limits/set", _set_limit, ("name", "kind", "total", "each")),
    Verb("limits/reset", _reset_limit, ("name", "kind", "queue")),
    Verb("limits/open", _open_key, ("key",)),
    Verb("prune", _prune, (), _ask_prune),
]
