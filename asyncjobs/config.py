"""What an app is configured with: its queues and lanes, and its settings, checked as a whole."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, final

import msgspec

from asyncjobs.dsn import Dsn, resolve_dsn
from asyncjobs.errors import ConfigurationError, DuplicateName
from asyncjobs.model.backoff import Backoff
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.names import check_name, check_schema_name, kind_of
from asyncjobs.model.outcome import Duration

__all__ = ["Backoff", "Dsn", "Lane", "Queue", "Settings", "check_queues", "check_settings", "config_seconds", "resolve_dsn"]

MAX_CONCURRENCY = 10_000


def config_seconds(value: Duration, *, name: str, positive: bool = False) -> float:
    """The duration in seconds, or ConfigurationError."""
    try:
        return duration_seconds(value, name=name, positive=positive)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def _count(value: object, *, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{name}={value!r} is {kind_of(value)}: give a whole number.")
    if not least <= value <= most:
        raise ConfigurationError(f"{name}={value} is out of range: give {least:,} to {most:,}.")
    return value


@final
class Lane:
    """A share of a queue's slots that is kept for the jobs of one lane, and the timeout that they get by default."""

    __slots__ = ("slots", "timeout_seconds")

    def __init__(self, slots: int, *, timeout: Duration | None = None) -> None:
        self.slots = _count(slots, name="Lane(slots)", least=1, most=MAX_CONCURRENCY)
        self.timeout_seconds = None if timeout is None else config_seconds(timeout, name="Lane(timeout)", positive=True)

    def __repr__(self) -> str:
        return f"Lane({self.slots})" if self.timeout_seconds is None else f"Lane({self.slots}, timeout={self.timeout_seconds:g})"


@final
class Queue:
    """A line of jobs, and how many of them one runner works on at a time.

    `lanes` maps a lane to the slots kept for it; together they are at most `concurrency`. `prefetch` jobs are claimed beyond the
    free slots, which saves round trips for very short jobs. ConfigurationError for what cannot be.
    """

    __slots__ = ("concurrency", "lanes", "name", "prefetch")

    def __init__(
        self, name: str = "default", *, concurrency: int = 10, lanes: Mapping[str, int | Lane] | None = None, prefetch: int = 0
    ) -> None:
        self.name = check_name("queue", name)
        of = f'queue "{name}": '
        self.concurrency = _count(concurrency, name=of + "concurrency", least=1, most=MAX_CONCURRENCY)
        self.prefetch = _count(prefetch, name=of + "prefetch", least=0, most=MAX_CONCURRENCY)
        self.lanes: dict[str, Lane] = {
            check_name("lane", lane): slots if isinstance(slots, Lane) else Lane(slots) for lane, slots in (lanes or {}).items()
        }
        kept = sum(lane.slots for lane in self.lanes.values())
        if kept > self.concurrency:
            raise ConfigurationError(f"{of}its lanes keep {kept} slots, but concurrency is {self.concurrency}.")

    def __repr__(self) -> str:
        return f"Queue({self.name!r}, concurrency={self.concurrency}, lanes={self.lanes}, prefetch={self.prefetch})"


def check_queues(queues: object) -> dict[str, Queue]:
    """The queues by name, in order. ConfigurationError for none, for one that is not a Queue, and for a name given twice."""
    if isinstance(queues, str) or not isinstance(queues, Iterable):
        raise ConfigurationError(f"queues={queues!r} is not a list: write queues=[Queue({getattr(queues, 'name', queues)!r})].")
    known: dict[str, Queue] = {}
    for queue in queues:
        if not isinstance(queue, Queue):
            raise ConfigurationError(f"queues= has {queue!r}: write Queue({queue!r}).")
        if queue.name in known:
            raise DuplicateName("queue", queue.name, "queues=", "queues=")
        known[queue.name] = queue
    if not known:
        raise ConfigurationError("queues= is empty: an app has at least one Queue.")
    return known


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How an app behaves. Durations are seconds; None means: as the situation asks for."""

    schema: str = "asyncjobs"
    notify: Literal["auto", "listen", "poll"] = "auto"
    listen_dsn: str | None = None  # around a pooler
    pool_size: int = 2
    grace: float | None = None  # 10, in `run` 25
    connect_timeout: float = 10.0
    poll_interval: float | None = None  # 5, when polling 1
    heartbeat: float = 5.0
    runner_timeout: float = 30.0
    stall_after: float = 1.0
    stall_limit: float = 60.0
    promote_interval: float = 5.0
    rescue_interval: float = 5.0
    sweep_interval: float = 15.0
    batch: int = 100
    max_payload_bytes: int = 1 << 20
    max_result_bytes: int = 1 << 20
    max_depth: int = 200
    max_error_bytes: int = 8192
    max_errors: int = 10
    auto_migrate: bool = False
    listener_keepalive: float = 5.0
    connect_kwargs: Mapping[str, Any] = {}  # for asyncpg.connect


_POSITIVE = (
    "connect_timeout", "heartbeat", "runner_timeout", "stall_after", "stall_limit", "promote_interval", "rescue_interval",
    "sweep_interval",
    "listener_keepalive",
)  # fmt: skip
_OPTIONAL = {"grace": False, "poll_interval": True}  # name -> whether 0 is refused
_COUNTS = {
    "pool_size": (1, 100),
    "batch": (1, 10_000),
    "max_payload_bytes": (2, 1 << 27),
    "max_result_bytes": (4, 1 << 27),
    "max_depth": (1, 900),  # msgspec itself gives up near the interpreter's recursion limit
    "max_error_bytes": (256, 1 << 20),
    "max_errors": (1, 1000),
}


def check_settings(settings: Settings) -> Settings:
    """The settings, or ConfigurationError: each value by itself, then the pairs that only make sense in a ratio."""
    check_schema_name(settings.schema)
    if settings.notify not in ("auto", "listen", "poll"):
        raise ConfigurationError(f'notify={settings.notify!r} must be "auto", "listen" or "poll".')
    for name in _POSITIVE:
        config_seconds(getattr(settings, name), name=name, positive=True)
    for name, positive in _OPTIONAL.items():
        value = getattr(settings, name)
        if value is not None:
            config_seconds(value, name=name, positive=positive)
    for name, (least, most) in _COUNTS.items():
        _count(getattr(settings, name), name=name, least=least, most=most)
    _check_pairs(settings)
    return settings


def _check_pairs(settings: Settings) -> None:
    # A runner stops trusting itself at 5/6 of runner_timeout: two beats must fit in before, or one late beat costs every attempt.
    if settings.runner_timeout < 3 * settings.heartbeat:
        raise ConfigurationError(
            f"runner_timeout={settings.runner_timeout:g} must be at least three times heartbeat={settings.heartbeat:g}: "
            f"a runner is declared dead after that long without a beat."
        )
    if settings.stall_limit < 2 * settings.stall_after:
        raise ConfigurationError(
            f"stall_limit={settings.stall_limit:g} must be at least twice stall_after={settings.stall_after:g}: "
            f"a stalled loop is reported before the heartbeat stops."
        )
