"""What an app is configured with: its queues and lanes, and its settings, checked as a whole."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Literal, TypedDict, final

import msgspec

from asyncjobs.dsn import Dsn, parse_dsn, resolve_dsn
from asyncjobs.errors import ConfigurationError, DuplicateName, did_you_mean
from asyncjobs.model.backoff import Backoff
from asyncjobs.model.discreet import discreet
from asyncjobs.model.duration import LONGEST_SECONDS, duration_seconds
from asyncjobs.model.lease import LeaseTimes
from asyncjobs.model.names import check_name, check_schema_name, kind_of, shown
from asyncjobs.model.outcome import Duration
from asyncjobs.model.retrying import BackoffFunction, Errors, Retrying, checked_retrying

__all__ = ["Backoff", "Dsn", "Lane", "Queue", "Settings", "check_queues", "check_settings", "config_seconds", "resolve_dsn"]

MAX_CONCURRENCY = 10_000
_LEAST_AGEING, _MOST_AGEING = 1e-6, 7 * 86_400.0
_REACH_SECONDS = 10.0
MAX_ATTEMPTS_DEFAULT = 3  # of the table, too

#: Who does a duty: `runtime/duties.py`.
Strategy = Literal["lease", "advisory", "everyone", "share"]


def config_seconds(value: Duration, *, name: str, positive: bool = False) -> float:
    """The duration in seconds, or ConfigurationError."""
    try:
        return duration_seconds(value, name=name, positive=positive)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def config_timeout(value: Duration, *, name: str) -> float:
    """The timeout in seconds, infinite for none; or ConfigurationError."""
    return inf if value == inf else config_seconds(value, name=name, positive=True)


def config_keep(value: Duration, *, name: str) -> float:
    """For how long something is kept, in seconds; infinite is a century. ConfigurationError."""
    return LONGEST_SECONDS if value == inf else config_seconds(value, name=name)


def config_flag(value: object, *, name: str) -> bool:
    """True or False, or ConfigurationError."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name}={shown(value)} must be True or False.")
    return value


def config_count(value: object, *, name: str, least: int, most: int) -> int:
    """The number, or ConfigurationError."""
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
        self.slots = config_count(slots, name="Lane(slots)", least=1, most=MAX_CONCURRENCY)
        self.timeout_seconds = None if timeout is None else config_seconds(timeout, name="Lane(timeout)", positive=True)

    def __repr__(self) -> str:
        return f"Lane({self.slots})" if self.timeout_seconds is None else f"Lane({self.slots}, timeout={self.timeout_seconds:g})"


@final
class Queue:
    """A line of jobs, and how many of them one runner works on at a time.

    `lanes` maps a lane to the slots kept for it; together they are at most `concurrency`. `prefetch` jobs, at most 10,000, are
    claimed ahead of the free slots, which saves round trips for very short jobs; `runtime/stock.py` says what that means for
    them. `total` of its jobs run at once over all runners, whatever each has slots for. With `ageing` a level of priority is
    worth so long a wait, at most a week, so that no job waits for good behind more urgent ones. ConfigurationError for what
    cannot be.
    """

    __slots__ = ("admitted", "ageing_seconds", "concurrency", "lanes", "name", "prefetch", "total")

    def __init__(
        self,
        name: str = "default",
        *,
        concurrency: int = 10,
        lanes: Mapping[str, int | Lane] | None = None,
        prefetch: int = 0,
        total: int | None = None,
        ageing: Duration | None = None,
    ) -> None:
        self.name = check_name("queue", name)
        of = f'queue "{name}": '
        self.concurrency = config_count(concurrency, name=of + "concurrency", least=1, most=MAX_CONCURRENCY)
        self.prefetch = config_count(prefetch, name=of + "prefetch", least=0, most=MAX_CONCURRENCY)
        self.total = None if total is None else config_count(total, name=of + "total", least=1, most=2**31 - 1)
        self.ageing_seconds = None if ageing is None else config_seconds(ageing, name=of + "ageing", positive=True)
        if ageing is not None and not _LEAST_AGEING <= (self.ageing_seconds or 0) <= _MOST_AGEING:
            raise ConfigurationError(f"{of}ageing={ageing} is out of range: give a microsecond to a week.")
        self.lanes: dict[str, Lane] = {
            check_name("lane", lane): slots if isinstance(slots, Lane) else Lane(slots) for lane, slots in (lanes or {}).items()
        }
        #: The lanes that a job may be put on in this app: its own, and those with which a runner was given a queue of this name.
        self.admitted: Mapping[str, Lane] = self.lanes
        kept = sum(lane.slots for lane in self.lanes.values())
        if kept > self.concurrency:
            raise ConfigurationError(f"{of}its lanes keep {kept} slots, but concurrency is {self.concurrency}.")

    def __repr__(self) -> str:
        more = "" if self.total is None else f", total={self.total}"
        more += "" if self.ageing_seconds is None else f", ageing={self.ageing_seconds:g}"
        return f"Queue({self.name!r}, concurrency={self.concurrency}, lanes={self.lanes}, prefetch={self.prefetch}{more})"


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


#: Who does what is built in, unless `strategies=` says otherwise. Jobs start some 10 ms after they are due whoever
#: promotes (measured), but under a lease one that becomes due during a fail-over would start up to 15 s late.
BUILT_IN: Mapping[str, Strategy] = {
    "promote": "everyone",
    "rescue": "lease",
    "sweep": "lease",
    "prune": "lease",
    "cron": "lease",
    "rollup": "lease",
    "pauses": "lease",
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How an app behaves. Durations are seconds; None means: as the situation asks for."""

    schema: str = "asyncjobs"
    notify: Literal["auto", "listen", "poll"] = "auto"
    listen_dsn: str | None = None  # around a pooler
    pool_size: int = 2
    grace: float | None = None  # 10, in `run` 25
    cleanup: float | None = None  # of the grace, for handlers that are told to end: a fifth, at most 5
    hook_timeout: float = 30.0  # of each hook round an attempt
    connect_timeout: float | None = 10.0  # of opening; None: waits for as long as it takes
    poll_interval: float | None = None  # 5, when polling 1
    heartbeat: float = 5.0
    runner_timeout: float = 30.0
    stall_after: float = 1.0
    stall_limit: float = 60.0
    promote_interval: float = 5.0
    rescue_interval: float = 5.0
    sweep_interval: float = 15.0
    prune_interval: float = 60.0
    pauses_interval: float = 15.0
    schedule_interval: float = 15.0  # looks at schedules besides their ticks
    metrics_interval: float = 30.0  # of roll-ups
    strategies: Mapping[str, Strategy] = {}  # of duties that are built in: promote, rescue, sweep, prune, cron, rollup, pauses
    lease_expiry: float | None = None  # a third of runner_timeout, at least 1; the three below are shares of it
    lease_renew: float | None = None  # a fifth
    lease_trust: float | None = None  # a half
    lease_observe: float | None = None  # three fifths
    lease_rotation: float | None = None  # hand duties over after so long
    keep_completed: float = 7 * 86_400.0
    keep_cancelled: float = 7 * 86_400.0
    keep_dead: float = 30 * 86_400.0  # since the dead letter was acknowledged; before that for ever
    keep_runners: float = 7 * 86_400.0  # that have ended
    keep_audit: float = 90 * 86_400.0  # what operators did
    keep_metrics: float = 90 * 86_400.0
    keep_types: Mapping[str, Duration] = {}  # completed and cancelled jobs of these types
    batch: int = 100
    max_payload_bytes: int = 1 << 20
    max_result_bytes: int = 1 << 20
    max_depth: int = 200
    max_error_bytes: int = 8192
    max_errors: int = 10
    auto_migrate: bool = False
    listener_keepalive: float = 10.0
    connect_kwargs: Mapping[str, Any] = {}  # for asyncpg.connect
    # Of jobs, where neither the enqueue nor the type nor its router (nor, for the timeout, its lane) says more.
    keep_payload: bool = True  # also of those that have completed
    max_attempts: int = MAX_ATTEMPTS_DEFAULT
    timeout: float | None = None
    backoff: Backoff | BackoffFunction | None = None  # Backoff()
    retry_on: Errors | None = None
    give_up_on: Errors | None = None

    @property
    def has_job_defaults(self) -> bool:
        """Whether rows of jobs have other defaults than their table."""
        return self.max_attempts != MAX_ATTEMPTS_DEFAULT or self.timeout is not None

    @property
    def retrying(self) -> Retrying:
        """What is said of failed attempts."""
        return checked_retrying("AsyncJobs: ", backoff=self.backoff, retry_on=self.retry_on, give_up_on=self.give_up_on)

    @property
    def reach_seconds(self) -> float:
        """How long a call tries to reach the database, once it was there: a caller waits for an answer, not for a start."""
        return _REACH_SECONDS if self.connect_timeout is None else self.connect_timeout

    @property
    def lease_times(self) -> LeaseTimes:
        """The times of leases: as given, else shares of their expiry."""
        expiry = max(self.runner_timeout / 3, 1.0) if self.lease_expiry is None else self.lease_expiry
        return LeaseTimes(
            renew_seconds=expiry / 5 if self.lease_renew is None else self.lease_renew,
            trust_seconds=expiry / 2 if self.lease_trust is None else self.lease_trust,
            observe_seconds=expiry * 0.6 if self.lease_observe is None else self.lease_observe,
            expiry_seconds=expiry,
        )

    def __repr__(self) -> str:
        return discreet(self, "listen_dsn", "connect_kwargs")


_POSITIVE = (
    "hook_timeout", "heartbeat", "runner_timeout", "stall_after", "stall_limit", "promote_interval", "rescue_interval",
    "sweep_interval", "prune_interval", "pauses_interval", "schedule_interval", "metrics_interval",
    "keep_metrics", "listener_keepalive",
)  # fmt: skip
#: 0: it goes with the next pass of the pruner; infinite: never.
_KEPT = ("keep_completed", "keep_cancelled", "keep_dead", "keep_runners", "keep_audit")
#: name -> whether 0 is refused
_OPTIONAL = {
    "grace": False, "cleanup": False, "connect_timeout": True, "poll_interval": True, "lease_expiry": True, "lease_renew": True,
    "lease_trust": True, "lease_observe": True, "lease_rotation": True,
}  # fmt: skip
_COUNTS = {
    "pool_size": (1, 100),
    "batch": (1, 10_000),
    "max_payload_bytes": (2, 1 << 27),
    "max_result_bytes": (4, 1 << 27),
    "max_depth": (1, 900),  # msgspec itself gives up near the interpreter's recursion limit
    "max_error_bytes": (256, 1 << 20),
    "max_errors": (1, 1000),
    "max_attempts": (1, 2**31 - 1),
}


def check_settings(settings: Settings) -> Settings:
    """The settings, or ConfigurationError: each value by itself, then the pairs that only make sense in a ratio."""
    check_schema_name(settings.schema)
    if settings.notify not in ("auto", "listen", "poll"):
        raise ConfigurationError(f'notify={settings.notify!r} must be "auto", "listen" or "poll".')
    for name in _POSITIVE:
        config_seconds(getattr(settings, name), name=name, positive=True)
    for name in _KEPT:
        config_keep(getattr(settings, name), name=name)
    for name, positive in _OPTIONAL.items():
        value = getattr(settings, name)
        if value is not None:
            config_seconds(value, name=name, positive=positive)
    for name, (least, most) in _COUNTS.items():
        config_count(getattr(settings, name), name=name, least=least, most=most)
    config_flag(settings.keep_payload, name="keep_payload")
    if settings.timeout is not None:
        config_timeout(settings.timeout, name="timeout")
    _ = settings.retrying
    _check_pairs(settings)
    _check_leases(settings.lease_times)
    _check_duties(settings)
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


def _check_leases(times: LeaseTimes) -> None:
    # Two renewals have to fit into the trust, one of which may be lost; and clocks may differ by a fifth in speed.
    renew, trust, observe, expiry = times.renew_seconds, times.trust_seconds, times.observe_seconds, times.expiry_seconds
    if trust < 2 * renew:
        raise ConfigurationError(f"lease_trust={trust:g} must be at least twice lease_renew={renew:g}: a renewal may be lost.")
    if observe < 1.2 * trust:
        raise ConfigurationError(
            f"lease_observe={observe:g} must be at least 1.2 times lease_trust={trust:g}: a holder stops before others take over."
        )
    if expiry < observe:
        raise ConfigurationError(
            f"lease_expiry={expiry:g} must be at least lease_observe={observe:g}: a lease is observed before it is taken over."
        )


def _check_duties(settings: Settings) -> None:
    for name in ("strategies", "keep_types", "connect_kwargs"):
        if not isinstance(getattr(settings, name), Mapping):
            raise ConfigurationError(f"{name}={shown(getattr(settings, name))} is no mapping: write {name}={{…}}.")
    for name, strategy in settings.strategies.items():
        if name not in BUILT_IN:
            raise ConfigurationError(
                f'strategies= names "{name}": the duties that are built in are {", ".join(sorted(BUILT_IN))}.'
            )
        check_strategy(name, strategy)
    for name, keep in settings.keep_types.items():
        config_keep(keep, name=f'keep_types["{name}"]')


def check_strategy(duty: str, strategy: object) -> None:
    """ConfigurationError for what is no strategy."""
    if strategy not in ("lease", "advisory", "everyone", "share"):
        raise ConfigurationError(f'duty "{duty}": strategy={strategy!r}: give "lease", "advisory", "everyone" or "share".')


class MoreSettings(TypedDict, total=False):
    """Settings that few need. Durations are seconds or timedeltas; `Settings` has the defaults."""

    heartbeat: Duration
    runner_timeout: Duration
    stall_after: Duration
    stall_limit: Duration
    promote_interval: Duration
    rescue_interval: Duration
    sweep_interval: Duration
    prune_interval: Duration
    pauses_interval: Duration
    schedule_interval: Duration
    metrics_interval: Duration
    strategies: Mapping[str, Strategy]
    lease_expiry: Duration | None
    cleanup: Duration | None
    hook_timeout: Duration
    lease_renew: Duration | None
    lease_trust: Duration | None
    lease_observe: Duration | None
    lease_rotation: Duration | None
    keep_completed: Duration
    keep_cancelled: Duration
    keep_dead: Duration
    keep_runners: Duration
    keep_audit: Duration
    keep_metrics: Duration
    keep_types: Mapping[str, Duration]
    listener_keepalive: Duration
    batch: int
    max_payload_bytes: int
    max_result_bytes: int
    max_depth: int
    max_error_bytes: int
    max_errors: int
    connect_kwargs: Mapping[str, Any]
    max_attempts: int
    timeout: Duration | None
    backoff: Backoff | BackoffFunction | None
    retry_on: Errors | None
    give_up_on: Errors | None
    keep_payload: bool


_DURATIONS = frozenset(
    {"grace", "connect_timeout", "poll_interval"}
    | {name for name, kind in MoreSettings.__annotations__.items() if kind in {Duration, Duration | None}}
)


def make_settings(given: dict[str, Any]) -> Settings:
    """The settings, checked by themselves and against each other; ConfigurationError."""
    known = set(Settings.__struct_fields__)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise ConfigurationError(f"AsyncJobs has no setting {name}=.{did_you_mean(name, known)}")
        to_seconds = config_timeout if name == "timeout" else config_keep if name in _KEPT else config_seconds
        values[name] = to_seconds(value, name=name) if name in _DURATIONS and value is not None else value
    if values.get("listen_dsn") is not None:
        values["listen_dsn"] = parse_dsn(values["listen_dsn"]).text
    return check_settings(Settings(**values))
