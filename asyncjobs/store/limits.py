"""Limits: what programs declare and operators set of them, what fills and closes their keys."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from asyncjobs.store.database import Link

LimitKind = Literal["limit", "queue"]


class LimitRow(msgspec.Struct, frozen=True):
    """A limit, or the total of a queue: what counts now, who said so, and how it is used."""

    kind: LimitKind
    name: str
    total: int | None
    each: int | None
    every_seconds: float | None  # of a rate: from one start to the next
    burst: int | None
    weight: float
    by_hand: dict[str, Any]  # of these what an operator has set
    set_by: str | None
    set_at: datetime | None
    declared_at: datetime
    running: int
    waiting: int  # jobs that are pending, at most so many as are counted
    oldest_age_seconds: float  # of these, since it was due
    keys: int  # with something waiting
    full_keys: int  # of which as many run as may
    closed_keys: int  # not before a time, by their rate or by what a service said
    throttled_keys: int  # of these by what a service said
    idle_seconds: float  # for how long a job has waited for a permit that is free, at most
    differing: list[int]  # living runners that declare it otherwise: what was declared last counts


class KeyRow(msgspec.Struct, frozen=True):
    """A key of a limit: what it has and what it waits for."""

    key: str
    running: int
    waiting: int
    is_full: bool
    opens_at: datetime | None  # closed until then
    closed_by: int | None  # the job that a service had told so
    oldest_at: datetime | None  # since when its first job is due


async def declare(link: Link, limits: Sequence[Mapping[str, Any]], runner_id: int) -> list[str]:
    """Write down what a program declares, as this runner; the names of those that others had declared otherwise."""
    row = await link.fetch_row("declare_limits", msgspec.json.encode(limits).decode(), runner_id)
    return [] if row is None else list(row["changed"] or ())


async def throttle(link: Link, job_id: int, token: int, seconds: float) -> bool:
    """Close the key of a job that runs for so long. False: it has no limit, or the claim is another's."""
    row = await link.fetch_row("throttle_key", job_id, token, seconds)
    return row is not None and bool(row["is_closed"])


async def sweep(link: Link, after: str | None, most: int) -> tuple[str | None, int]:
    """Ask for keys to be opened that are closed though they should not be; where to go on, and how many there were."""
    row = await link.fetch_row("sweep_limits", after, most)
    return (None, 0) if row is None else (row["reached"], row["requested"])


async def listed(link: Link) -> list[LimitRow]:
    """All limits, and totals of queues."""
    return [_limit(dict(row)) for row in await link.fetch("list_limits", 10_000)]


def _limit(row: dict[str, Any]) -> LimitRow:
    row |= {"by_hand": msgspec.json.decode(row["by_hand"]), "differing": list(row["differing"])}
    return LimitRow(**row)


async def keys_of(link: Link, name: str, most: int) -> list[KeyRow]:
    """The keys of a limit that have something waiting or running."""
    return [KeyRow(**dict(row)) for row in await link.fetch("list_limit_keys", name, most)]


async def change(link: Link, kind: LimitKind, name: str, values: Mapping[str, Any] | None, by: str | None) -> bool:
    """Set an operator's values, or (None) let what is declared count again. False: there is no such limit."""
    text = None if values is None else msgspec.json.encode(values).decode()
    row = await link.fetch_row("set_limit", kind, name, text, by)
    return row is not None and bool(row["is_set"])


async def open_key(link: Link, key: str) -> bool:
    """Open a key that a service or its rate has closed. False: there is no such key."""
    row = await link.fetch_row("open_limit_key", key)
    return row is not None and bool(row["is_opened"])
