"""The first page: how things are, and how attempts fared over time."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from asyncjobs.admin import Admin
from asyncjobs.dashboard import charts
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.news import News
from asyncjobs.store.series import Step

#: How far back charts go, and their steps: seconds.
WINDOWS: Final[Mapping[str, tuple[str, float, float]]] = {
    "1h": ("1 hour", 3_600.0, 60.0),
    "24h": ("1 day", 86_400.0, 3_600.0),
    "7d": ("1 week", 604_800.0, 21_600.0),
    "30d": ("30 days", 2_592_000.0, 86_400.0),
}
_HISTORY_SECONDS: Final = 15.0  # roll-ups are written twice a minute


async def _read(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    window, type = query.choice("window", list(WINDOWS)) or "1h", query.text("type")
    glance, drawn, types = await asyncio.gather(
        admin.glance(),
        news.look(("charts", window, type), partial(_drawn, admin, window, type), fresh_seconds=_HISTORY_SECONDS),
        news.look(("types", window), partial(_types, admin, window), fresh_seconds=_HISTORY_SECONDS),
    )
    return {"glance": glance, "summary": glance.summary, "window": window, "windows": WINDOWS, "type": type, **drawn, **types}


async def _drawn(admin: Admin, window: str, type: str | None) -> dict[str, Any]:
    _, seconds, step = WINDOWS[window]
    return {"charts": _charts(await admin.series(type=type, window=seconds, step=step))}


async def _types(admin: Admin, window: str) -> dict[str, Any]:
    _, seconds, _ = WINDOWS[window]
    return {"types": sorted(await admin.metrics(window=seconds), key=lambda one: -one.attempts)}


def _charts(steps: Sequence[Step]) -> list[charts.Chart]:
    return [
        charts.throughput(steps),
        charts.errors(steps),
        charts.latency(steps, name="Run time", of=lambda s: (s.run_time.p50, s.run_time.p95, s.run_time.p99)),
        charts.latency(steps, name="Time in queue", of=lambda s: (s.queue_time.p50, s.queue_time.p95, s.queue_time.p99)),
    ]


TOPICS: Final = [("/", Topic("overview", ("window", "type"), _read))]
