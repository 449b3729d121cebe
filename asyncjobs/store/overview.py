"""What operators look at first: how much of what is there, and whether anybody serves it."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from asyncjobs.model.job import Job
from asyncjobs.model.status import Status
from asyncjobs.store import limits, schedules
from asyncjobs.store.database import Link
from asyncjobs.store.jobs import to_job
from asyncjobs.store.leases import Fence, fetch_held
from asyncjobs.store.limits import LimitRow
from asyncjobs.store.workflows import OpenWorkflows, open_ones

#: Of a status with more jobs than that, those who look often are told what the roll-up counted.
MANY: Final = 10_000

_UNFINISHED: Final = ("pending", "scheduled", "waiting", "paused", "processing", "failed", "blocked")


class Count(msgspec.Struct, frozen=True):
    """The unfinished jobs of one queue, type and status."""

    queue: str
    type: str
    status: Status
    count: int
    oldest_at: datetime  # due since, or started at, or (waiting, blocked, paused) made at
    unserved: int  # of them, those that no live runner would take: not this queue, this type, or this version of a payload

    @property
    def served(self) -> bool:
        """Whether there are none of those."""
        return not self.unserved


class LaneUse(msgspec.Struct, frozen=True):
    """The slots of a queue's lane (None: its general slots) on one runner, and the jobs of that lane that run there.

    Jobs of a lane also take general slots, so more of them may run than the lane has slots. What the runner has claimed
    ahead of its slots (`Queue(prefetch=)`) is processing, but does not run.
    """

    queue: str
    lane: str | None
    runner_id: int
    slots: int
    in_use: int
    ahead: int = 0  # claimed ahead, waiting for a slot
    utilisation: float = 0.0  # running jobs per slot: 1.0 when all are taken, more when they take general slots, too

    def __post_init__(self) -> None:
        use = self.in_use / self.slots if self.slots else float(self.in_use > 0)
        msgspec.structs.force_setattr(self, "utilisation", use)


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How things are, in one look."""

    pending: int
    scheduled: int
    waiting: int  # behind others of their keys
    paused: int  # by an operator, by type or key; what a paused queue holds is pending
    processing: int  # running, or claimed ahead
    failed: int  # to be retried
    blocked: int  # they wait for other jobs of their workflows
    dead_letters: int  # that are not acknowledged
    halted_keys: int
    oldest_pending_age: timedelta | None  # since it was due
    lanes: list[LaneUse]
    counts: list[Count]  # the unfinished jobs by queue, type and status


class Glance(Stats, frozen=True, kw_only=True):
    """How things are, at little cost."""

    counted_at: datetime | None  # when statuses with more than 10,000 jobs were counted; None: all were just now


class Depths(msgspec.Struct, frozen=True):
    """The unfinished jobs by queue, type and status, as those see them who look often."""

    counts: list[Count]
    counted_at: datetime | None


class Depth(msgspec.Struct, frozen=True):
    """The unfinished jobs of one queue, type and status, with the age of the oldest (due, started or, waiting, made) by the
    server's clock.
    """

    queue: str
    type: str
    status: Status
    count: int
    oldest_age_seconds: float


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What there is now, as numbers."""

    depths: list[Depth]
    dead_letters: int  # that are not acknowledged
    halted_keys: int
    failed_schedules: int  # that could not make their jobs, and are tried again
    workflows: OpenWorkflows  # that have not ended
    limits: list[LimitRow]  # and totals of queues, and how they are used


class Sized(msgspec.Struct, frozen=True):
    """A job and how many bytes its payload has as JSON."""

    id: int
    type: str
    queue: str
    status: Status
    payload_bytes: int


async def largest(link: Link, limit: int, window: int) -> list[Sized]:
    """The largest payloads among the newest `window` jobs."""
    return [Sized(*row) for row in await link.fetch("largest_payloads", limit, window)]


async def sample(link: Link) -> Sample:
    """What there is now: six statements, of which none reads finished jobs, nor (while runners live) all of very many."""
    counted = (await depths(link)).counts
    (dead_letters,) = await link.fetch("open_dead_letters")
    (keys,) = await link.fetch("halted_keys")
    ages = [max((dead_letters["now"] - one.oldest_at).total_seconds(), 0.0) for one in counted]
    return Sample(
        depths=[Depth(one.queue, one.type, one.status, one.count, age) for one, age in zip(counted, ages, strict=True)],
        dead_letters=dead_letters["count"],
        halted_keys=keys["count"],
        failed_schedules=len(await schedules.failed(link)),
        workflows=await open_ones(link),
        limits=await limits.listed(link),
    )


async def lanes(link: Link) -> list[LaneUse]:
    """The slots of each queue, lane and runner, and what runs in them."""
    return [LaneUse(*row) for row in await link.fetch("lane_use")]


async def stats(link: Link) -> Stats:
    """How things are: four statements, of which none reads finished jobs."""
    return Stats(**await _summed(link, await counts(link)))


async def glance(link: Link) -> Glance:
    """How things are: four statements, of which none reads very many rows while runners live."""
    found = await depths(link)
    return Glance(**await _summed(link, found.counts), counted_at=found.counted_at)


async def _summed(link: Link, counted: list[Count]) -> dict[str, Any]:
    (dead_letters,) = await link.fetch("open_dead_letters")
    (keys,) = await link.fetch("halted_keys")
    number = {status: sum(one.count for one in counted if one.status == status) for status in _UNFINISHED}
    oldest = min((one.oldest_at for one in counted if one.status == "pending"), default=None)
    return {
        **number,
        "dead_letters": dead_letters["count"],
        "halted_keys": keys["count"],
        "oldest_pending_age": None if oldest is None else max(dead_letters["now"] - oldest, timedelta(0)),
        "lanes": await lanes(link),
        "counts": counted,
    }


async def depths(link: Link) -> Depths:
    """The unfinished jobs, of which at most 10,000 of a status are counted; where there are more, as the roll-up counted them.

    Without a roll-up, since no runner has lived for a while, all are counted.
    """
    rows = await link.fetch("depths", MANY)
    if any(row["is_partial"] for row in rows):
        return Depths(await counts(link), None)
    counted = [row["counted_at"] for row in rows if row["counted_at"] is not None]
    return Depths([Count(*tuple(row)[:6]) for row in rows], min(counted, default=None))


async def count_depths(link: Link, *, fence: Fence | None = None, timeout: float | None = None) -> None:
    """Make the roll-up of statuses with more than 10,000 unfinished jobs. LeaseLost when the term of `fence` is over."""
    await fetch_held(link, "count_depths", fence, MANY, timeout=timeout)


async def counts(link: Link) -> list[Count]:
    """The unfinished jobs by queue, type and status."""
    return [Count(*row) for row in await link.fetch("stats")]


async def trace(link: Link, correlation_id: str, limit: int) -> list[Job]:
    """The jobs of a correlation id in the order in which they were made."""
    return [to_job(row) for row in await link.fetch("trace", correlation_id, limit)]
