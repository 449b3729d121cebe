"""What became of the events: a table per event type, and the one line that says whether any was lost."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import quantiles

import asyncpg
import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from asyncjobs import Job
from examples.webhooks.receiver import Arrival


class Fate(msgspec.Struct, frozen=True):
    """What is known of one event that was accepted: its type, its job as it ended, and how often it arrived."""

    type: str
    job: Job
    deliveries: int  # by the receiver's own log
    is_dead_letter: bool

    @property
    def is_lost(self) -> bool:
        """Neither delivered nor among the dead letters."""
        return not self.deliveries and not self.is_dead_letter

    @property
    def queue_ms(self) -> float:
        """How long the job waited for a slot once it was due (before its last attempt, if there were several)."""
        if self.job.started_at is None:
            return 0.0
        return max(0.0, (self.job.started_at - self.job.run_at).total_seconds() * 1_000)


class Tally(msgspec.Struct, frozen=True):
    """The figures of the last line."""

    enqueued: int
    completed: int
    dead: int
    lost: int
    overlapped: int = 0
    out_of_order: int = 0

    def is_perfect(self, events: int) -> bool:
        """Whether all `events` were accepted, each was delivered or is a dead letter, one at a time and in order."""
        in_line = not self.overlapped and not self.out_of_order
        return self.enqueued == events == self.completed + self.dead and not self.lost and in_line

    def __str__(self) -> str:
        return (
            f"demo: enqueued={self.enqueued} completed={self.completed} dead={self.dead} lost={self.lost} "
            f"overlapped={self.overlapped} out_of_order={self.out_of_order}"
        )


def tally(fates: Sequence[Fate], arrived: Sequence[Arrival] = ()) -> Tally:
    """Count what became of the accepted events, and how they arrived."""
    ended = Counter(fate.job.status for fate in fates)
    overlapped = sum(arrival.overlapped for arrival in arrived)
    lost = sum(fate.is_lost for fate in fates)
    return Tally(len(fates), ended["completed"], ended["dead"], lost, overlapped, out_of_order(arrived))


def out_of_order(arrived: Iterable[Arrival]) -> int:
    """How many deliveries came after one of a later job. A failed one is repeated before the next one comes."""
    latest: dict[str, int] = {}
    count = 0
    for arrival in arrived:
        count += arrival.job < latest.get(arrival.destination, 0)
        latest[arrival.destination] = max(arrival.job, latest.get(arrival.destination, 0))
    return count


def show_table(console: Console, fates: Sequence[Fate]) -> None:
    """Print a row per event type and one for all."""
    table = Table(
        title="Webhooks, and the milliseconds they waited in the queue", title_justify="left", box=SIMPLE, padding=(0, 0, 0, 1)
    )
    table.add_column("event type", no_wrap=True)
    for heading in ("enqueued", "completed", "retried", "dead", "p50", "p95", "p99"):
        table.add_column(heading, justify="right")
    for kind in sorted({fate.type for fate in fates}):
        table.add_row(kind, *_figures([fate for fate in fates if fate.type == kind]))
    table.add_section()
    table.add_row("all", *_figures(fates), style="bold")
    console.print(table)
    repeated = sum(fate.deliveries > 1 for fate in fates)
    console.print(f"Arrived more than once: {repeated} (taken, but the answer was lost).")


async def dead_letters(dsn: str) -> set[int]:
    """The ids of the jobs that are kept as dead letters."""
    connection = await asyncpg.connect(dsn)
    try:
        return {row["job_id"] for row in await connection.fetch("SELECT job_id FROM asyncjobs.dead_letter_jobs")}
    finally:
        await connection.close()


def _figures(fates: Sequence[Fate]) -> list[str]:
    totals = tally(fates)
    retried = sum(fate.job.attempts > 1 for fate in fates)
    waits = _percentiles((fate.queue_ms for fate in fates), 50, 95, 99)
    return [*map(str, (totals.enqueued, totals.completed, retried, totals.dead)), *(f"{wait:,.0f}" for wait in waits)]


def _percentiles(values: Iterable[float], *percents: int) -> list[float]:
    known = sorted(values)
    if len(known) < 2:
        return [*known, 0.0][:1] * len(percents)
    cuts = quantiles(known, n=100, method="inclusive")
    return [cuts[percent - 1] for percent in percents]
