"""The declarations of an app, held together once, at its first open; after it there are no more."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from asyncjobs.circuit_breaker import CircuitBreaker, breakers_of
from asyncjobs.declare.definition import JobDefinition
from asyncjobs.declare.new_job import check_placed
from asyncjobs.declare.registry import Declarations
from asyncjobs.declare.schedules import made_schedules
from asyncjobs.errors import ConfigurationError, did_you_mean, listed
from asyncjobs.model.schedule import Schedule
from asyncjobs.settings import Queue, Settings


class Declared(NamedTuple):
    """All that an app's routers declare."""

    handlers: dict[str, JobDefinition]  # by name and by alias
    breakers: dict[str, CircuitBreaker]  # by service
    schedules: list[Schedule]


def close_declarations(declarations: Declarations, queues: Mapping[str, Queue], settings: Settings) -> Declared:
    """End the declarations. ConfigurationError of all kinds: unknown queues, lanes and breakers, annotations that cannot be
    resolved, schedules whose job cannot be enqueued. After an error the declarations are open as before.
    """
    definitions = declarations.all_handlers()
    breakers = breakers_of(declarations)
    for definition in definitions.values():
        definition.resolve()
        check_placed(definition, queues)
        _check_guarded(definition, breakers)
    schedules = made_schedules(declarations.all_planned(), definitions, queues, settings)
    declarations.is_closed = True
    return Declared(definitions, breakers, schedules)


def _check_guarded(definition: JobDefinition, breakers: Iterable[str]) -> None:
    """ConfigurationError for a type whose circuit breaker is not declared in its app: it would be held up by nothing."""
    known = list(breakers)
    if definition.breaker is not None and definition.breaker not in known:
        raise ConfigurationError(
            f'job "{definition.name}" ({definition.declared_at}): breaker="{definition.breaker}" is no circuit breaker of '
            f"this app ({listed(known)}).{did_you_mean(definition.breaker, known)} "
            f'Declare it: router.circuit_breaker("{definition.breaker}").'
        )
