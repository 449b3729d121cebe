"""`asyncjobs stats`: how much waits, runs and failed, and how attempts fared."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from asyncjobs.cli import screen
from asyncjobs.cli.kit import Asked, Group, option, verb
from asyncjobs.model.status import in_words
from asyncjobs.store.metrics import TypeMetrics
from asyncjobs.store.overview import Count, LaneUse, Stats


class Told(Stats, frozen=True, kw_only=True):
    """What `stats` answers."""

    metrics: list[TypeMetrics]


def add_to(program: Group) -> None:
    """Declare the verb."""
    window = option(
        "--window", type=float, default=3600.0, metavar="SECONDS", show_default=True, help="How far back attempts count."
    )
    verb(program, "stats", window)(stats)


async def stats(asked: Asked, window: float) -> None:
    """Show the unfinished jobs by queue, type and status, the slots in use, and how attempts fared.

    Jobs under "unserved" wait for a runner that has a handler for them, and for the version of their payload.
    """
    admin = asked.admin
    stats = await admin.stats()
    found = Told(**msgspec.structs.asdict(stats), metrics=await admin.metrics(window=window))
    asked.answer(found, lambda: _text(found, window))


def _text(found: Told, window: float) -> str:
    numbers = msgspec.structs.asdict(found)
    parts = [screen.record(numbers | dict.fromkeys(("lanes", "counts", "metrics")))]
    if found.counts:
        parts.append(counts_table(found.counts))
    if found.lanes:
        parts.append(_lanes(found.lanes))
    if found.metrics:
        parts.append(f"attempts of the last {timedelta(seconds=window)}:\n{_metrics(found.metrics)}")
    return "\n\n".join(parts)


def counts_table(counts: Sequence[Count]) -> str:
    """The unfinished jobs by queue, type and status."""
    rows = [(one.queue, one.type, in_words(one.status), one.count, one.oldest_at, one.unserved) for one in counts]
    return screen.table(("queue", "type", "status", "jobs", "oldest", "unserved"), rows)


def _lanes(lanes: Sequence[LaneUse]) -> str:
    rows = [(one.queue, one.lane or "(general)", one.runner_id, one.slots, one.in_use, f"{one.utilisation:.0%}") for one in lanes]
    return screen.table(("queue", "lane", "runner", "slots", "in use", "utilisation"), rows)


def _metrics(metrics: Sequence[TypeMetrics]) -> str:
    rows = [
        (one.type, one.attempts, f"{one.error_rate:.1%}", one.queue_time.p50, one.queue_time.p95, one.run_time.p50,
         one.run_time.p95, one.run_time.p99)
        for one in metrics
    ]  # fmt: skip
    return screen.table(("type", "attempts", "errors", "queued p50", "queued p95", "run p50", "run p95", "run p99"), rows)
