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
    queue = query.text("queue")
    span = WINDOWS[window]
    stats, history = await asyncio.gather(
        admin.glance(), news.look(("history", window), partial(_history, admin, span), fresh_seconds=span.fresh, lasts=True)
    )
    worries = await admin.worries(stats)
    found = {"stats": stats, "worries": worries, "window": window, "windows": WINDOWS, "type": type, "queue": queue, **history}
    if type is not None or queue is not None:
        of_some = partial(_of_some, admin, span, type, queue)
        found |= await news.look(("charts", window, type, queue), of_some, fresh_seconds=span.fresh, lasts=True)
    return found


async def _history(admin: Admin, span: Window) -> dict[str, Any]:
    history = await admin.history(window=span.seconds, step=span.step)
    return {"charts": _charts(history.steps), "types": sorted(history.types, key=lambda one: -one.attempts)}


async def _of_some(admin: Admin, span: Window, type: str | None, queue: str | None) -> dict[str, Any]:
    return {"charts": _charts(await admin.series(type=type, queue=queue, window=span.seconds, step=span.step))}


def _charts(steps: Sequence[Step]) -> list[charts.Chart]:
    return [
        charts.throughput(steps),
        charts.errors(steps),
        charts.latency(steps, name="Run time", of=lambda s: (s.run_time.p50, s.run_time.p95, s.run_time.p99)),
        charts.latency(steps, name="Time in queue", of=lambda s: (s.queue_time.p50, s.queue_time.p95, s.queue_time.p99)),
    ]


TOPICS: Final = [("/", Topic("overview", ("window", "type", "queue"), _read))]
