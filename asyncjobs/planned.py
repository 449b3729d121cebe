"""Schedules, duties and circuit breakers: declared and checked here, and refused at open, since nothing runs them yet."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, final

import msgspec

from asyncjobs.config import config_seconds
from asyncjobs.errors import ConfigurationError, InvalidSchedule, UsageError
from asyncjobs.model.names import check_name, kind_of
from asyncjobs.model.outcome import Duration

Misfire = Literal["skip", "one", "all"]
Overlap = Literal["allow", "skip", "queue"]
Strategy = Literal["lease", "advisory", "everyone", "share"]
_CRON_FIELDS = 5


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One declaration that is kept for later."""

    what: Literal["schedule", "duty", "circuit breaker"]
    name: str
    declared_at: str
    details: dict[str, Any] = {}


def refuse_planned(planned: Iterable[Planned]) -> None:
    """UsageError when anything was declared that would not be done: silence would be worse."""
    for one in planned:
        raise UsageError(
            f'{one.what} "{one.name}" ({one.declared_at}): {_PLURAL[one.what]} are not supported yet, '
            "and it would never be obeyed: take the declaration out."
        )


_PLURAL = {"schedule": "schedules", "duty": "duties", "circuit breaker": "circuit breakers"}


def check_cron(name: str, expression: object) -> str:
    """The expression, or InvalidSchedule when it cannot be one: five fields, or a word such as @daily."""
    if not isinstance(expression, str):
        raise InvalidSchedule(name, f'{expression!r} is {kind_of(expression)}: give an expression such as "0 3 * * *".')
    if not expression.startswith("@") and len(expression.split()) != _CRON_FIELDS:
        raise InvalidSchedule(
            name,
            f'"{expression}": {len(expression.split())} fields, not 5 (minute, hour, day of the month, month, day of the week).',
        )
    return expression


def check_schedule(name: str, *, timezone: object, misfire: object, overlap: object) -> None:
    """InvalidSchedule or InvalidName when one of these cannot be meant."""
    check_name("schedule", name)
    if not isinstance(timezone, str) or not timezone:
        raise InvalidSchedule(name, f'timezone={timezone!r}: give a name such as "Europe/Helsinki".')
    if misfire not in ("skip", "one", "all"):
        raise InvalidSchedule(name, f'misfire={misfire!r}: give "skip", "one" or "all".')
    if overlap not in ("allow", "skip", "queue"):
        raise InvalidSchedule(name, f'overlap={overlap!r}: give "allow", "skip" or "queue".')


def check_times(name: str, cron: object, every: Duration | None) -> dict[str, Any]:
    """When a schedule ticks; InvalidSchedule unless exactly one of both is given."""
    if (cron is None) == (every is None):
        raise InvalidSchedule(name, "give cron or every, one of both.")
    if every is None:
        return {"cron": check_cron(name, cron)}
    try:
        return {"every": config_seconds(every, name="every", positive=True)}
    except ConfigurationError as error:
        raise InvalidSchedule(name, str(error)) from None


def check_duty(name: str, function: object, every: Duration, strategy: object) -> dict[str, Any]:
    """A duty's details; ConfigurationError when one of them cannot be meant."""
    check_name("duty", name)
    if strategy not in ("lease", "advisory", "everyone", "share"):
        raise ConfigurationError(f'duty "{name}": strategy={strategy!r}: give "lease", "advisory", "everyone" or "share".')
    return {
        "every": config_seconds(every, name=f'duty "{name}": every', positive=True),
        "strategy": strategy,
        "function": function,
    }


@final
class CircuitBreaker(AbstractAsyncContextManager[None]):
    """Fails fast while a service is down: `async with breaker:` around each call of it."""

    def __init__(self, service: str) -> None:
        self.service = service

    async def __aenter__(self) -> None:
        raise UsageError(f'circuit breaker "{self.service}": circuit breakers are not supported yet.')

    async def __aexit__(self, *exc: object) -> None:
        return None


def check_breaker(
    service: str, *, failure_threshold: int, success_threshold: int, probes: int, open_for: Duration
) -> dict[str, Any]:
    """A breaker's details; ConfigurationError when one of them cannot be meant."""
    check_name("circuit breaker", service)
    counts = {"failure_threshold": failure_threshold, "success_threshold": success_threshold, "probes": probes}
    given: dict[str, object] = {**counts}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigurationError(f'circuit breaker "{service}": {name}={value!r} must be a whole number of at least 1.')
    return {**counts, "open_for": config_seconds(open_for, name=f'circuit breaker "{service}": open_for', positive=True)}
