"""The first page: how things are, and how attempts fared over time."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from asyncjobs.admin import Admin
from asyncjobs.dashboard import charts
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.news import News
from asyncjobs.store.series import Step


class Window(msgspec.Struct, frozen=True):
    """How far back charts go, and their steps; in seconds. Roll-ups are written twice a minute, and longer ones change less."""

    name: str
    seconds: float
    step: float
    fresh: float


WINDOWS: Final[Mapping[str, Window]] = {
    "1h": Window("1 hour", 3_600.0, 60.0, 15.0),
    "24h": Window("1 day", 86_400.0, 3_600.0, 60.0),
    "7d": Window("1 week", 604_800.0, 21_600.0, 300.0),
    "30d": Window("30 days", 2_592_000.0, 86_400.0, 300.0),
}


async def _read(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    window, type = query.choice("window", list(WINDOWS)) or "1h", query.text("type")
    span = WINDOWS[window]
    stats, drawn, types = await asyncio.gather(
        admin.glance(),
        news.look(("charts", window, type), partial(_drawn, admin, span, type), fresh_seconds=span.fresh, lasts=True),
        news.look(("types", window), partial(_types, admin, span), fresh_seconds=span.fresh, lasts=True),
    )
    return {"stats": stats, "window": window, "windows": WINDOWS, "type": type, **drawn, **types}


async def _drawn(admin: Admin, span: Window, type: str | None) -> dict[str, Any]:
    return {"charts": _charts(await admin.series(type=type, window=span.seconds, step=span.step))}


async def _types(admin: Admin, span: Window) -> dict[str, Any]:
    return {"types": sorted(await admin.metrics(window=span.seconds), key=lambda one: -one.attempts)}


def _charts(steps: Sequence[Step]) -> list[charts.Chart]:
    return [
        charts.throughput(steps),
        charts.errors(steps),
        charts.latency(steps, name="Run time", of=lambda s: (s.run_time.p50, s.run_time.p95, s.run_time.p99)),
        charts.latency(steps, name="Time in queue", of=lambda s: (s.queue_time.p50, s.queue_time.p95, s.queue_time.p99)),
    ]


TOPICS: Final = [("/", Topic("overview", ("window", "type"), _read))]
