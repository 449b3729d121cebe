"""Errors of jobs in Sentry: once a job is given up, with what is needed to find it.

What the SDK captures in an attempt by itself (a handler's own `capture_message`, an error that it logs) carries the tags
`job_type` and `queue` and the job's ids, too: each attempt has an isolation scope of its own. The line `asyncjobs.job.died`,
which the SDK takes from `logging` by default, is the same exception, and its DedupeIntegration drops it.

Payloads are not sent: the SDK takes local variables of frames as you have configured it (`include_local_variables`).
"""

from typing import Final

import sentry_sdk

from asyncjobs.app import AsyncJobs
from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted

_DEAD: Final = frozenset({"dead"})
_FAILED: Final = frozenset({"dead", "retry"})


def setup(jobs: AsyncJobs, /, *, retries: bool = False) -> None:
    """Report the exceptions that made jobs dead; with `retries` also those after which a job is tried again, as warnings.

    `sentry_sdk.init` is yours; without it nothing is sent.
    """
    reported = _FAILED if retries else _DEAD

    def ended(event: AttemptEnded) -> None:
        if event.outcome in reported and event.error is not None:
            tags = {"job_type": event.type, "queue": event.queue, "outcome": event.outcome}
            with sentry_sdk.new_scope() as scope:
                scope.set_level("error" if event.outcome == "dead" else "warning")
                scope.set_tags(tags)
                scope.capture_exception(event.error)

    jobs.events.subscribe(_started, AttemptStarted)
    jobs.events.subscribe(ended, AttemptEnded)


def _started(event: AttemptStarted) -> None:
    scope = sentry_sdk.get_isolation_scope()  # the attempt's own: its context was empty
    scope.set_tags({"job_type": event.type, "queue": event.queue})
    scope.set_context("job", {"id": event.job_id, "attempt": event.attempt, "correlation_id": event.correlation_id})
    scope.set_transaction_name(f"job {event.type}", source="task")
