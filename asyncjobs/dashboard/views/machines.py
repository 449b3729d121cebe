"""Who runs jobs and does duties, and what the doctor finds."""

from typing import Any, Final

from asyncjobs.admin import Admin
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.news import News
from asyncjobs.dashboard.visit import Page, Visit
from asyncjobs.dashboard.web import Response

_FORMER: Final = 20


async def _read(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news, query
    everybody = await admin.runners(former=_FORMER)
    return {
        "runners": [one for one in everybody if one.ended_at is None],
        "former": [one for one in everybody if one.ended_at is not None],
        "leases": await admin.leases(),
    }


async def doctor(visit: Visit) -> Response:
    """What is wrong, or soon will be."""
    visit.query.known([])
    return visit.page("doctor.html", symptoms=await visit.admin.doctor())


TOPICS: Final = [("/runners", Topic("runners", (), _read))]
PAGES: Final[list[tuple[str, Page]]] = [("/doctor", doctor)]
