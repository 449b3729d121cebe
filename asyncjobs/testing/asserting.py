"""Assertions about what was enqueued: in an app's database, or in a `captured` block."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeAlias, Unpack

import msgspec

from asyncjobs.app import AsyncJobs
from asyncjobs.declare.definition import JobDefinition
from asyncjobs.declare.options import NONE_GIVEN, Checked, Options, check_options
from asyncjobs.declare.payload import to_json
from asyncjobs.errors import InvalidOption, InvalidPayload, UnknownType, did_you_mean
from asyncjobs.job_type import JobType
from asyncjobs.model.job import Job
from asyncjobs.store import inspection
from asyncjobs.testing.captured import Captured
from asyncjobs.testing.in_memory import memory_of, run_in_loop_of

#: Where jobs may have been enqueued.
Where: TypeAlias = AsyncJobs | Captured

_LISTED: Final = 20
_UNSEEN: Final = ("notify", "on_duplicate", "dedup_for", "debounce", "connection")
_MISSING: Final = object()


async def assert_enqueued(
    where: Where,
    job: JobType[..., Any] | str,
    payload: Mapping[str, Any] | None = None,
    /,
    *,
    count: int | None = None,
    **options: Unpack[Options],
) -> Job:
    """The first job of this type that was enqueued with these fields of its payload and these options, in whatever status.

    `payload` names some of the handler's parameters, compared as they are stored; defaults count as given. Options also come with
    the type: `send_email.using(priority=1)`. With `count` there must be exactly so many. AssertionError lists what was enqueued
    instead. A field or an option that the type cannot have is refused: InvalidPayload, InvalidOption.
    """
    if count is not None and count < 1:
        raise ValueError(f"count={count}: give at least 1, or write refute_enqueued(...).")
    wanted = _Wanted(where, job, payload, options)
    jobs = await _jobs(where)
    found = [one for one in jobs if not wanted.differences(one)]
    if not found or count not in {None, len(found)}:
        how_many = "no" if count is None else f"{len(found)} instead of {count}"
        raise AssertionError(f"enqueued: {how_many} {wanted}. {wanted.told(jobs)}")
    return found[0]


async def refute_enqueued(
    where: Where, job: JobType[..., Any] | str, payload: Mapping[str, Any] | None = None, /, **options: Unpack[Options]
) -> None:
    """Nothing of this type was enqueued with these fields and options (`assert_enqueued`); else AssertionError lists it."""
    wanted = _Wanted(where, job, payload, options)
    jobs = await _jobs(where)
    if any(not wanted.differences(one) for one in jobs):
        raise AssertionError(f"enqueued, and should not be: {wanted}. {wanted.told(jobs)}")


def assert_enqueued_sync(
    where: Where,
    job: JobType[..., Any] | str,
    payload: Mapping[str, Any] | None = None,
    /,
    *,
    count: int | None = None,
    **options: Unpack[Options],
) -> Job:
    """`assert_enqueued` for a plain `def` test."""
    app = where.app if isinstance(where, Captured) else where
    return run_in_loop_of(app, lambda: assert_enqueued(where, job, payload, count=count, **options))


def refute_enqueued_sync(
    where: Where, job: JobType[..., Any] | str, payload: Mapping[str, Any] | None = None, /, **options: Unpack[Options]
) -> None:
    """`refute_enqueued` for a plain `def` test."""
    app = where.app if isinstance(where, Captured) else where
    run_in_loop_of(app, lambda: refute_enqueued(where, job, payload, **options))


async def _jobs(where: Where) -> Sequence[Job]:
    if isinstance(where, Captured):
        return where.jobs
    memory = memory_of(where)
    if memory is not None:
        return memory.jobs()
    async with where:
        link = where.lifecycle.database().link("test")
        try:
            return await inspection.all_jobs(link)
        finally:
            await link.close()


class _Wanted:
    """What is looked for, and how a job differs from it."""

    def __init__(
        self, where: Where, job: JobType[..., Any] | str, payload: Mapping[str, Any] | None, options: Mapping[str, Any]
    ) -> None:
        definitions = where.app.handlers if isinstance(where, Captured) else where.handlers
        self.handlers = definitions
        self._handler = _handler_of(job, definitions)
        self._fields = {name: _plain(self._handler, name, value) for name, value in (payload or {}).items()}
        self._options = _given(check_options(options, over=job.options if isinstance(job, JobType) else NONE_GIVEN))

    def __str__(self) -> str:
        said = [f"{name}={_text(value)}" for name, value in (self._fields | self._options).items()]
        return f'job "{self._handler.name}"' + (f" with {', '.join(said)}" if said else "")

    def differences(self, job: Job) -> list[str]:
        """In what the job differs; nothing: it is one of those."""
        if job.type not in {self._handler.name, *self._handler.aliases}:
            return ["type"]
        stored = {**_defaults(self._handler), **job.payload}
        return [name for name, value in self._fields.items() if stored.get(name, _MISSING) != value] + [
            name for name, value in self._options.items() if not _is(job, name, value)
        ]

    def told(self, jobs: Sequence[Job]) -> str:
        """What was enqueued, those of the type first, with what is different in each."""
        if not jobs:
            return "Nothing was enqueued."
        ordered = sorted(jobs, key=lambda job: (self.differences(job) == ["type"], job.id))
        lines = [f"  {_shown(job)}{self._unlike(job)}" for job in ordered[:_LISTED]]
        more = [f"  … and {len(ordered) - _LISTED} more"] if len(ordered) > _LISTED else []
        return "\n".join(["These were:", *lines, *more])

    def _unlike(self, job: Job) -> str:
        names = self.differences(job)
        return f"   <- {', '.join(names)}" if names and names != ["type"] else ""


def _handler_of(job: JobType[..., Any] | str, definitions: Mapping[str, JobDefinition]) -> JobDefinition:
    name = job if isinstance(job, str) else job.name
    found = definitions.get(name)
    if found is None or (isinstance(job, JobType) and job.declaration is not found):
        raise UnknownType(name, definitions)
    return found


def _plain(definition: JobDefinition, name: str, value: object) -> object:
    """The value as JSON has it."""
    if name not in definition.payload.fields:
        guess = did_you_mean(name, definition.payload.fields)
        raise InvalidPayload(definition.name, f'has no field "{name}".{guess}', path=f"$.{name}")
    return msgspec.json.decode(to_json(value))


def _defaults(definition: JobDefinition) -> dict[str, object]:
    return {one.name: _plain(definition, one.name, one.default) for one in definition.signature.parameters if not one.is_required}


def _given(checked: Checked) -> dict[str, Any]:
    given = {name: value for name, value in msgspec.structs.asdict(checked).items() if value is not None}
    unseen = [name for name in _UNSEEN if name in given]
    if unseen:
        raise InvalidOption(f"{unseen[0]}= leaves no trace in an enqueued job: leave it out.", option=unseen[0])
    return given


def _is(job: Job, name: str, value: Any) -> bool:
    if name == "delay":
        seconds: float = value
        return abs((job.scheduled_at - job.created_at).total_seconds() - seconds) < 1
    if name == "expires":
        return job.start_before is not None and job.start_before - job.scheduled_at == timedelta(seconds=value)
    if name == "tags":  # besides those of its type
        tags: tuple[str, ...] = value
        return {*tags} <= {*job.tags}
    if name == "dedup_until":
        until: str = value
        return (job.dedup_until or "end") == until
    column, wanted = {"run_at": "scheduled_at"}.get(name, name), timedelta(seconds=value) if name == "timeout" else value
    is_same: bool = getattr(job, column) == wanted
    return is_same


def _shown(job: Job) -> str:
    payload = ", ".join(f"{name}={_text(value)}" for name, value in job.payload.items())
    options = {
        "queue": job.queue, "lane": job.lane, "priority": job.priority, "dedup_key": job.dedup_key,
        "serialization_key": job.serialization_key, "correlation_id": job.correlation_id,
    }  # fmt: skip
    said = "".join(f" {name}={_text(value)}" for name, value in options.items() if value is not None)
    at = f" run_at={job.run_at.isoformat()}" if job.status in {"scheduled", "failed"} else ""
    return f"job {job.id} {job.type}({payload}) {job.status}{at}{said}"


def _text(value: object) -> str:
    try:
        text = to_json(value)
    except Exception:  # noqa: BLE001 - it is only shown
        text = repr(value)
    return text if len(text) <= 200 else text[:200] + "…"  # noqa: PLR2004 - a line of a message
