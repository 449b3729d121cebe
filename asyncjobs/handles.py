"""A job known by its id: what `enqueue` returns."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, cast, final

import msgspec

from asyncjobs.errors import InvalidOption, JobCancelled, JobDied, ResultUnavailable, WaitTimeout
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.job import Job
from asyncjobs.model.outcome import Duration
from asyncjobs.runtime.open_app import not_found

R_co = TypeVar("R_co", covariant=True)
Decode = Callable[[str | None], Any]


def _as_it_is(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


class Waiter(Protocol):
    """The app of the job."""

    async def wait_final(self, job_id: int, timeout: float | None) -> Job:
        """The job's final row; JobNotFound, WaitTimeout."""
        ...


@final
class JobHandle(Generic[R_co]):
    """One job, by its id. `created` is False when the enqueue found a live job with the same dedup key, and in `handle(id)`."""

    __slots__ = ("_app", "_decode", "created", "id")

    def __init__(  # by position it is made in half of the time, a thousand of a call
        self,
        job_id: int,
        app: Callable[[], Waiter],
        decode: Decode = _as_it_is,
        created: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        self.id = job_id
        self.created = created
        self._app = app
        self._decode = decode

    def __repr__(self) -> str:
        return f"<JobHandle id={self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash((JobHandle, self.id))

    async def wait(self, *, timeout: Duration | None = None) -> Job:
        """The job's final row, whatever it ended in. JobNotFound; WaitTimeout after `timeout` seconds (0: look once)."""
        return await self._app().wait_final(self.id, _seconds(timeout))

    async def result(self, *, timeout: Duration | None = None) -> R_co:
        """What the handler returned. JobDied and JobCancelled carry the job that ended otherwise.

        ResultUnavailable when it was dropped or does not fit the declared type; JobNotFound and WaitTimeout as with `wait`.
        """
        job = await self.wait(timeout=timeout)
        if job.status == "dead":
            raise JobDied(job, f'job {job.id} "{job.type}" died after {job.attempts} attempts: {job.error_message}')
        if job.status == "cancelled":
            raise JobCancelled(job, f'job {job.id} "{job.type}" was cancelled: {job.error_message}')
        if job.result_dropped:
            raise ResultUnavailable(
                f'job {job.id} "{job.type}" completed, its result was dropped: {job.result_dropped}', job_id=job.id
            )
        if "result" in job.unreadable:
            raise ResultUnavailable(f'job {job.id} "{job.type}" completed, its result cannot be read', job_id=job.id)
        text = None if job.result is None else msgspec.json.encode(job.result).decode()
        try:
            return cast("R_co", self._decode(text))
        except ValueError as error:
            raise ResultUnavailable(
                f'job {job.id} "{job.type}" completed, its result does not fit the declared type: {error}', job_id=job.id
            ) from None


def ended(job_id: int, job: Job | None) -> Job:
    """The job if it has ended; JobNotFound when there is none, WaitTimeout when it goes on."""
    if job is None:
        raise not_found(job_id)
    if not job.is_final:
        raise WaitTimeout(f"job {job_id} had not ended yet: it is {job.status}.", job_id=job_id)
    return job


def _seconds(timeout: Duration | None) -> float | None:
    if timeout is None:
        return None
    try:
        return duration_seconds(timeout, name="timeout")
    except ValueError as error:
        raise InvalidOption(str(error), option="timeout") from None
