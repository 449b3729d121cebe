"""Serialization keys: how long their lines are, who is at the head, and what blocks them."""

from typing import Any, Final

from asyncjobs.admin import Admin
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.news import News
from asyncjobs.errors import KeyNotFound
from asyncjobs.model.explanation import Explanation

_LIMIT: Final = 50
_LINE: Final = 100


async def _read_many(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news
    after, stuck = query.text("after") or "", query.choice("stuck", ["age", "depth"])
    if stuck is not None:
        keys = await admin.stuck_keys(order="depth" if stuck == "depth" else "age", limit=_LIMIT)
        return {"keys": keys, "after": "", "next": None, "paused": [], "stuck": stuck}
    keys = await admin.keys(after=after, limit=_LIMIT)
    paused = [one for one in await admin.pauses() if one.kind == "key"]
    return {"keys": keys, "after": after, "next": keys[-1].key if len(keys) == _LIMIT else None, "paused": paused, "stuck": None}


async def _read_one(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news
    key = query.needed("key")
    pause = next((one for one in await admin.pauses() if one.kind == "key" and one.name == key), None)
    try:
        state = await admin.key(key)
    except KeyNotFound:
        return {"key": key, "state": None, "line": [], "pause": pause, "why": None, "most": _LINE}
    line = await admin.line(key, limit=_LINE)
    why: Explanation = await admin.explain(state.head_id)
    return {"key": key, "state": state, "line": line, "pause": pause, "why": why, "most": _LINE}


TOPICS: Final = [("/keys", Topic("keys", ("after", "stuck"), _read_many)), ("/key", Topic("key", ("key",), _read_one))]
