"""Who runs jobs and does duties, and what the doctor finds."""

from typing import Any, Final

from asyncjobs.admin import Admin
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.news import News
from asyncjobs.dashboard.visit import Page, Visit
from asyncjobs.dashboard.web import Response

_FORMER: Final = 20
_DOCTOR_SECONDS: Final = 5.0


async def _read(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news, query
    everybody = await admin.runners(former=_FORMER)
    return {
        "runners": [one for one in everybody if one.ended_at is None],
        "former": [one for one in everybody if one.ended_at is not None],
        "leases": await admin.leases(),
    }


async def doctor(visit: Visit) -> Response:
    """What is wrong, or soon will be: one visit of the doctor's for all who look within some seconds."""
    visit.query.known([])

    async def read() -> dict[str, Any]:
        return {"symptoms": await visit.admin.doctor()}

    return visit.page("doctor.html", **await visit.site.news.look(("doctor",), read, fresh_seconds=_DOCTOR_SECONDS))


TOPICS: Final = [("/runners", Topic("runners", (), _read))]
PAGES: Final[list[tuple[str, Page]]] = [("/doctor", doctor)]
