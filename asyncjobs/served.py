"""What one runner serves: the queues and types that were asked for, out of those that there are, and what holds them up."""

from collections.abc import Iterable, Mapping

from asyncjobs.config import Queue
from asyncjobs.errors import ConfigurationError, UnknownQueue, UnknownType, did_you_mean, listed
from asyncjobs.handlers import Handler


def served_queues(known: Mapping[str, Queue], asked: Iterable[str | Queue] | None) -> list[Queue]:
    """The queues to serve, all when none are asked for; a Queue asked for replaces its namesake, or is one more.

    UnknownQueue for a name that the app does not have.
    """
    if asked is None:
        return list(known.values())
    if isinstance(asked, str):
        raise ConfigurationError(f'queues="{asked}" is one text: write queues=["{asked}"].')
    served: dict[str, Queue] = {}
    for queue in asked:
        if isinstance(queue, str):
            if queue not in known:
                raise UnknownQueue(queue, known)
            served[queue] = known[queue]
        else:
            served[queue.name] = queue
    if not served:
        raise ConfigurationError("queues= is empty: leave it out to serve all queues.")
    return list(served.values())


def admit_to(known: dict[str, Queue], served: Iterable[Queue]) -> None:
    """From now on jobs are enqueued to these queues and lanes, too: what a runner was given is known to its app."""
    for queue in served:
        namesake = known.setdefault(queue.name, queue)
        if not queue.lanes.keys() <= namesake.admitted.keys():
            namesake.admitted = {**queue.lanes, **namesake.admitted}


def served_handlers(known: Mapping[str, Handler], asked: Iterable[str] | None) -> dict[str, Handler]:
    """The handlers to run by name and by alias, all when no types are asked for; never a stub's.

    UnknownType for a name that the app does not have, ConfigurationError for a stub's.
    """
    runnable = {name: handler for name, handler in known.items() if not handler.is_stub}
    if asked is None:
        return runnable
    if isinstance(asked, str):
        raise ConfigurationError(f'types="{asked}" is one text: write types=["{asked}"].')
    served: set[str] = set()
    for name in asked:
        if name not in known:
            raise UnknownType(name, known)
        if name not in runnable:
            raise ConfigurationError(f'job "{name}" is a stub: its handler runs in another service.')
        served.add(known[name].name)
    return {name: handler for name, handler in runnable.items() if handler.name in served}


def check_guarded(handler: Handler, breakers: Iterable[str]) -> None:
    """ConfigurationError for a type whose circuit breaker is not declared in its app: it would be held up by nothing."""
    known = list(breakers)
    if handler.breaker is not None and handler.breaker not in known:
        raise ConfigurationError(
            f'job "{handler.name}" ({handler.declared_at}): breaker="{handler.breaker}" is no circuit breaker of this app '
            f"({listed(known)}).{did_you_mean(handler.breaker, known)} "
            f'Declare it: router.circuit_breaker("{handler.breaker}").'
        )
