"""The options of one enqueue: what may be said, and whether it can be meant."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypedDict, cast

import msgspec

from asyncjobs.connections import Connection, check_given
from asyncjobs.errors import InvalidName, InvalidOption, did_you_mean
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.names import check_name, key_problem, kind_of, shown
from asyncjobs.model.outcome import Duration

MAX_PRIORITY = 32_767
MAX_ATTEMPTS = 2**31 - 1
PAST = timedelta(days=10 * 366)
FUTURE = timedelta(days=100 * 366)


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


def check_together(checked: Checked) -> None:
    """What an option needs another for; asked when the job is made, since options may come in several steps."""
    if checked.dedup_key is None:
        for name in ("dedup_for", "on_duplicate"):
            if getattr(checked, name) is not None:
                raise InvalidOption(f"{name}={getattr(checked, name)!r} needs a dedup_key: give one.", option=name)


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


_CHECKS: dict[str, Callable[[str, object], object]] = {
    "queue": _name,
    "lane": _name,
    "priority": _priority,
    "run_at": check_run_at,
    "delay": _duration,
    "max_attempts": _attempts,
    "timeout": _positive,
    "parent_job_id": _job_id,
    "dedup_for": _positive,
    "notify": _flag,
    "on_duplicate": _on_duplicate,
    "connection": _connection,
}
