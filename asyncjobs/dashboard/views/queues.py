"""Queues, their lanes and types: what is in them, who takes from them, and what is held back."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from asyncjobs.admin import Admin
from asyncjobs.dashboard.forms import Fields
from asyncjobs.dashboard.live import Topic
from asyncjobs.dashboard.news import News
from asyncjobs.model.status import Status
from asyncjobs.store.overview import Count, LaneUse
from asyncjobs.store.pauses import Pause

LIVE: Final[tuple[Status, ...]] = ("pending", "processing", "scheduled", "failed", "waiting", "paused", "blocked")


class LaneRow(msgspec.Struct):
    """The slots of one lane on all runners; `name` is None for the queue's general ones."""

    name: str | None
    slots: int = 0
    in_use: int = 0
    ahead: int = 0
    runners: int = 0


class Line(msgspec.Struct):
    """What is in one queue, or of one type in it."""

    name: str
    jobs: dict[str, int] = {}
    oldest_at: datetime | None = None  # of those that are pending
    served: bool = True
    pause: Pause | None = None
    lanes: list[LaneRow] = []
    types: "list[Line]" = []


async def _read(admin: Admin, news: News, query: Fields) -> dict[str, Any]:
    del query, news
    glance, pauses = await admin.glance(), await admin.pauses()
    found = lines(glance.counts, glance.lanes, pauses)
    return {"queues": found, "pauses": pauses, "statuses": LIVE, "counted_at": glance.counted_at}


def lines(counts: Sequence[Count], lanes: Sequence[LaneUse], pauses: Sequence[Pause]) -> list[Line]:
    """Queues by name, with their lanes and types."""
    paused = {(one.kind, one.name): one for one in pauses}
    in_queue: defaultdict[str, list[Count]] = defaultdict(list)
    of_queue: defaultdict[str, list[LaneUse]] = defaultdict(list)
    for count in counts:
        in_queue[count.queue].append(count)
    for use in lanes:
        of_queue[use.queue].append(use)
    names = sorted({*in_queue, *of_queue, *(one.name for one in pauses if one.kind == "queue")})
    found: list[Line] = []
    for name in names:
        line = _line(name, in_queue[name], paused.get(("queue", name)))
        line.lanes = _lanes(of_queue[name])
        for type in sorted({count.type for count in in_queue[name]}):
            line.types.append(_line(type, [one for one in in_queue[name] if one.type == type], paused.get(("type", type))))
        found.append(line)
    return found


def _line(name: str, counts: Sequence[Count], pause: Pause | None) -> Line:
    jobs: defaultdict[str, int] = defaultdict(int)
    for count in counts:
        jobs[count.status] += count.count
    oldest = min((one.oldest_at for one in counts if one.status == "pending"), default=None)
    return Line(name, dict(jobs), oldest, all(one.served for one in counts), pause, [], [])


def _lanes(uses: Sequence[LaneUse]) -> list[LaneRow]:
    found: dict[str | None, LaneRow] = {}
    for use in uses:
        lane = found.setdefault(use.lane, LaneRow(use.lane))
        lane.slots += use.slots
        lane.in_use += use.in_use
        lane.ahead += use.ahead
        lane.runners += 1
    return sorted(found.values(), key=lambda lane: (lane.name is not None, lane.name or ""))


TOPICS: Final = [("/queues", Topic("queues", (), _read))]
