"""What operators did is written down, whoever asked for it: here, once for Python, the command line and the dashboard
(`model/audit.py` has the rules).

`recorded` marks each verb that changes something. That none is forgotten is held by a test.
"""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, cast

from asyncjobs.model.audit import UNNAMED, Actor, Deed
from asyncjobs.model.finding import workflow_of
from asyncjobs.store.failures import DATABASE_ERRORS
from asyncjobs.telemetry.events import Events, VerbUsed

P = ParamSpec("P")
T = TypeVar("T")

#: What it is done to, from the arguments: a text with their names in braces, or a function.
Target: TypeAlias = str | Callable[[Mapping[str, Any]], str]

#: The verb that is being done in this task. Verbs that it uses are a part of it.
_under_way: Final[ContextVar[Deed | None]] = ContextVar("asyncjobs_deed", default=None)

#: By this attribute a verb that is written down is known.
MARK: Final = "is_recorded_as"


class Scribe(NamedTuple):
    """Writes it down, and tells it."""

    opened: Callable[[str], object]
    begin: Callable[[Deed], Awaitable[int]]
    end: Callable[[int, str], Awaitable[None]]
    events: Callable[[], Events]

    def tell(self, deed: Deed, outcome: str) -> None:
        """Tell the events."""
        self.events().emit(VerbUsed(verb=deed.verb, by=deed.by, target=deed.target, outcome=outcome, via=deed.via, why=deed.why))


class _Desk(Protocol):
    """What is needed of the desk whose verb it is."""

    actor: Actor
    scribe: Scribe


def under_way() -> Deed | None:
    """The verb that is being done, for one that is done on a caller's connection: it is written down there."""
    return _under_way.get()


class _Came:
    """What came of a verb, in a few words; of one that was broken off, that."""

    outcome = "interrupted"


@contextmanager
def _doing(deed: Deed, came: _Came) -> Generator[None]:
    """The verb is under way, and an error is what comes of it."""
    before = _under_way.set(deed)
    try:
        yield
    except Exception as error:
        came.outcome = type(error).__name__
        raise
    finally:
        _under_way.reset(before)


def recorded(verb: str, target: Target) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Write down each use of this verb, and tell the events."""

    def declare(do: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        signature = inspect.signature(do)

        @wraps(do)
        async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            given = _bound(signature, args, kwargs)
            if _under_way.get() is not None or given.get("dry_run"):
                return await do(*args, **kwargs)
            desk = cast("_Desk", args[0])
            deed = _deed(desk.actor, verb, target, given)
            row: int | None = None
            if given.get("connection") is None:
                desk.scribe.opened(f"admin.{do.__name__} was called")
                row = await desk.scribe.begin(deed)
            came = _Came()
            try:
                with _doing(deed, came):
                    done = await do(*args, **kwargs)
                    came.outcome = said(done) + _changed(given)
            finally:
                if row is not None:
                    with suppress(*DATABASE_ERRORS):
                        await desk.scribe.end(row, came.outcome)
                desk.scribe.tell(deed, came.outcome)
            return done

        setattr(wrapper, MARK, verb)
        return wrapper

    return declare


def recorded_sync(verb: str, target: Target) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """The same for a verb on a synchronous connection, which is written down there."""

    def declare(do: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(do)

        @wraps(do)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            desk, given = cast("_Desk", args[0]), _bound(signature, args, kwargs)
            deed = _deed(desk.actor, verb, target, given)
            came = _Came()
            try:
                with _doing(deed, came):
                    done = do(*args, **kwargs)
                    came.outcome = said(done) + _changed(given)
            finally:
                desk.scribe.tell(deed, came.outcome)
            return done

        setattr(wrapper, MARK, verb)
        return wrapper

    return declare


def _bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _deed(actor: Actor, verb: str, target: Target, given: Mapping[str, Any]) -> Deed:
    what = target.format(**given) if isinstance(target, str) else target(given)
    why = given.get("reason") or given.get("message") or actor.why
    return Deed(verb=verb, target=what, by=str(given.get("by") or actor.by), via=actor.via, why=why and str(why)).storable()


def _changed(given: Mapping[str, Any]) -> str:
    """What of a job was to be other, for verbs that change it."""
    changes = {name: value for name, value in (given.get("changes") or {}).items() if value is not None}
    return f": {', '.join(f'{name}={value}' for name, value in changes.items())}" if changes else ""


def filtered(what: str) -> Callable[[Mapping[str, Any]], str]:
    """All `what` that fit a filter. What a payload was searched for is not told: it may be what nobody is shown."""

    def target(given: Mapping[str, Any]) -> str:
        which = {name: value for name, value in given["which"].items() if value is not None}
        which |= {"payload": "…"} if "payload" in which else {}
        which |= {"workflow": workflow_of(which)} if "workflow" in which else {}
        return f"all {what} with {', '.join(f'{name}={value}' for name, value in which.items())}" if which else f"all {what}"

    return target


def held(given: Mapping[str, Any]) -> str:
    """What is paused or goes on."""
    named = [f"{kind} {given[kind]}" for kind in ("queue", "type", "key") if given.get(kind) is not None]
    return ", ".join(named) or "everything"


def said(done: object) -> str:
    """What came of it, in a few words."""
    if isinstance(done, bool):
        return "done" if done else "nothing to do"
    if isinstance(done, int):
        return str(done)
    if isinstance(done, list):
        return str(len(cast("list[object]", done)))
    for name in ("outcome", "outcomes"):
        value = getattr(done, name, None)
        if isinstance(value, dict):
            return ", ".join(f"{count:,} {came}" for came, count in sorted(cast("dict[str, int]", value).items())) or "nothing"
        if isinstance(value, str):
            new_id = getattr(done, "new_id", None)
            return f"{value} as job {new_id}" if new_id is not None else value
    in_words = getattr(done, "in_words", None)
    return str(in_words()) if in_words is not None else "done"


def record_of(message: str | None, done: str, by: str) -> str:
    """What a job's row says of the verb that ended it: why, and by whom if somebody was named."""
    if by == UNNAMED:
        return message or f"{done} by an operator"
    return f"{message} ({done} by {by})" if message else f"{done} by {by}"
