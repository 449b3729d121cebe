"""Workflows: which there are, and each as a picture, drawn here: a browser without JavaScript sees it, too."""

from typing import Any, Final

from asyncjobs.admin import Admin
from asyncjobs.dashboard.forms import Fields, an_id
from asyncjobs.dashboard.graphs import draw
from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.news import News

_LIMIT: Final = 50
_MEMBERS: Final = 100
_DRAWN: Final = 10_000  # members: more are not read for a picture


async def _read_many(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news
    name, before = query.text("name"), query.id("before")
    only_open = query.choice("state", ["open", "all"]) == "open"
    found = await admin.workflows(name=name, only_open=only_open, before=before, limit=_LIMIT)
    following = found[-1].id if len(found) == _LIMIT else None
    return {"workflows": found, "name": name, "before": before, "only_open": only_open, "next": following}


async def _read_one(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news
    flow_id, after = an_id(query.needed("id")), query.text("after")
    flow = await admin.workflow(flow_id)
    last = -1 if after is None else an_id(after, "after")
    members = await admin.members(flow_id, after=last, limit=_MEMBERS)
    return {
        "flow": flow, "picture": draw(await admin.workflow_graph(flow_id, limit=_DRAWN)), "drawn": min(flow.size, _DRAWN),
        "counts": await admin.member_counts(flow_id), "members": members, "after": after,
        "next": members[-1].number if len(members) == _MEMBERS else None,
    }  # fmt: skip


TOPICS: Final = [
    ("/workflows", Topic("workflows", ("name", "state", "before"), _read_many)),
    ("/workflows/{id:int}", Topic("workflow", ("id", "after"), _read_one)),
]
