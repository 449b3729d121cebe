"""Dead letters: those that nobody has acknowledged, and all others."""

from typing import Final

from asyncjobs.dashboard.filters import LETTER_FIELDS, letter_filter, said
from asyncjobs.dashboard.views.job import moments
from asyncjobs.dashboard.visit import Page, Visit
from asyncjobs.dashboard.web import Response

_LIMIT: Final = 50


async def letters(visit: Visit) -> Response:
    """A page of the dead letters that fit."""
    query = visit.query.known([*LETTER_FIELDS, "before"])
    found = await visit.admin.dead_letters(before=query.id("before"), limit=_LIMIT, **letter_filter(query))
    return visit.page(
        "dead.html", letters=found.letters, next=found.next, looked=found.looked, query=query,
        said_filter=said(query, LETTER_FIELDS), is_first=query.id("before") is None,
    )  # fmt: skip


async def letter(visit: Visit) -> Response:
    """One dead letter, with the job as it was when it died."""
    query = visit.query.known(["id"])
    detail = await visit.admin.dead_letter(query.id("id") or 0)
    return visit.page("letter.html", letter=detail.letter, job=detail.job, moments=moments(detail.job))


PAGES: Final[list[tuple[str, Page]]] = [("/dead", letters), ("/dead/{id:int}", letter)]
