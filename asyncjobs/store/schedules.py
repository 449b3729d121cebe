"""Schedules: declaring them, seeing where they are, letting them tick, and what operators do with them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from asyncjobs.model.discreet import discreet
from asyncjobs.model.schedule import Due, Misfire, Overlap, Schedule, Timing
from asyncjobs.store.database import Link
from asyncjobs.store.reading import decoded_or

Outcome = Literal["fired", "taken", "locked", "overlapped", "duplicate", "skipped", "spent"]


class ScheduleChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What declaring did to the rows: names of schedules."""

    registered: bool  # False: the runner's own row is gone, and nothing was done
    added: list[str] = []
    changed: list[str] = []
    enabled: list[str] = []  # were disabled as removed, and are declared again
    removed: list[str] = []  # no runner that lives declares them: disabled
    differing: list[str] = []  # have a newer definition, which other runners declare


class ScheduleLook(msgspec.Struct, frozen=True):
    """Where a runner's schedules are."""

    now: datetime  # by the server's clock
    last_ticks: dict[str, datetime]  # of those that are enabled, or failed, and have the definition that this runner declared
    failed: set[str]  # of these: that could not tick
    led: set[str]  # of all: those that the holder of the lease fires
    ahead: list[str]  # those that would be silent for long, since the clock was put back
    declared: int  # how many it has declared
    is_stale: bool  # rows do not fit what runners declare: declare again


class Ticked(msgspec.Struct, frozen=True):
    """What became of a tick, or of several that were made up for."""

    outcome: Outcome
    job_ids: list[int]  # that it made


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule as it is now."""

    name: str
    type: str
    queue: str
    payload: Any
    serialization_key: str | None
    dedup_key: str | None
    cron: str | None
    every: timedelta | None
    timezone: str
    misfire: Misfire
    overlap: Overlap
    last_tick_at: datetime  # or since when it ticks
    next_tick_at: datetime | None  # None: it is disabled, or nothing comes within 50 years
    last_job_id: int | None
    enabled: bool
    disabled_because: Literal["operator", "removed", "failed"] | None
    disabled_reason: str | None
    runners: int  # that live and would let it tick
    created_at: datetime
    updated_at: datetime

    @property
    def has_ticked(self) -> bool:
        """Whether it ever did: `last_tick_at` of one that did not is since when it ticks."""
        return self.last_job_id is not None or self.last_tick_at > self.created_at

    def __repr__(self) -> str:
        return discreet(self, "payload")


class RunNow(msgspec.Struct, frozen=True):
    """The job that an operator asked a schedule for; `created` is False when a live job has its dedup key (0: refused)."""

    id: int
    created: bool
    queue: str


async def declare(link: Link, runner_id: int, schedules: Sequence[Schedule]) -> ScheduleChanges:
    """Declare all schedules of a runner, and hold the rows against what runners declare."""
    names, definitions = [one.name for one in schedules], [one.definition for one in schedules]
    (row,) = await link.fetch("declare_schedules", runner_id, names, definitions)
    return ScheduleChanges(**{name: value for name, value in row.items() if value is not None})


async def look(link: Link, runner_id: int) -> ScheduleLook:
    """Where the runner's schedules are."""
    (row,) = await link.fetch("look_at_schedules", runner_id)
    last_ticks: dict[str, datetime] = dict(zip(row["names"] or (), row["last_ticks"] or (), strict=True))
    return ScheduleLook(
        row["now"], last_ticks, set(row["failed"] or ()), set(row["led"] or ()), row["ahead"] or [],
        row["declared"], row["stale"],
    )  # fmt: skip


async def tick(link: Link, runner_id: int, name: str, last_tick: datetime, due: Due) -> Ticked:
    """Let a schedule tick, unless another runner did."""
    (row,) = await link.fetch("tick_schedule", name, runner_id, last_tick, due.reached, due.ticks, due.is_skipping)
    made = zip(row["ids"] or (), row["created"] or (), strict=True)
    return Ticked(row["outcome"], [job_id for job_id, created in made if created])


async def start(link: Link, runner_id: int, name: str) -> list[int]:
    """Make a schedule's job since its runner starts, unless another has; its id."""
    (row,) = await link.fetch("start_schedule", name, runner_id)
    return [job_id for job_id, created in zip(row["ids"] or (), row["created"] or (), strict=True) if created]


async def failed(link: Link) -> list[tuple[str, str]]:
    """Those that could not tick, and why."""
    return [(row["name"], row["reason"]) for row in await link.fetch("failed_schedules")]


async def reanchor(link: Link, name: str, last_tick: datetime) -> datetime | None:
    """Let a schedule begin anew whose last tick lies in the future; returns from when. None: another runner did, or it ticked."""
    row = await link.fetch_row("reanchor_schedule", name, last_tick)
    return None if row is None else row["last_tick"]


async def disable(link: Link, name: str, *, because: Literal["operator", "failed"], reason: str | None) -> bool:
    """Let a schedule tick no more. False: it was disabled, or there is none."""
    return await link.fetch_row("disable_schedule", name, because, reason) is not None


async def enable(link: Link, name: str) -> bool:
    """Let a schedule tick again, from now on. False: it was enabled, or there is none."""
    return await link.fetch_row("enable_schedule", name) is not None


async def run_now(link: Link, name: str) -> RunNow | None:
    """Make a schedule's job now. None: there is no such schedule."""
    row = await link.fetch_row("run_schedule", name)
    return None if row is None else RunNow(row["id"] or 0, row["created"], row["queue"])


async def listed(link: Link, name: str | None = None) -> list[ScheduleState]:
    """All schedules by name, or the one of this name."""
    return [_state(dict(row)) for row in await link.fetch("list_schedules", name)]


def _state(row: dict[str, Any]) -> ScheduleState:
    last_tick = row.pop("last_tick")
    payload = decoded_or(row.pop("payload"), None)
    next_tick = _next(row, last_tick) if row["enabled"] else None
    return ScheduleState(**row, payload=payload, last_tick_at=last_tick, next_tick_at=next_tick)


def _next(row: dict[str, Any], last_tick: datetime) -> datetime | None:
    every = row["every"]
    timing = Timing(cron=row["cron"], every=None if every is None else every.total_seconds(), timezone=row["timezone"])
    try:
        return timing.following(last_tick)
    except Exception:  # noqa: BLE001 - a row that a runner will find bad is shown all the same
        return None
