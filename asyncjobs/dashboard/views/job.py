"""One job: how it is, why it does not run, its attempts, what it was given, and its family."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from asyncjobs.admin import Admin
from asyncjobs.dashboard.forms import Fields, an_id
from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.news import News
from asyncjobs.dashboard.problems import BadInput, Refused
from asyncjobs.dashboard.visit import Page, Visit
from asyncjobs.dashboard.web import Response
from asyncjobs.model.job import Job
from asyncjobs.runtime.open_app import not_found

_MOST_CHILDREN: Final = 50


class Moment(msgspec.Struct, frozen=True):
    """One point of a job's life."""

    at: datetime
    what: str
    kind: str  # the class that gives it its colour
    error: Mapping[str, Any] | None = None  # of an attempt that failed


async def _read(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news
    job_id = an_id(query.needed("id"))
    job = await admin.get(job_id)
    if job is None:
        raise not_found(job_id)
    children = await admin.children(job_id, limit=_MOST_CHILDREN)
    why = await admin.explain(job_id)
    return {"job": job, "why": why, "moments": moments(job), "children": children, "most_children": _MOST_CHILDREN}


def moments(job: Job) -> list[Moment]:
    """A job's life, as far as its row tells: made, due, its attempts that failed, started, ended; in the order of time."""
    found = [Moment(job.created_at, f"made{f' by {job.created_by}' if job.created_by else ''}", "dim")]
    if job.scheduled_at > job.created_at:
        found.append(Moment(job.scheduled_at, "first due", "dim"))
    found += [failure(error, job) for error in job.errors]
    if job.started_at is not None and not job.is_final:
        found.append(Moment(job.started_at, f"attempt {job.attempts} started", "calm"))
    if job.started_at is not None and job.is_final and job.completed_at is not None:
        found.append(Moment(job.started_at, f"attempt {job.attempts} started", "calm"))
    if job.completed_at is not None:
        kind = {"completed": "good", "dead": "bad"}.get(job.status, "dim")
        found.append(Moment(job.completed_at, str(job.status), kind))
    if job.status in {"failed", "scheduled"}:
        found.append(Moment(job.run_at, "due again" if job.attempts or job.snoozes else "due", "calm"))
    return sorted(found, key=lambda one: one.at)


def failure(error: Mapping[str, Any], job: Job) -> Moment:
    """An attempt that failed. Whatever is in the row, it can be shown."""
    try:
        at = datetime.fromisoformat(str(error.get("at")))
        at = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        at = job.last_error_at or job.updated_at
    return Moment(at, f"attempt {error.get('attempt', '?')} failed", "bad" if job.status == "dead" else "warn", error)


async def payload(visit: Visit) -> Response:
    """The payload or the result, whole, as a file."""
    query = visit.query.known(["id", "what"])
    if not visit.sees_payloads:
        raise Refused(403, "Payloads and results are not shown to you.")
    job_id, what = an_id(query.needed("id")), query.choice("what", ["payload", "result"]) or "payload"
    job = await visit.admin.get(job_id)
    if job is None:
        raise not_found(job_id)
    if what in job.unreadable:
        raise BadInput(f"the {what} of job {job_id} cannot be read: its row holds what no program of ours could have written.")
    content = msgspec.json.format(msgspec.json.encode(job.payload if what == "payload" else job.result), indent=2)
    headers = {"content-disposition": f'attachment; filename="job-{job_id}-{what}.json"'}
    return Response(content, media_type="application/json", headers=headers)


TOPICS: Final = [("/jobs/{id:int}", Topic("job", ("id",), _read))]
PAGES: Final[list[tuple[str, Page]]] = [("/jobs/{id:int}/data.json", payload)]
