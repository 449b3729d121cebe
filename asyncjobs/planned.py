"""What is declared besides jobs. Duties and circuit breakers are checked here; breakers are refused at open: none runs yet."""

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, final

import msgspec

from asyncjobs.config import BUILT_IN, check_strategy, config_seconds
from asyncjobs.errors import ConfigurationError, InvalidHandler, UsageError
from asyncjobs.model.names import check_name
from asyncjobs.model.outcome import Duration


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One declaration that is kept for later."""

    what: Literal["schedule", "duty", "circuit breaker"]
    name: str
    declared_at: str
    details: dict[str, Any] = {}


def refuse_planned(planned: Iterable[Planned]) -> None:
    """UsageError when anything was declared that would not be done: silence would be worse."""
    for one in planned:
        if one.what != "circuit breaker":
            continue
        raise UsageError(
            f'{one.what} "{one.name}" ({one.declared_at}): {_PLURAL[one.what]} are not supported yet, '
            "and it would never be obeyed: take the declaration out."
        )


_PLURAL = {"circuit breaker": "circuit breakers"}


def check_duty(name: str, function: object, every: Duration, strategy: object) -> dict[str, Any]:
    """A duty's details; ConfigurationError when one of them cannot be meant."""
    check_name("duty", name)
    if name in BUILT_IN:
        raise ConfigurationError(f'duty "{name}" is built in: give another name.')
    check_strategy(name, strategy)
    return {
        "every": config_seconds(every, name=f'duty "{name}": every', positive=True),
        "strategy": strategy,
        "function": function,
    }


def takes_context(name: str, function: Callable[..., Any]) -> bool:
    """Whether the duty's function wants its context; InvalidHandler when it wants something else."""
    parameters = list(inspect.signature(function).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not inspect.iscoroutinefunction(function):
        raise InvalidHandler(name, "a duty is an `async def`.")
    if len(parameters) > 1 or any(one.kind not in positional for one in parameters):
        raise InvalidHandler(name, "a duty takes its DutyContext, or nothing.")
    return bool(parameters)


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
