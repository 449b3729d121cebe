"""Errors of jobs in Sentry: once a job is given up, with what is needed to find it.

What the SDK captures in an attempt by itself (a handler's own `capture_message`, an error that it logs) carries the tags
`job_type` and `queue` and the job's ids, too: each attempt has an isolation scope of its own. The line `asyncjobs.job.died`,
which the SDK takes from `logging` by default, is the same exception, and its DedupeIntegration drops it.

Payloads are not sent, nor are they by way of local variables, which the SDK takes of all frames by default: they are left out of
what is captured in an attempt (always, where its type has `redact=`), and of asyncjobs' own frames wherever (an enqueue has the
payload in its arguments). What an
exception's message says, and what a handler reports itself, is yours.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import sentry_sdk
from sentry_sdk.scope import add_global_event_processor, global_event_processors

from asyncjobs.app import AsyncJobs
from asyncjobs.model.redaction import Scrubbed
from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted

_DEAD: Final = frozenset({"dead"})
_FAILED: Final = frozenset({"dead", "retry"})


def setup(jobs: AsyncJobs, /, *, retries: bool = False, local_variables: bool = False) -> None:
    """Report the exceptions that made jobs dead; with `retries` also those after which a job is tried again, as warnings.

    Without `local_variables` those are left out: they hold payloads. `sentry_sdk.init` is yours; without it nothing is sent.
    """
    reported = _FAILED if retries else _DEAD

    def ended(event: AttemptEnded) -> None:
        if event.outcome in reported and event.error is not None:
            tags = {"job_type": event.type, "queue": event.queue, "outcome": event.outcome}
            with sentry_sdk.new_scope() as scope:
                scope.set_level("error" if event.outcome == "dead" else "warning")
                scope.set_tags(tags)
                if not local_variables or isinstance(event.error, Scrubbed):
                    scope.add_event_processor(_without_variables)
                scope.capture_exception(event.error)

    def started(event: AttemptStarted) -> None:
        scope = _tag(event)
        definition = jobs.handlers.get(event.type)
        if not local_variables or (definition is not None and definition.redact):
            scope.add_event_processor(_without_variables)

    if not local_variables and _without_ours not in global_event_processors:
        add_global_event_processor(_without_ours)
    jobs.events.subscribe(started, AttemptStarted)
    jobs.events.subscribe(ended, AttemptEnded)


def _tag(event: AttemptStarted) -> sentry_sdk.Scope:
    scope = sentry_sdk.get_isolation_scope()  # the attempt's own: its context was empty
    scope.set_tags({"job_type": event.type, "queue": event.queue})
    scope.set_context("job", {"id": event.job_id, "attempt": event.attempt, "correlation_id": event.correlation_id})
    scope.set_transaction_name(f"job {event.type}", source="task")
    return scope


def _without_variables(event: Any, _hint: Any) -> Any:
    for frame in _frames(event):
        frame.pop("vars", None)
    return event


def _without_ours(event: Any, _hint: Any) -> Any:
    for frame in _frames(event):
        if f"{frame.get('module')}.".startswith("asyncjobs."):
            frame.pop("vars", None)
    return event


def _frames(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    parts = [event, *((event.get("exception") or {}).get("values") or ()), *((event.get("threads") or {}).get("values") or ())]
    for part in parts:
        yield from (part.get("stacktrace") or {}).get("frames") or ()
