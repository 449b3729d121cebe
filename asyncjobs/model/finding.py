"""Finding jobs, and what an operator's verb would do to one in this status."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol, TypedDict

import msgspec

from asyncjobs.errors import UsageError, did_you_mean
from asyncjobs.model.job import Job
from asyncjobs.model.names import shown
from asyncjobs.model.status import FINAL, STATUSES, Status

ManyVerb = Literal["cancel", "kill", "fail", "retry", "change", "delete"]


class IsWorkflow(Protocol):
    """A workflow, or a handle of one."""

    @property
    def id(self) -> int:
        """The workflow's."""
        ...


class JobFilter(TypedDict, total=False):
    """Which jobs: all that is given must fit. None: not given."""

    correlation_id: str | None
    type: str | None
    status: Status | Sequence[Status] | None  # this one, or one of these
    queue: str | None
    key: str | None  # serialization key
    parent_job_id: int | None
    workflow: int | IsWorkflow | None  # whose member it is: a workflow's id, or what has it
    payload: Mapping[str, Any] | None  # what the payload contains
    error: str | None  # a part of why it ended, in upper or lower case
    tag: str | Sequence[str] | None  # this one, or all of these
    dedup_key: str | None
    limit_key: str | None  # as `Job.limit_key` has it
    priority: int | None
    ids: Sequence[int] | None  # one of these
    created_after: datetime | None  # then or later
    created_before: datetime | None
    since: datetime | None  # something happened to it then or later: it was enqueued, started, failed, ended or changed last
    until: datetime | None  # that was before


class Found(msgspec.Struct, frozen=True):
    """A page of jobs, the highest ids first."""

    jobs: list[Job]
    next: int | None  # `before=` of the next page, which may be there even if this one is short; None: that was all
    looked: int  # jobs that were looked at for it, a bounded number


class JobsDone(msgspec.Struct, frozen=True):
    """What a verb on many did, or (`dry_run`) would do: how many jobs came to which outcome."""

    outcomes: dict[str, int]
    dry_run: bool

    @property
    def changed(self) -> int:
        """Jobs that were changed or asked to end, or would be."""
        return sum(self.outcomes.get(name, 0) for name in ("cancelled", "dead", "requested", "retried", "changed", "deleted"))


def statuses_of(which: JobFilter) -> list[Status] | None:
    """The statuses that are asked for, as a list."""
    status = which.get("status")
    if status is None:
        return None
    return [status] if isinstance(status, str) else list(status)


def is_filtered(which: JobFilter) -> bool:
    """Whether anything is asked for: of no tags at all, nothing is."""
    return any(value is not None for name, value in which.items() if name != "tag") or bool(which.get("tag"))


def check_filter(which: JobFilter) -> None:
    """UsageError for an instant without a time zone, and for a status or a workflow that there cannot be."""
    workflow_of(which)
    check_instants(which, "created_after", "created_before", "since", "until")
    for status in statuses_of(which) or ():
        if status not in STATUSES:
            raise UsageError(f"status={shown(status)} is none of {', '.join(STATUSES)}.{did_you_mean(str(status), STATUSES)}")


def check_instants(which: Mapping[str, Any], *names: str) -> None:
    """UsageError for an instant without a time zone."""
    for name in names:
        at = which.get(name)
        if isinstance(at, datetime) and at.utcoffset() is None:
            raise UsageError(f"{name}={at.isoformat()} has no time zone: use datetime.now(UTC).")


def tags_of(which: JobFilter) -> list[str] | None:
    """The tags that are asked for, as a list; None when none are."""
    tags = which.get("tag")
    return None if not tags else [tags] if isinstance(tags, str) else list(tags)


def ids_of(which: JobFilter) -> list[int] | None:
    """The ids that are asked for, as a list; of none at all there are no jobs."""
    ids = which.get("ids")
    return None if ids is None else list(ids)


def workflow_of(which: Mapping[str, Any]) -> int | None:
    """The id of the workflow that is asked for. UsageError."""
    given = which.get("workflow")
    found = given if given is None or isinstance(given, int) else getattr(given, "id", given)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
        raise UsageError(f"workflow={shown(given)} is no workflow: give its id, or its handle.")
    return found


def outcome_of(verb: ManyVerb, status: Status) -> str:
    """What the verb does to a job in this status, if nothing happens to it meanwhile."""
    if verb == "retry":
        return (
            "retried" if status in {"scheduled", "failed", "dead", "cancelled"} else "final" if status == "completed" else status
        )
    if verb == "delete":
        return "deleted" if status in FINAL else status
    if status in FINAL:
        return "final"
    if verb == "change":
        return status if status == "processing" else "changed"
    if status == "processing":
        return "requested"
    return {"cancel": "cancelled", "kill": "dead", "fail": status}[verb]
