"""A job known by its id: what `enqueue` returns."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast, final

import msgspec

from asyncjobs.errors import InvalidOption, JobCancelled, JobDied, JobExpired, JobFailed, ResultUnavailable, WaitTimeout
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.ending import Ending
from asyncjobs.model.job import Job
from asyncjobs.model.new_row import Did
from asyncjobs.model.outcome import Duration
from asyncjobs.runtime.open_app import not_found

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
Decode = Callable[[str | None], Any]


def _as_it_is(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


class Watching(Protocol):
    """Jobs of one app that somebody waits for: `runtime/watch.py`."""

    missing: dict[int, None]

    def close(self) -> None:
        """Watch no longer."""
        ...

    @property
    def has_news(self) -> bool:
        """Whether some of what is missing ended in this process."""
        ...

    @property
    def has_all(self) -> bool:
        """Whether all of it did, or nothing is missing."""
        ...

    async def look(self, *, everywhere: bool) -> list[Ending]:
        """Those that have ended, or are not there."""
        ...


class Child(Protocol):
    """A job that another one enqueued."""

    @property
    def id(self) -> int:
        """Its id."""
        ...

    @property
    def type(self) -> str:
        """Its type's name."""
        ...


class Family(Protocol):
    """Where it is known what a job enqueued: the app's `admin`."""

    async def children(self, job_id: int, /, *, limit: int) -> Sequence[Child]:
        """The first jobs that this one enqueued, the lowest id first. JobNotFound."""
        ...


class Decoding(Protocol):
    """A job type, as far as it reads results."""

    def decode_result(self, text: str | None) -> Any:
        """The result as the function's return type says; ValueError when it does not fit."""
        ...


class Waiter(Protocol):
    """The app of the job."""

    @property
    def admin(self) -> Family:
        """Its verbs."""
        ...

    @property
    def handlers(self) -> Mapping[str, Decoding]:
        """Its job types, by name and by alias."""
        ...

    async def wait_final(self, job_id: int, timeout: float | None) -> Job:
        """The job's final row; JobNotFound, WaitTimeout."""
        ...

    async def watch(self, job_ids: Sequence[int], told: Callable[[], None], *, timeout: float | None) -> Watching:
        """Watch these jobs until they have ended, for so long; the caller sees to the time."""
        ...

    def wait_in_loop(self, happened: str, call: str, what: str, awaited: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What comes of it in the app's loop, for another thread. NotOpen in words that begin with what `happened`; WouldBlock in
        the loop's own: `call` is to be made there instead of `what`.
        """
        ...


@final
class JobHandle(msgspec.Struct, Generic[R_co], eq=False, gc=False):  # a thousand of a call are made in less than half of the time
    """One job, by its id. `did`: what the enqueue did, None in `handle(id)`.

    "made" a job; or, where another has the same dedup key, "kept" that as it was (it is to run yet), "replaced" its payload and
    time, or "dropped" what was enqueued, since that one had been started, or has ended and keeps its key.
    """

    id: int
    _app: Callable[[], Waiter]
    _decode: Decode = _as_it_is
    did: Did | None = None

    @property
    def created(self) -> bool:
        """Whether the enqueue made the job: False when another had the same dedup key, and in `handle(id)`."""
        return self.did == "made"

    def __repr__(self) -> str:
        return f"<JobHandle id={self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash((JobHandle, self.id))

    async def wait(self, *, timeout: Duration | None = None) -> Job:
        """The job's final row, whatever it ended in. JobNotFound; WaitTimeout after `timeout` seconds (0: look once)."""
        return await self._app().wait_final(self.id, timeout_seconds(timeout))

    def wait_sync(self, *, timeout: Duration | None = None) -> Job:
        """`wait` in another thread than the event loop's; WouldBlock in the loop's own, NotOpen when no loop has the app open."""
        app, seconds = self._app(), timeout_seconds(timeout)
        happened = f"job {self.id} was waited for"
        return app.wait_in_loop(happened, "await handle.wait(...)", "wait_sync", lambda: app.wait_final(self.id, seconds))

    async def result(self, *, timeout: Duration | None = None) -> R_co:
        """What the handler returned. JobDied, JobCancelled and JobExpired carry the job that ended otherwise.

        ResultUnavailable when it was dropped or does not fit the declared type; JobNotFound and WaitTimeout as with `wait`.
        """
        return self._result_of(await self.wait(timeout=timeout))

    def result_sync(self, *, timeout: Duration | None = None) -> R_co:
        """`result`, where `wait_sync` is `wait`."""
        return self._result_of(self.wait_sync(timeout=timeout))

    async def children(self, *, limit: int = 1_000) -> "list[JobHandle[Any]]":
        """Handles of the first jobs that this one enqueued, the lowest id first: `await gather(await handle.children())` has
        their results, as their types declare them where this app has the type. JobNotFound.

        What the handler enqueues in its own transaction is there after the commit; while the job runs more may follow.
        """
        return await self._children(self._app(), limit)

    def children_sync(self, *, limit: int = 1_000) -> "list[JobHandle[Any]]":
        """`children`, where `wait_sync` is `wait`."""
        app = self._app()
        happened = f"the children of job {self.id} were asked for"
        return app.wait_in_loop(happened, "await handle.children(...)", "children_sync", lambda: self._children(app, limit))

    async def _children(self, app: Waiter, limit: int) -> "list[JobHandle[Any]]":
        handlers = app.handlers
        return [
            JobHandle(child.id, self._app, handlers[child.type].decode_result if child.type in handlers else _as_it_is)
            for child in await app.admin.children(self.id, limit=limit)
        ]

    def _result_of(self, job: Job) -> R_co:
        failure = failure_of(job)
        if failure is not None:
            raise failure
        if "result" in job.unreadable:
            raise _unavailable(job.id, job.type, "its result cannot be read")
        text = None if job.result is None else msgspec.json.encode(job.result).decode()
        return cast("R_co", result_from(self, job.type, text, job.result_dropped))


def app_of(handle: JobHandle[Any]) -> Waiter:
    """The app of the handle's job; NotOpen, NotIncluded and AmbiguousApp as of an enqueue."""
    return handle._app()  # noqa: SLF001 - no method: users have nothing to do with it


def result_from(handle: JobHandle[Any], type: str | None, text: str | None, dropped: str | None) -> Any:
    """The result of the handle's completed job from its row, as JSON text. ResultUnavailable."""
    if dropped:
        raise _unavailable(handle.id, type, f"its result was dropped: {dropped}")
    try:
        return handle._decode(text)  # noqa: SLF001
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise _unavailable(handle.id, type, f"its result does not fit the declared type: {error}") from None


def failure_of(job: Job) -> JobFailed | None:
    """What is raised where the result of this job is asked for, which has ended; None when it completed."""
    if job.status == "dead":
        return JobDied(job, f'job {job.id} "{job.type}" died after {job.attempts} attempts: {job.error_message}')
    if job.has_expired:
        return JobExpired(job, f'job {job.id} "{job.type}" has expired: it was not started before {job.start_before}')
    if job.status == "cancelled":
        return JobCancelled(job, f'job {job.id} "{job.type}" was cancelled: {job.error_message}')
    return None


def _unavailable(job_id: int, type: str | None, what: str) -> ResultUnavailable:
    return ResultUnavailable(f'job {job_id} "{type}" completed, {what}', job_id=job_id)


def ended(job_id: int, job: Job | None) -> Job:
    """The job if it has ended; JobNotFound when there is none, WaitTimeout when it goes on."""
    if job is None:
        raise not_found(job_id)
    if not job.is_final:
        raise WaitTimeout(f"job {job_id} had not ended yet: it is {job.status}.", job_id=job_id)
    return job


def timeout_seconds(timeout: Duration | None) -> float | None:
    """The time-out of a wait; InvalidOption when it is none."""
    if timeout is None:
        return None
    try:
        return duration_seconds(timeout, name="timeout")
    except ValueError as error:
        raise InvalidOption(str(error), option="timeout") from None
