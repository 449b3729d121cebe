"""The arguments of AsyncJobs as Settings."""

from collections.abc import Mapping
from typing import Any, TypedDict

from asyncjobs.config import Settings, Strategy, check_settings, config_seconds
from asyncjobs.dsn import parse_dsn
from asyncjobs.errors import ConfigurationError, did_you_mean
from asyncjobs.model.outcome import Duration


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
        values[name] = config_seconds(value, name=name) if name in _DURATIONS and value is not None else value
    if values.get("listen_dsn") is not None:
        values["listen_dsn"] = parse_dsn(values["listen_dsn"]).text
    return check_settings(Settings(**values))
