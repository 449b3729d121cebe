"""The roll-up of attempts: written by every runner, folded by one, read by operators."""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from math import isfinite
from typing import Final, TypeAlias

import msgspec

from asyncjobs.model.histogram import bucket, percentile
from asyncjobs.store.database import Link, Record
from asyncjobs.store.leases import Fence, fetch_held

_Histogram = defaultdict[int, int]

#: What is counted (`status`, `queue`, `run`) -> status or bucket -> how often.
Counts: TypeAlias = dict[str, dict[str, int]]

#: What attempts make of their jobs when they fail.
FAILED: Final = ("failed", "dead")


class Tally(msgspec.Struct):
    """Attempts of one type with one ending: how many, and how long they had waited and ran."""

    count: int = 0
    queue_seconds: float = 0.0
    run_seconds: float = 0.0
    queue_time: _Histogram = msgspec.field(default_factory=partial(_Histogram, int))
    run_time: _Histogram = msgspec.field(default_factory=partial(_Histogram, int))

    def add(self, queued_seconds: float, run_seconds: float) -> None:
        """Count one attempt. A clock that was put back does not make the time that it had waited negative. A wait that has no
        number (a stranger's row may have been due at no time at all) is no time: it would be one for all that are added to it.
        """
        self.count += 1
        self.run_seconds += run_seconds
        self.run_time[bucket(run_seconds)] += 1
        if isfinite(queued_seconds):
            if queued_seconds > 0.0:
                self.queue_seconds += queued_seconds
            self.queue_time[bucket(queued_seconds)] += 1


class Percentiles(msgspec.Struct, frozen=True):
    """Seconds that half, 95 % and 99 % do not exceed, to within 2 %; None where nothing was measured."""

    p50: float | None
    p95: float | None
    p99: float | None


class TypeMetrics(msgspec.Struct, frozen=True):
    """What attempts of one type did within a window of time."""

    type: str
    attempts: int
    failed: int  # of these: that raised, timed out, were lost with their runner, or gave up
    by_status: dict[str, int]  # what they made of their jobs: completed, failed, scheduled (snoozed), dead, cancelled
    queue_time: Percentiles  # from when the job was due to when the attempt started
    run_time: Percentiles

    @property
    def error_rate(self) -> float:
        """Failed attempts by attempts, from 0 to 1."""
        return self.failed / self.attempts


async def record(link: Link, tallies: Mapping[tuple[str, str], Tally], *, timeout: float | None = None) -> None:
    """Add these, by type and status, to the rows of this minute."""
    # One text: for arrays of numbers asyncpg asks the catalogs first, six statements on a connection that may be used once.
    rows = [{"job_type": type, "status": status, **msgspec.structs.asdict(tally)} for (type, status), tally in tallies.items()]
    await link.fetch("record_metrics", msgspec.json.encode(rows).decode(), timeout=timeout)


async def fold(
    link: Link, *, minutes: float, hours: float, quarters: float, days: float, fence: Fence | None = None
) -> tuple[int, bool]:
    """Fold the oldest of the rows that were kept so many seconds; how many rows that took, and whether to call again.

    LeaseLost when the term of `fence` is over.
    """
    row = await fetch_held(link, "fold_metrics", fence, minutes, hours, quarters, days)
    return row["folded"] + row["deleted"], row["more"]


async def read(link: Link, type: str | None, window_seconds: float) -> list[TypeMetrics]:
    """By type, by name. Old rows span up to a day: all of the span counts when its end is in the window."""
    by_type: dict[str, Counts] = {}
    for row in await link.fetch("read_metrics", type, window_seconds):
        add(by_type.setdefault(row["job_type"], {}), row)
    return [type_metrics(name, counts) for name, counts in sorted(by_type.items())]


def add(counts: Counts, row: Record) -> None:
    """Note a row that says how often something (`name`, of the kind `what`) was."""
    counts.setdefault(row["what"], {})[row["name"]] = row["count"]


def percentiles(counts: Counts, what: str) -> Percentiles:
    """The percentiles of the histogram of this kind."""
    histogram = {int(bucket): count for bucket, count in counts.get(what, {}).items()}
    return Percentiles(*(percentile(histogram, fraction) for fraction in (0.5, 0.95, 0.99)))


def type_metrics(type: str, counts: Counts) -> TypeMetrics:
    """What these counts say of a type."""
    by_status = counts["status"]
    return TypeMetrics(
        type=type,
        attempts=sum(by_status.values()),
        failed=sum(by_status.get(status, 0) for status in FAILED),
        by_status=dict(sorted(by_status.items())),
        queue_time=percentiles(counts, "queue"),
        run_time=percentiles(counts, "run"),
    )
