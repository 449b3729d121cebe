"""Jobs: the search, the largest payloads, and what one user action led to."""

from functools import partial
from typing import Any, Final

from asyncjobs.admin import Admin
from asyncjobs.dashboard.filters import JOB_FIELDS, STATUSES, is_filtered, job_filter, said
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.news import News
from asyncjobs.dashboard.trees import branches
from asyncjobs.dashboard.visit import Page, Visit
from asyncjobs.dashboard.web import Response

_LIMIT: Final = 50
_MOST_TRACED: Final = 500


async def _search(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    which = job_filter(query)
    found = await admin.rows(before=query.id("before"), limit=_LIMIT, **which)
    depths = await news.look(("counts",), partial(_counts, admin))
    # What no index serves is not looked for again and again; and older pages do not move.
    follows = query.id("before") is None and not {"payload", "error"} & {name for name, _ in query}
    return {
        "found": found, "query": query, "statuses": STATUSES, "is_filtered": is_filtered(which),
        "said_filter": said(query, JOB_FIELDS), "is_first": query.id("before") is None, "follows": follows, **depths,
    }  # fmt: skip


async def _counts(admin: Admin) -> dict[str, Any]:
    """How many unfinished jobs there are, by status: of all types and queues."""
    glance = await admin.glance()
    unfinished = ("pending", "processing", "scheduled", "failed", "waiting", "paused")
    return {"counts": {status: getattr(glance, status) for status in unfinished}}


async def _running(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news, query
    return {"jobs": await admin.longest_running(limit=_LIMIT)}


async def largest(visit: Visit) -> Response:
    """The largest payloads."""
    visit.query.known([])
    return visit.page("largest.html", jobs=await visit.admin.largest(limit=_LIMIT))


async def trace(visit: Visit) -> Response:
    """The jobs of a correlation id, parents above their children."""
    correlation_id = visit.query.known(["id"]).needed("id")
    jobs = await visit.admin.trace_rows(correlation_id, limit=_MOST_TRACED)
    return visit.page("trace.html", correlation_id=correlation_id, branches=branches(jobs), is_cut=len(jobs) == _MOST_TRACED)


TOPICS: Final = [("/jobs", Topic("jobs", (*JOB_FIELDS, "before"), _search)), ("/jobs/running", Topic("running", (), _running))]
PAGES: Final[list[tuple[str, Page]]] = [("/jobs/largest", largest), ("/trace", trace)]
