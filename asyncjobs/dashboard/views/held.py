"""Schedules, circuit breakers and limits."""

from typing import Any, Final

from asyncjobs.admin import Admin
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.news import News

#: Of so many limits the keys are shown, and so many of each: those whose first job waits for longest.
_MOST_LIMITS: Final = 20
_MOST_KEYS: Final = 50


async def _schedules(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news, query
    return {"schedules": await admin.schedules()}


async def _breakers(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news, query
    return {"breakers": await admin.breakers()}


async def _limits(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news, query
    limits = await admin.limits()
    keys = {one.name: await admin.limit_keys(one.name, most=_MOST_KEYS) for one in limits[:_MOST_LIMITS] if one.kind == "limit"}
    return {"limits": limits, "keys": keys, "most_keys": _MOST_KEYS}


TOPICS: Final = [
    ("/schedules", Topic("schedules", (), _schedules)), ("/breakers", Topic("breakers", (), _breakers)),
    ("/limits", Topic("limits", (), _limits)),
]  # fmt: skip
