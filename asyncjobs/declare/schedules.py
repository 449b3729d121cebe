"""Schedules as they are declared: checked at once as far as that goes, and against the whole app when it opens."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from asyncjobs.declare.definition import JobDefinition, NewJob
from asyncjobs.declare.new_job import check_size, in_queue, make_row, with_defaults
from asyncjobs.declare.options import NONE_GIVEN
from asyncjobs.declare.planned import Planned
from asyncjobs.errors import EnqueueError, InvalidSchedule
from asyncjobs.model.names import check_name
from asyncjobs.model.new_row import NewRow
from asyncjobs.model.outcome import Duration
from asyncjobs.model.schedule import Misfire, Overlap, Schedule, Timing, check_timing
from asyncjobs.settings import Queue, Settings

__all__ = ["Misfire", "Overlap", "check_job", "check_schedule", "made_schedules"]


def check_schedule(
    name: str,
    *,
    cron: object,
    every: Duration | None,
    timezone: object,
    misfire: object,
    overlap: object,
    run_on_start: object,
) -> dict[str, Any]:
    """A schedule's details; InvalidSchedule or InvalidName when one of them cannot be meant."""
    check_name("schedule", name)
    if misfire not in ("skip", "one", "all"):
        raise InvalidSchedule(name, f'misfire={misfire!r}: give "skip", "one" or "all".')
    if overlap not in ("allow", "skip", "queue"):
        raise InvalidSchedule(name, f'overlap={overlap!r}: give "allow", "skip" or "queue".')
    if not isinstance(run_on_start, bool):
        raise InvalidSchedule(name, f"run_on_start={run_on_start!r}: give True or False.")
    try:
        timing = check_timing(cron=cron, every=every, timezone=timezone)
    except ValueError as error:
        raise InvalidSchedule(name, str(error)) from None
    return {"timing": timing, "misfire": misfire, "overlap": overlap, "runs_on_start": run_on_start}


def check_job(name: str, job: object) -> NewJob[Any]:
    """The job that a schedule makes at each tick; InvalidSchedule when it is none, or says itself when and where it runs."""
    if not isinstance(job, NewJob):
        raise InvalidSchedule(name, f"{job!r} is no job: give {getattr(job, 'name', 'job_type')}.new(...).")
    if job.connection is not None:
        raise InvalidSchedule(name, "its job has a connection: a tick comes outside of any transaction.")
    for option, value in (("run_at", job.row.run_at), ("delay", job.row.delay_seconds), ("parent_job_id", job.row.parent_job_id)):
        if value is not None:
            raise InvalidSchedule(name, f"its job has {option}={value}: a tick decides that.")
    return job


def made_schedules(
    planned: Iterable[Planned], definitions: Mapping[str, JobDefinition], queues: Mapping[str, Queue], settings: Settings
) -> list[Schedule]:
    """The app's schedules, with their jobs as the app would enqueue them. InvalidSchedule for one that it could not."""
    return [_made(one, definitions, queues, settings) for one in planned if one.what == "schedule"]


def _made(
    planned: Planned, definitions: Mapping[str, JobDefinition], queues: Mapping[str, Queue], settings: Settings
) -> Schedule:
    details = planned.details
    overlap: Overlap = details["overlap"]
    timing: Timing = details["timing"]
    try:
        row = _row(planned, definitions, queues, settings)
    except EnqueueError as error:
        raise InvalidSchedule(planned.name, f"({planned.declared_at}) its job cannot be enqueued: {error}") from error
    if overlap == "queue" and row.serialization_key is None:
        # One at a time, the next one waiting in line: that is what serialization keys are for.
        row = msgspec.structs.replace(row, serialization_key=f"schedule {planned.name}")
    return Schedule(
        name=planned.name, timing=timing, misfire=details["misfire"], overlap=overlap, row=row,
        runs_on_start=details["runs_on_start"],
    )  # fmt: skip


def _row(planned: Planned, definitions: Mapping[str, JobDefinition], queues: Mapping[str, Queue], settings: Settings) -> NewRow:
    job: NewJob[Any] | None = planned.details.get("job")
    type: str = planned.details["type"] if job is None else job.type
    definition = definitions.get(type)
    if definition is None or (job is not None and job.handler is not definition):
        raise InvalidSchedule(
            planned.name, f'({planned.declared_at}) job "{type}" is not in this app: include the router that declares it.'
        )
    row = make_row(definition, (), {}, NONE_GIVEN, settings) if job is None else job.row
    check_size(type, row.payload, settings)
    return row if definition.is_stub else with_defaults(in_queue(row, definition, queues), definition, settings)
