"""What is declared besides jobs: schedules, duties and circuit breakers. Duties are checked here."""

import inspect
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from asyncjobs.errors import ConfigurationError, InvalidHandler
from asyncjobs.model.names import check_name
from asyncjobs.model.outcome import Duration
from asyncjobs.settings import BUILT_IN, check_strategy, config_seconds


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One declaration that is kept for later."""

    what: Literal["schedule", "duty", "circuit breaker"]
    name: str
    declared_at: str
    details: dict[str, Any] = {}


def check_duty(name: str, every: Duration, strategy: object) -> dict[str, Any]:
    """A duty's details; ConfigurationError when one of them cannot be meant."""
    check_name("duty", name)
    if name in BUILT_IN:
        raise ConfigurationError(f'duty "{name}" is built in: give another name.')
    check_strategy(name, strategy)
    return {"every": config_seconds(every, name=f'duty "{name}": every', positive=True), "strategy": strategy}


def takes_context(name: str, function: Callable[..., Any]) -> bool:
    """Whether the duty's function wants its context; InvalidHandler when it wants something else."""
    parameters = list(inspect.signature(function).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not inspect.iscoroutinefunction(function):
        raise InvalidHandler(name, "a duty is an `async def`.")
    if len(parameters) > 1 or any(one.kind not in positional for one in parameters):
        raise InvalidHandler(name, "a duty takes its DutyContext, or nothing.")
    return bool(parameters)
