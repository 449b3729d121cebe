"""The roll-ups over time, for charts."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from asyncjobs.store.database import Link, Record
from asyncjobs.store.metrics import FAILED, Counts, Percentiles, TypeMetrics, add, percentiles, type_metrics


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What attempts did in one step of time."""

    at: datetime  # where the step begins
    by_status: dict[str, int]  # what they made of their jobs: completed, failed, scheduled (snoozed), dead, cancelled
    queue_time: Percentiles
    run_time: Percentiles

    @property
    def attempts(self) -> int:
        """All of them."""
        return sum(self.by_status.values())

    @property
    def failed(self) -> int:
        """Those that raised, timed out, were lost with their runner, or gave up."""
        return sum(self.by_status.get(status, 0) for status in FAILED)


class History(msgspec.Struct, frozen=True):
    """The steps of a window, and each type by name in all of it."""

    steps: list[Step]
    types: list[TypeMetrics]


async def read(link: Link, type: str | None, queue: str | None, *, step_seconds: float, window_seconds: float) -> list[Step]:
    """The steps of the window, the oldest first, empty ones too. The last one is under way."""
    found: dict[datetime, Counts] = {}
    rows = await link.fetch("read_series", type, step_seconds, window_seconds, queue)
    for row in rows:
        if row["what"] != "now":
            add(found.setdefault(row["at"], {}), row)
    return _steps(found, _now(rows), step_seconds, window_seconds)


async def history(link: Link, *, step_seconds: float, window_seconds: float) -> History:
    """The steps over all types, and the types, from one reading: half the work of two."""
    by_step: dict[datetime, Counts] = {}
    by_type: dict[str, Counts] = {}
    rows = await link.fetch("read_history", step_seconds, window_seconds)
    for row in rows:
        if row["what"] != "now":
            counts = by_type.setdefault(row["job_type"], {}) if row["at"] is None else by_step.setdefault(row["at"], {})
            add(counts, row)
    types = [type_metrics(name, counts) for name, counts in sorted(by_type.items())]
    return History(_steps(by_step, _now(rows), step_seconds, window_seconds), types)


def _now(rows: Sequence[Record]) -> datetime:
    now: datetime = next(row["at"] for row in rows if row["what"] == "now")
    return now


def _steps(found: Mapping[datetime, Counts], now: datetime, step_seconds: float, window_seconds: float) -> list[Step]:
    last = now - timedelta(seconds=now.timestamp() % step_seconds)
    steps = [last - timedelta(seconds=step_seconds * back) for back in reversed(range(round(window_seconds / step_seconds)))]
    return [_step(at, found.get(at, {})) for at in steps]


def _step(at: datetime, counts: Counts) -> Step:
    queue_time, run_time = percentiles(counts, "queue"), percentiles(counts, "run")
    return Step(at=at, by_status=counts.get("status", {}), queue_time=queue_time, run_time=run_time)
