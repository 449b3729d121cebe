"""Every error of asyncjobs, in one tree. A message says what was wrong, with which value, and what to do about it.

    AsyncJobsError
    ├ ConfigurationError(ValueError)    at import or at open
    │ ├ MissingDSN · InvalidDSN · InvalidHandler · InvalidName · InvalidSchedule · DuplicateName
    │ └ UnknownQueue · UnknownLane      (also of an enqueue whose options name one: then they are an EnqueueError, too)
    ├ UsageError(RuntimeError)          the right call at the wrong moment or in the wrong place
    │ └ NotOpen · NotIncluded · AmbiguousApp · WrongLoop · WouldBlock · AlreadyOpen
    ├ EnqueueError(ValueError)          nothing was written
    │ ├ InvalidPayload · PayloadTooLarge · InvalidOption · DuplicateJob · UnknownType · WorkflowError
    │ └ UnsupportedConnection(TypeError)
    ├ SchemaError
    │ └ SchemaMissing · SchemaOutdated · SchemaTooNew
    ├ DatabaseUnavailable(ConnectionError)
    ├ KeyNotFound · ScheduleNotFound · BreakerNotFound · LimitNotFound · DeadLetterNotFound · WorkflowNotFound · StateError
    ├ JobError
    │ ├ JobNotFound · ResultUnavailable · WaitTimeout(TimeoutError)
    │ └ JobFailed
    │   └ JobCancelled · JobDied
    │     └ JobExpired
    ├ in attempts: AttemptTimeout(TimeoutError) · ClaimLost · NotCommitted · RunnerLost · CircuitOpen
    ├ in attempts, of what is stored: UndecodablePayload · UnstorableResult
    ├ in attempts, of what surrounds the handler: ResourceFailed · HookFailed, and by an operator: FailedByHand
    └ in duties: LeaseLost

Errors survive pickling and copying with their fields.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from asyncjobs.model.storable import safe_str

if TYPE_CHECKING:
    from asyncjobs.model.job import Job


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean "mail"?` when one of the known names is close, else nothing."""
    close = get_close_matches(name, list(known), n=1)
    return f' Did you mean "{close[0]}"?' if close else ""


def listed(names: Iterable[str], *, at_most: int = 10) -> str:
    """The names in order with commas between them, the first ten when they are many; `none` when there are none."""
    ordered = sorted(names)
    more = f", and {len(ordered) - at_most} more" if len(ordered) > at_most else ""
    return ", ".join(ordered[:at_most]) + more or "none"


def one_line(text: str) -> str:
    """The text with what cannot be printed escaped: no name that it quotes begins a new line of a log, or talks to a terminal."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _rebuild(kind: type[BaseException], args: tuple[Any, ...], fields: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class AsyncJobsError(Exception):
    """The root: whatever asyncjobs itself raises is one of these. Its text is one line, whatever names and values it quotes."""

    def __str__(self) -> str:
        return one_line(super().__str__())

    def __reduce__(self) -> tuple[Callable[..., BaseException], tuple[Any, ...]]:
        return _rebuild, (type(self), self.args, self.__dict__)


class ConfigurationError(AsyncJobsError, ValueError):
    """A declaration or a setting cannot be meant; raised at import or at open."""


class MissingDSN(ConfigurationError):
    """No DSN was given and the environment has none."""


class InvalidDSN(ConfigurationError):
    """The DSN does not say where the database is. Its password is never part of the message."""


class InvalidHandler(ConfigurationError):
    """A function cannot be a handler as it is written. `.name`: the job's."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f'job "{name}": {problem}')


class InvalidName(ConfigurationError):
    """A name is empty, too long, reserved, or not a text. `.name`: what was given."""

    def __init__(self, message: str, *, name: object = None) -> None:
        self.name = name
        super().__init__(message)


class InvalidSchedule(ConfigurationError):
    """A schedule or a cron expression has no meaning. `.name`: the schedule's."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f'schedule "{name}": {problem}')


class DuplicateName(ConfigurationError):
    """One name, two declarations. `.name`; `.first` and `.second`: where, as file:line."""

    def __init__(self, what: str, name: str, first: str, second: str, *, hint: str = "") -> None:
        self.name, self.first, self.second = name, first, second
        super().__init__(f'{what} "{name}" is declared twice: {first} and {second}.{hint}')


class EnqueueError(AsyncJobsError, ValueError):
    """An enqueue was refused: nothing was written."""


class UnknownQueue(ConfigurationError, EnqueueError):
    """A queue that the app was not given. `.queue`, `.known`."""

    def __init__(self, queue: str, known: Iterable[str], *, of: str = "") -> None:
        self.queue, self.known = queue, sorted(known)
        guess = did_you_mean(queue, self.known)
        super().__init__(f'{of}queue "{queue}" is not in queues= ({listed(self.known)}).{guess}')


class UnknownLane(ConfigurationError, EnqueueError):
    """A lane that the queue does not have. `.lane`, `.queue`, `.known`."""

    def __init__(self, lane: str, queue: str, known: Iterable[str], *, of: str = "") -> None:
        self.lane, self.queue, self.known = lane, queue, sorted(known)
        guess = did_you_mean(lane, self.known)
        super().__init__(f'{of}lane "{lane}" is not a lane of queue "{queue}" ({listed(self.known)}).{guess}')


class UsageError(AsyncJobsError, RuntimeError):
    """The right call at the wrong moment or in the wrong place."""


class NotOpen(UsageError):
    """An app is needed that is open in this process."""


class NotIncluded(UsageError):
    """A job type was used whose router no app includes."""


class AmbiguousApp(UsageError):
    """Several open apps include the job type: the caller must say which."""


class WrongLoop(UsageError):
    """An app was used from another event loop than the one it was opened in."""


class WouldBlock(UsageError):
    """A blocking call was made in the event loop's own thread."""


class AlreadyOpen(UsageError):
    """A declaration came after the app that it belongs to was opened."""


class InvalidPayload(EnqueueError):
    """The arguments do not fit the handler, or JSON cannot hold them. `.type`; `.path`: where, as `$.to`."""

    def __init__(self, type: str, problem: str, *, path: str = "$") -> None:
        self.type, self.path = type, path
        super().__init__(f"{type}: {problem}" + (f" - at {path}" if path != "$" else ""))


class PayloadTooLarge(EnqueueError):
    """The payload has too many bytes as JSON. `.type`, `.size`, `.limit`."""

    def __init__(self, type: str, size: int, limit: int) -> None:
        self.type, self.size, self.limit = type, size, limit
        super().__init__(f"{type}: {size:,} bytes, at most {limit:,} (max_payload_bytes).")


class InvalidOption(EnqueueError):
    """An option of an enqueue is out of range or contradicts another. `.option`: its name."""

    def __init__(self, message: str, *, option: str = "") -> None:
        self.option = option
        super().__init__(message)


class DuplicateJob(EnqueueError):
    """A live job has the dedup key, and `on_duplicate="raise"` was asked for. `.job_id`: the live job."""

    def __init__(self, type: str, dedup_key: str, job_id: int, status: str) -> None:
        self.type, self.dedup_key, self.job_id, self.status = type, dedup_key, job_id, status
        super().__init__(f'{type} "{dedup_key}" is job {job_id}, {status} (on_duplicate="raise").')


class UnknownType(EnqueueError):
    """No job of this name in the app. `.type`, `.known`."""

    def __init__(self, type: str, known: Iterable[str]) -> None:
        self.type, self.known = type, sorted(known)
        super().__init__(
            f'no job "{type}" in this app. Known: {listed(self.known)}.{did_you_mean(type, self.known)} '
            f'For another service\'s type declare @router.stub("{type}").'
        )


class UnsupportedConnection(EnqueueError, TypeError):
    """What was given as `connection` cannot carry an enqueue in its transaction."""


class WorkflowError(EnqueueError):
    """A workflow that cannot be: a circle, a job of another, too many. Nothing was written."""


class WorkflowNotFound(AsyncJobsError):
    """There is no workflow with this id: it is not committed yet, was rolled back, or was pruned. `.workflow_id`."""

    def __init__(self, workflow_id: int) -> None:
        self.workflow_id = workflow_id
        super().__init__(f"there is no workflow {workflow_id}: it is not committed yet, was rolled back, or was pruned.")


class SchemaError(AsyncJobsError):
    """The schema in the database and this program do not fit."""


class SchemaMissing(SchemaError):
    """The schema is not there."""


class SchemaOutdated(SchemaError):
    """The schema lacks migrations that this program needs."""


class SchemaTooNew(SchemaError):
    """A breaking migration was applied that this program does not know."""


class DatabaseUnavailable(AsyncJobsError, ConnectionError):
    """The database did not answer in time."""


class JobError(AsyncJobsError):
    """Something about one job. `.job_id`."""

    def __init__(self, message: str, *, job_id: int) -> None:
        self.job_id = job_id
        super().__init__(message)


class JobNotFound(JobError):
    """No job has this id: its enqueue is not committed yet or was rolled back, or the job was pruned."""


class KeyNotFound(AsyncJobsError):
    """No job has this serialization key now. `.key`."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f'no job has the serialization key "{key}" now: it is idle.')


class ScheduleNotFound(AsyncJobsError):
    """No schedule of this name is in the database: a runner that declares it writes it when it starts. `.name`."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name, self.known = name, sorted(known)
        guess = did_you_mean(name, self.known) or " Schedules are written when a runner that declares them starts."
        super().__init__(f'there is no schedule "{name}" ({listed(self.known)}).{guess}')


class BreakerNotFound(AsyncJobsError):
    """No circuit breaker of this service was ever declared. `.service`."""

    def __init__(self, service: str, known: Iterable[str] = ()) -> None:
        self.service, self.known = service, sorted(known)
        super().__init__(f'there is no circuit breaker "{service}" ({listed(self.known)}).{did_you_mean(service, self.known)}')


class LimitNotFound(AsyncJobsError):
    """No limit of this name was ever declared, or no key of one is there. `.name`."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name, self.known = name, sorted(known)
        guess = did_you_mean(name, self.known) or " Limits are written when a runner that declares them starts."
        super().__init__(f'there is no limit "{name}" ({listed(self.known)}).{guess}')


class DeadLetterNotFound(AsyncJobsError):
    """There is no such dead letter: it never was, or it was pruned with its job. `.dead_letter_id`."""

    def __init__(self, dead_letter_id: int) -> None:
        self.dead_letter_id = dead_letter_id
        super().__init__(
            f"there is no dead letter {dead_letter_id}: dead letters have ids of their own, see `admin.dead_letters()`."
        )


class StateError(AsyncJobsError):
    """A verb met something in a state that it does not apply to. The message says which."""


class JobFailed(JobError):
    """The job ended without a result. `.job`: its final row."""

    def __init__(self, job: "Job", message: str) -> None:
        self.job = job
        super().__init__(message, job_id=job.id)


class JobDied(JobFailed):
    """The job ended dead; its dead letter says why."""


class JobCancelled(JobFailed):
    """The job was cancelled, by its handler or by an operator."""


class JobExpired(JobCancelled):
    """The job was not started in time (`expires`): it was ended as cancelled."""


class ResultUnavailable(JobError):
    """The job completed, but its result was dropped or does not fit the declared type."""


class WaitTimeout(JobError, TimeoutError):
    """The job had not ended in the time that the caller gave it. It goes on. `.missing`: the ids of all that had not ended."""

    def __init__(self, message: str, *, job_id: int, missing: Iterable[int] = ()) -> None:
        self.missing = list(missing) or [job_id]
        super().__init__(message, job_id=job_id)


class AttemptTimeout(AsyncJobsError, TimeoutError):
    """An attempt took longer than its timeout."""


class ClaimLost(AsyncJobsError):
    """The attempt's claim was taken away: nothing that it does counts any more."""


class NotCommitted(AsyncJobsError):
    """A handler returned that had called `ctx.complete`, in a transaction that was not committed: its effects are gone."""


class LeaseLost(AsyncJobsError):
    """The right to do a duty was lost, or could not be confirmed in time: the pass touched nothing, or was stopped."""

    def __init__(self, duty: str) -> None:
        super().__init__(f'duty "{duty}": its lease is not held any more.')
        self.duty = duty


class RunnerLost(AsyncJobsError):
    """The runner of an attempt went away."""


class FailedByHand(AsyncJobsError):
    """An operator let the attempt fail."""


class CircuitOpen(AsyncJobsError):
    """The circuit breaker of a service is open: the service was not called. `.service`.

    `.retry_at`: when it lets a probe through, by this machine's clock; None when an operator has opened it until it is reset.
    `.retry_after`: seconds until it is worth trying again.
    """

    def __init__(
        self, message: str, *, service: str = "", retry_at: datetime | None = None, retry_after: float | None = None
    ) -> None:
        self.service, self.retry_at, self.retry_after = service, retry_at, retry_after
        super().__init__(message)


class UndecodablePayload(AsyncJobsError, ValueError):
    """A stored payload does not fit the handler of this program. `.type`, `.path`; `.is_newer`: another program's would."""

    def __init__(self, type: str, problem: str, *, path: str = "$", is_newer: bool = False) -> None:
        self.type, self.path, self.is_newer = type, path, is_newer
        super().__init__(f"{type}: stored payload: {problem}" + (f" - at {path}" if path != "$" else ""))


class UnstorableResult(AsyncJobsError, ValueError):
    """A handler returned what JSON cannot hold. `.type`, `.path`."""

    def __init__(self, type: str, problem: str, *, path: str = "$") -> None:
        self.type, self.path = type, path
        super().__init__(f"{type}: result: {problem}" + (f" - at {path}" if path != "$" else ""))


class ResourceFailed(AsyncJobsError):
    """A resource that the attempts of a runner share could not be opened. `.resource`: its name."""

    def __init__(self, resource: str, problem: str) -> None:
        self.resource = resource
        super().__init__(f'resource "{resource}" {problem}.')


class HookFailed(AsyncJobsError):
    """A hook raised. `.hook`: its class's name; `.method`; `__cause__` is what it raised."""

    def __init__(self, hook: str, method: str, effect: str, error: BaseException) -> None:
        self.hook, self.method = hook, method
        super().__init__(f"{effect}: hook {hook}.{method} raised {type(error).__name__}: {safe_str(error)}")


def is_meant(error: BaseException) -> bool:
    """Whether it is to end the task in which it is caught: a cancellation of this very task, or KeyboardInterrupt.

    What a user's function leaks is not: a cancellation of something that it awaited, SystemExit.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt)
