"""Dead letters: those that nobody has acknowledged, and all others."""

from typing import Final

from asyncjobs.dashboard.filters import DEAD_LETTER_FIELDS, dead_letter_filter, said
from asyncjobs.dashboard.views.job import moments
from asyncjobs.dashboard.visit import Page, Visit
from asyncjobs.dashboard.web import Response

_LIMIT: Final = 50


async def dead_letters(visit: Visit) -> Response:
    """A page of the dead letters that fit."""
    query = visit.query.known([*DEAD_LETTER_FIELDS, "before"])
    found = await visit.admin.dead_letters(before=query.id("before"), limit=_LIMIT, **dead_letter_filter(query))
    return visit.page(
        "dead.html", dead_letters=found.dead_letters, next=found.next, looked=found.looked, query=query,
        said_filter=said(query, DEAD_LETTER_FIELDS), is_first=query.id("before") is None,
    )  # fmt: skip


async def errors(visit: Visit) -> Response:
    """What dead letters that nobody has acknowledged died of."""
    query = visit.query.known(["type", "since", "until"])
    kinds = await visit.admin.dead_letter_errors(
        type=query.text("type"), died_after=query.instant("since"), died_before=query.instant("until"), limit=_LIMIT
    )
    return visit.page("dead_errors.html", kinds=kinds, query=query)


async def dead_letter(visit: Visit) -> Response:
    """One dead letter, with the job as it was when it died."""
    query = visit.query.known(["id"])
    detail = await visit.admin.dead_letter(query.id("id") or 0)
    return visit.page("dead_letter.html", dead_letter=detail.dead_letter, job=detail.job, moments=moments(detail.job))


PAGES: Final[list[tuple[str, Page]]] = [("/dead", dead_letters), ("/dead/errors", errors), ("/dead/{id:int}", dead_letter)]
