"""Schedules and circuit breakers."""

from typing import Any, Final

from asyncjobs.admin import Admin
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.news import News


async def _schedules(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news, query
    return {"schedules": await admin.schedules()}


async def _breakers(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del news, query
    return {"breakers": await admin.breakers()}


TOPICS: Final = [("/schedules", Topic("schedules", (), _schedules)), ("/breakers", Topic("breakers", (), _breakers))]
