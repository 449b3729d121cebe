"""What operators did: who, what, to what, why and when."""

from typing import Final, cast, get_args

from asyncjobs.dashboard.filters import said
from asyncjobs.dashboard.visit import Page, Visit
from asyncjobs.dashboard.web import Response
from asyncjobs.model.audit import AuditFilter, Via

_LIMIT: Final = 50
_FIELDS: Final = ("by", "verb", "target", "via", "since", "until")
_VIAS: Final[tuple[str, ...]] = get_args(Via)


async def audit(visit: Visit) -> Response:
    """A page of the trail."""
    query = visit.query.known([*_FIELDS, "before"])
    which = AuditFilter(
        by=query.text("by"), verb=query.text("verb"), target=query.text("target"),
        via=cast("Via | None", query.choice("via", _VIAS)), since=query.instant("since"), until=query.instant("until"),
    )  # fmt: skip
    found = await visit.admin.audit(before=query.id("before"), limit=_LIMIT, **which)
    return visit.page(
        "audit.html", found=found, query=query, vias=_VIAS, said_filter=said(query, _FIELDS), is_first=query.id("before") is None
    )


PAGES: Final[list[tuple[str, Page]]] = [("/audit", audit)]
