"""What `AsyncJobs.enqueue` and `enqueue_many` accept: jobs made by a type, and jobs by name."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from asyncjobs.config import Settings
from asyncjobs.errors import EnqueueError, InvalidOption, InvalidPayload, UnknownType
from asyncjobs.handlers import Handler, NewJob
from asyncjobs.model.names import kind_of
from asyncjobs.options import check_options
from asyncjobs.rows import make_row

N = TypeVar("N")
T = TypeVar("T")


def named(
    name: str, payload: object, options: Mapping[str, Any], handlers: Mapping[str, Handler], settings: Settings
) -> NewJob[Any]:
    """The job of a type that is known by its name. UnknownType, InvalidPayload, InvalidOption."""
    handler = handlers.get(name)
    if handler is None:
        raise UnknownType(name, handlers)
    if not isinstance(payload, Mapping):
        raise InvalidPayload(name, f'the payload is {kind_of(payload)}: give its fields by name, as in {{"field": value}}')
    checked = check_options(options)
    return NewJob(handler, make_row(handler, (), payload, checked, settings), checked.connection)


def only(job: NewJob[N], payload: object, options: Mapping[str, Any]) -> NewJob[N]:
    """The job itself; InvalidOption when more was given than belongs to it."""
    if payload is None and not options:
        return job
    others = sorted(options.keys() - {"connection"})
    if payload is not None or others:
        what = f"{others[0]}=" if others else "a payload"
        raise InvalidOption(f"{what} was given with a job that is made already: write job_type.using(...).new(...).")
    return job


def check_jobs(jobs: object, handlers: Mapping[str, Handler]) -> list[NewJob[Any]]:
    """The jobs as a list. EnqueueError for anything that is none; UnknownType for a type that the app does not include."""
    if not isinstance(jobs, Iterable):
        raise EnqueueError(f"{jobs!r} is not a list of jobs: write enqueue_many([job_type.new(...), ...]).")
    news = list(jobs)
    for new in news:
        if not isinstance(new, NewJob):
            raise EnqueueError(f"{new!r} is no job: write {getattr(new, 'name', 'job_type')}.new(...).")
        if new.row.type not in handlers:
            raise UnknownType(new.row.type, handlers)
    return news


def one_connection(jobs: Sequence[NewJob[Any]], connection: Any) -> Any:
    """The connection that all of them are enqueued on, None for asyncjobs' own. InvalidOption when they differ."""
    if connection is not None:
        check_options({"connection": connection})
    of_jobs = [job.connection for job in jobs if job.connection is not None]
    given = of_jobs if connection is None else [connection, *of_jobs]
    if not given:
        return None
    used = given[0]
    if any(one is not used for one in given):
        raise InvalidOption("two connections were given: jobs that are enqueued together share one.", option="connection")
    if connection is None and len(of_jobs) < len(jobs):
        raise InvalidOption(
            "some of the jobs have a connection and some have none: give it to enqueue_many(..., connection=...).",
            option="connection",
        )
    return used


async def in_slices(items: Sequence[T], *, size: int = 1_000) -> AsyncGenerator[Sequence[T]]:
    """So many items at a time, with a turn of the event loop for others between: 100,000 would stop it for a second."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]


def check_job_id(job_id: object) -> int:
    """The id; InvalidOption when it cannot be one."""
    if isinstance(job_id, bool) or not isinstance(job_id, int) or not 0 < job_id < 2**63:
        raise InvalidOption(f"job_id={job_id!r} is no job's id: give the `id` of a handle.", option="job_id")
    return job_id
