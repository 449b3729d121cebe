"""Jobs: the search, the largest payloads, and what one user action led to."""

from typing import Final

from asyncjobs.dashboard.filters import JOB_FIELDS, STATUSES, is_filtered, job_filter, said
from asyncjobs.dashboard.trees import branches
from asyncjobs.dashboard.visit import Page, Visit
from asyncjobs.dashboard.web import Response

_LIMIT: Final = 50
_MOST_TRACED: Final = 500


async def search(visit: Visit) -> Response:
    """A page of the jobs that fit."""
    query = visit.query.known([*JOB_FIELDS, "before"])
    which = job_filter(query)
    found = await visit.admin.rows(before=query.id("before"), limit=_LIMIT, **which)
    return visit.page(
        "jobs.html", found=found, query=query, statuses=STATUSES, is_filtered=is_filtered(which),
        said_filter=said(query, JOB_FIELDS), is_first=query.id("before") is None,
    )  # fmt: skip


async def largest(visit: Visit) -> Response:
    """The largest payloads."""
    visit.query.known([])
    return visit.page("largest.html", jobs=await visit.admin.largest(limit=_LIMIT))


async def trace(visit: Visit) -> Response:
    """The jobs of a correlation id, parents above their children."""
    correlation_id = visit.query.known(["id"]).needed("id")
    jobs = await visit.admin.trace_rows(correlation_id, limit=_MOST_TRACED)
    return visit.page("trace.html", correlation_id=correlation_id, branches=branches(jobs), is_cut=len(jobs) == _MOST_TRACED)


PAGES: Final[list[tuple[str, Page]]] = [("/jobs", search), ("/jobs/largest", largest), ("/trace", trace)]
