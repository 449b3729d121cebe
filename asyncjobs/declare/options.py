"""The options of one enqueue: what may be said, and whether it can be meant."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Literal, TypedDict, cast, final

import msgspec

from asyncjobs.connections import Connection, check_given
from asyncjobs.errors import InvalidName, InvalidOption, did_you_mean
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.names import check_name, key_problem, kind_of, shown
from asyncjobs.model.outcome import Duration

MAX_PRIORITY = 32_767
MAX_ATTEMPTS = 2**31 - 1
MAX_TAG = 63
MAX_TAGS = 20
PAST = timedelta(days=10 * 366)
FUTURE = timedelta(days=100 * 366)


@final
class Debounce:
    """Run once for many enqueues of one dedup key: `quiet` after the last of them, and at most `at_most` after the first.

    Durations are timedeltas or seconds. InvalidOption unless 0 < quiet <= at_most.
    """

    __slots__ = ("at_most", "quiet")

    def __init__(self, quiet: Duration, at_most: Duration) -> None:
        self.quiet = _positive("quiet", quiet)
        self.at_most = _positive("at_most", at_most)
        if self.quiet > self.at_most:
            raise InvalidOption(
                f"Debounce(quiet={self.quiet:g}, at_most={self.at_most:g}): quiet is longer than at_most: it would never decide.",
                option="debounce",
            )

    def __repr__(self) -> str:
        return f"Debounce(quiet={self.quiet:g}, at_most={self.at_most:g})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Debounce) and (other.quiet, other.at_most) == (self.quiet, self.at_most)

    def __hash__(self) -> int:
        return hash((self.quiet, self.at_most))


class Options(TypedDict, total=False):
    """How one job differs from its type. None means: as if not given."""

    queue: str | None
    lane: str | None
    priority: int | None
    run_at: datetime | None
    delay: Duration | None
    max_attempts: int | None
    timeout: Duration | None
    correlation_id: str | None
    parent_job_id: int | None
    created_by: str | None
    dedup_key: str | None
    dedup_for: Duration | None
    notify: bool | None
    on_duplicate: Literal["return", "replace", "raise"] | None
    serialization_key: str | None
    limit_key: str | None
    tags: Sequence[str] | None
    expires: Duration | None
    debounce: Debounce | None
    dedup_until: Literal["start", "end"] | None
    keep_payload: bool | None
    connection: Connection | None


KNOWN = frozenset(Options.__annotations__)


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Options that were checked one by one. What is None was not given."""

    queue: str | None = None
    lane: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    delay: float | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    correlation_id: str | None = None
    parent_job_id: int | None = None
    created_by: str | None = None
    dedup_key: str | None = None
    dedup_for: float | None = None
    notify: bool | None = None
    on_duplicate: Literal["return", "replace", "raise"] | None = None
    serialization_key: str | None = None
    limit_key: str | None = None
    tags: tuple[str, ...] | None = None
    expires: float | None = None
    debounce: Debounce | None = None
    dedup_until: Literal["start", "end"] | None = None
    keep_payload: bool | None = None
    connection: Any = None


NONE_GIVEN = Checked()


def check_options(options: Mapping[str, object], *, over: Checked = NONE_GIVEN) -> Checked:
    """These options over earlier ones, each checked. InvalidOption says which, with its value and the remedy."""
    given: dict[str, object] = {}
    for name, value in options.items():
        if name not in KNOWN:
            raise InvalidOption(f"no option {name!r}.{did_you_mean(name, KNOWN)}", option=name)
        if value is not None:
            given[name] = _check(name, value)
    if not given:
        return over
    checked = msgspec.structs.replace(over, **given)
    if checked.run_at is not None and checked.delay is not None:
        raise InvalidOption("give run_at or delay, not both.", option="run_at")
    return checked


def check_together(checked: Checked, *, has_dedup_rule: bool = False) -> None:
    """What an option needs another for; asked when the job is made, since options may come in several steps."""
    if checked.dedup_key is None and not has_dedup_rule:
        for name in ("dedup_for", "on_duplicate", "debounce", "dedup_until"):
            if getattr(checked, name) is not None:
                raise InvalidOption(f"{name}={getattr(checked, name)!r} needs a dedup_key: give one.", option=name)
    if checked.debounce is not None:
        for name in ("run_at", "delay", "on_duplicate"):
            if getattr(checked, name) is not None:
                raise InvalidOption(
                    f"{name}={getattr(checked, name)!r} was given with a debounce, which decides that.", option=name
                )


def _check(name: str, value: object) -> object:
    check = _CHECKS.get(name)
    return check_key(name, value) if check is None else check(name, value)


def _whole(name: str, value: object, *, least: int, most: int, hint: str = "") -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(f"{name}={shown(value)} is {kind_of(value)}: give a whole number.", option=name)
    if not least <= value <= most:
        raise InvalidOption(f"{name}={value} is out of range: give {least} to {most:,}{hint}.", option=name)
    return value


def _name(name: str, value: object) -> str:
    try:
        return check_name(name, value)
    except InvalidName as error:
        raise InvalidOption(str(error), option=name) from None


def _priority(name: str, value: object) -> int:
    return _whole(name, value, least=0, most=MAX_PRIORITY, hint=" (lower runs first)")


def _attempts(name: str, value: object) -> int:
    return _whole(name, value, least=1, most=MAX_ATTEMPTS)


def _job_id(name: str, value: object) -> int:
    return _whole(name, value, least=1, most=2**63 - 1)


def _timeout(name: str, value: object) -> float:
    return inf if value == inf else _positive(name, value)


def _positive(name: str, value: object) -> float:
    return _duration(name, value, positive=True)


def _duration(name: str, value: object, *, positive: bool = False) -> float:
    try:
        return duration_seconds(cast("Duration", value), name=name, positive=positive)
    except ValueError as error:
        raise InvalidOption(str(error), option=name) from None


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(f"{name}={shown(value)} is {kind_of(value)}: give True or False.", option=name)
    return value


def _on_duplicate(name: str, value: object) -> str:
    if value not in ("return", "replace", "raise"):
        raise InvalidOption(f'{name}={shown(value)}: give "return", "replace" or "raise".', option=name)
    return str(value)


def _debounce(name: str, value: object) -> Debounce:
    if not isinstance(value, Debounce):
        raise InvalidOption(f"{name}={shown(value)} is {kind_of(value)}: give Debounce(quiet, at_most).", option=name)
    return value


def _dedup_until(name: str, value: object) -> str:
    if value not in ("start", "end"):
        raise InvalidOption(f'{name}={shown(value)}: give "start" or "end".', option=name)
    return str(value)


def _connection(name: str, value: object) -> object:
    del name
    check_given(value)
    return value


def check_run_at(name: str, value: object) -> datetime:
    """The instant, or InvalidOption: aware, and from ten years ago to a hundred years ahead."""
    if not isinstance(value, datetime):
        raise InvalidOption(f"{name}={shown(value)} is {kind_of(value)}: give a datetime.", option=name)
    if value.utcoffset() is None:
        raise InvalidOption(f"{name}={value.isoformat()} has no time zone: use datetime.now(UTC).", option=name)
    now = datetime.now(UTC)
    if not now - PAST <= value <= now + FUTURE:
        raise InvalidOption(
            f"{name}={value.isoformat()} is out of range: give an instant from 10 years ago to 100 years ahead.", option=name
        )
    return value


def check_key(name: str, value: object) -> str:
    """A key or an id of the caller's, or InvalidOption: 1 to 255 characters that PostgreSQL can store."""
    problem = key_problem(value)
    if problem is None and name in ("correlation_id", "created_by") and not str(value).isprintable():
        problem = "has characters that cannot be printed"
    if problem:
        raise InvalidOption(f"{name}={shown(value)} {problem}.", option=name)
    return str(value)


def check_tags(name: str, value: object) -> tuple[str, ...]:
    """The tags, each once, or InvalidOption: at most 20 texts of 1 to 63 printable characters."""
    if isinstance(value, str) or not isinstance(value, (Sequence, AbstractSet)):
        raise InvalidOption(f'{name}={shown(value)} is {kind_of(value)}: give a list, as in {name}=["nightly"].', option=name)
    given: Sequence[Any] = sorted(value, key=str) if isinstance(value, AbstractSet) else value
    for tag in given:
        problem = key_problem(tag, at_most=MAX_TAG)
        if problem is None and (not tag.isprintable() or tag != tag.strip()):
            problem = "begins or ends with a space" if tag.isprintable() else "has characters that cannot be printed"
        if problem:
            raise InvalidOption(f"{name}= has {shown(tag)}, which {problem}.", option=name)
    tags: tuple[str, ...] = tuple(dict.fromkeys(given))
    if len(tags) > MAX_TAGS:
        raise InvalidOption(f"{name}= has {len(tags)} tags, at most {MAX_TAGS}.", option=name)
    return tags


_CHECKS: dict[str, Callable[[str, object], object]] = {
    "queue": _name,
    "lane": _name,
    "priority": _priority,
    "run_at": check_run_at,
    "delay": _duration,
    "max_attempts": _attempts,
    "timeout": _timeout,
    "parent_job_id": _job_id,
    "dedup_for": _positive,
    "notify": _flag,
    "on_duplicate": _on_duplicate,
    "expires": _positive,
    "debounce": _debounce,
    "dedup_until": _dedup_until,
    "keep_payload": _flag,
    "connection": _connection,
    "tags": check_tags,
}
