"""The roll-ups over time, for charts."""

from datetime import datetime, timedelta

import msgspec

from asyncjobs.model.histogram import percentile
from asyncjobs.store.database import Link
from asyncjobs.store.metrics import Percentiles


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
        return self.by_status.get("failed", 0) + self.by_status.get("dead", 0)


async def read(link: Link, type: str | None, *, step_seconds: float, window_seconds: float) -> list[Step]:
    """The steps of the window, the oldest first, empty ones too. The last one is under way."""
    (clock,) = await link.fetch("clock_read")
    found: dict[datetime, dict[str, dict[str, int]]] = {}
    for row in await link.fetch("read_series", type, step_seconds, window_seconds):
        found.setdefault(row["at"], {}).setdefault(row["what"], {})[row["name"]] = row["count"]
    seconds = clock["now"].timestamp()
    last = seconds - seconds % step_seconds
    zone = clock["now"].tzinfo
    steps = [
        datetime.fromtimestamp(last, zone) - timedelta(seconds=step_seconds * number)
        for number in reversed(range(round(window_seconds / step_seconds)))
    ]
    return [_step(at, found.get(at, {})) for at in steps]


def _step(at: datetime, found: dict[str, dict[str, int]]) -> Step:
    return Step(
        at=at,
        by_status=found.get("status", {}),
        queue_time=_percentiles(found.get("queue", {})),
        run_time=_percentiles(found.get("run", {})),
    )


def _percentiles(counts: dict[str, int]) -> Percentiles:
    histogram = {int(bucket): count for bucket, count in counts.items()}
    return Percentiles(*(percentile(histogram, fraction) for fraction in (0.5, 0.95, 0.99)))
