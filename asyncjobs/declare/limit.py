"""How many jobs run at once, and how many start in a time, over all processes: `Limit` and `Rate`, as a program declares them.

What they mean is said in `store/routines/limits`; here is what can be meant.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, final

from asyncjobs.declare.key_rule import KeyRule
from asyncjobs.errors import ConfigurationError
from asyncjobs.model.duration import LONGEST_SECONDS
from asyncjobs.model.names import check_name, kind_of, shown
from asyncjobs.model.outcome import Duration
from asyncjobs.settings import Queue, config_count, config_seconds

_MOST: Final = 2**31 - 1
#: Instants are kept to the microsecond: what comes more often than that by far would be cut too roughly.
_LEAST_SECONDS: Final = 1e-5
_HEAVIEST: Final = 1_000_000.0

By = str | Callable[..., str | None]


@final
class Rate:
    """`count` starts in `per` (seconds or a timedelta), evenly, and up to `burst` of them at once: in any span W at most
    `burst + W * count / per`. `burst` is a tenth of the count unless given, at least 2. ConfigurationError for what cannot be.
    """

    __slots__ = ("burst", "count", "per_seconds")

    def __init__(self, count: int, *, per: Duration | None = None, burst: int | None = None) -> None:
        self.count = config_count(count, name="Rate(count)", least=1, most=_MOST)
        if per is None:
            raise ConfigurationError(f"Rate({count}) has no time: write Rate({count}, per=60) for {count} starts a minute.")
        self.per_seconds = config_seconds(per, name="Rate(per)", positive=True)
        if self.every_seconds < _LEAST_SECONDS:
            raise ConfigurationError(f"Rate({count}, per={self.per_seconds:g}) is more than 100,000 starts a second.")
        self.burst = max(2, count // 10) if burst is None else config_count(burst, name="Rate(burst)", least=1, most=_MOST)
        if self.burst * self.every_seconds > LONGEST_SECONDS:  # an instant that far ahead may be none that the database has
            raise ConfigurationError(f"{self!r} takes more than 100 years for its burst: give a smaller one.")

    @property
    def every_seconds(self) -> float:
        """From one start to the next."""
        return self.per_seconds / self.count

    def __repr__(self) -> str:
        return f"Rate({self.count}, per={self.per_seconds:g}, burst={self.burst})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rate) and (other.count, other.per_seconds, other.burst) == (
            self.count,
            self.per_seconds,
            self.burst,
        )

    def __hash__(self) -> int:
        return hash((self.count, self.per_seconds, self.burst))


def config_weight(value: object, *, name: str) -> float:
    """The weight, or ConfigurationError. (How far a key was served is a sum of what is one by it.)"""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 / _HEAVIEST <= value <= _HEAVIEST:
        raise ConfigurationError(f"{name}={shown(value)} is out of range: give a number from 0.000001 to 1,000,000.")
    return float(value)


@final
class Limit:
    """A limit of jobs over all processes, given to job types as `limit=`; several may share one.

    `total` of its jobs run at once. With `by`, a template over the handler's arguments ("tenant_{tenant}") or a plain function of
    them, each has a key: `each` of one key run at once, `rate` is that of each key, and keys are served in turn. A job whose
    function gives None counts for the limit's own key. `weight`: how much of a turn its keys get beside those of other limits.
    ConfigurationError for what cannot be.
    """

    __slots__ = ("by", "each", "name", "rate", "total", "weight")

    def __init__(
        self,
        name: str,
        *,
        total: int | None = None,
        each: int | None = None,
        by: By | None = None,
        rate: Rate | None = None,
        weight: float = 1.0,
    ) -> None:
        self.name = check_name("limit", name)
        of = f'limit "{name}": '
        if ":" in name:
            raise ConfigurationError(f"{of}a colon ends the name of a limit in its keys: leave it out.")
        if total is None and each is None and rate is None:
            raise ConfigurationError(f"{of}it limits nothing: give total=, each= or rate=.")
        self.total = None if total is None else config_count(total, name=f"{of}total", least=1, most=_MOST)
        self.each = None if each is None else config_count(each, name=f"{of}each", least=1, most=_MOST)
        if each is not None and by is None:
            raise ConfigurationError(f"{of}each={each} is of a key, and it has none: give by=, or total={each}.")
        said: Any = rate  # whatever a type checker would say
        if said is not None and not isinstance(said, Rate):
            raise ConfigurationError(f"{of}rate={shown(said)} is {kind_of(said)}: write rate=Rate(600, per=60).")
        if by is not None and not isinstance(by, str) and not callable(by):
            raise ConfigurationError(
                f'{of}by={shown(by)} is {kind_of(by)}: give a template such as "tenant_{{tenant}}", or a function.'
            )
        self.by, self.rate, self.weight = by, rate, config_weight(weight, name=f"{of}weight")

    def rule_for(self, type: str, function_name: str) -> KeyRule:
        """How jobs of a type get their keys."""
        rule = KeyRule(type, self.by if isinstance(self.by, str) else None, function_name=function_name, option="by")
        if self.by is not None and not isinstance(self.by, str):
            rule.set_function(self.by)
        return rule

    def key(self, part: str | None) -> str:
        """The key as jobs have it."""
        return self.name if part is None else f"{self.name}:{part}"

    @property
    def values(self) -> dict[str, Any]:
        """What the database is told."""
        values: dict[str, Any] = {"total": self.total, "each": self.each, "weight": None if self.weight == 1 else self.weight}
        if self.rate is not None:
            values |= {"every": self.rate.every_seconds, "burst": self.rate.burst}
        return {name: value for name, value in values.items() if value is not None}

    def __repr__(self) -> str:
        given = {"total": self.total, "each": self.each, "by": self.by, "rate": self.rate}
        said = "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)
        return f"Limit({self.name!r}{said})"


class Limited(Protocol):
    """What is asked of a job type here."""

    declared_at: str
    limit: Limit | None


def check_limits(handlers: Mapping[str, Limited]) -> None:
    """ConfigurationError when two limits of one name differ."""
    known: dict[str, tuple[Limit, str]] = {}
    for handler in handlers.values():
        if handler.limit is None:
            continue
        limit, place = known.setdefault(handler.limit.name, (handler.limit, handler.declared_at))
        if limit.values != handler.limit.values:
            raise ConfigurationError(
                f'two limits are called "{limit.name}", and differ: {limit!r} ({place}) and {handler.limit!r} '
                f"({handler.declared_at}). Give both types the same one, or another name to one of them."
            )


def declared_limits(handlers: Mapping[str, Limited], queues: Iterable[Queue]) -> Sequence[Mapping[str, Any]]:
    """What a runner tells the database of limits: those of its types, and the totals of its queues."""
    limits = {handler.limit.name: handler.limit.values for handler in handlers.values() if handler.limit is not None}
    totals: dict[str, dict[str, Any]] = {queue.name: {} if queue.total is None else {"total": queue.total} for queue in queues}
    return [
        {"kind": kind, "name": name, "values": values}
        for kind, found in (("limit", limits), ("queue", totals))
        for name, values in sorted(found.items())
    ]
