"""What operators hold back: queues, types and keys."""

from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from asyncjobs.store.database import Link

Kind: TypeAlias = Literal["queue", "type", "key", "all"]

#: The name of the one pause of kind "all": every queue there is, or will be.
ALL: Final = "all"


class Pause(msgspec.Struct, frozen=True):
    """One thing that is paused."""

    kind: Kind
    name: str
    reason: str | None
    paused_by: str | None
    paused_at: datetime


class Paused(msgspec.Struct, frozen=True):
    """What a pause found."""

    is_new: bool  # False: it was paused already, and that stands as it was
    served: bool  # a live runner serves a queue, or has a handler for a type, of this name


class Converged(msgspec.Struct, frozen=True):
    """What one call changed, where jobs became pending, and whether there may be more to change."""

    held: int
    resumed: int
    queues: list[str]
    more: bool


async def pause(link: Link, kind: Kind, name: str, reason: str | None, by: str | None) -> Paused:
    """Write down a pause. What is under way may still start something: `wait_for_claims`, for a key `serialized.hold_back`."""
    (row,) = await link.fetch("pause", kind, name, reason, by)
    return Paused(row["paused"], row["served"])


async def wait_for_claims(link: Link) -> None:
    """Wait until the claims of all runners have ended that are under way now. SQLSTATE 55P03 after two seconds."""
    await link.fetch("wait_for_claims")


async def resume(link: Link, kind: Kind, name: str) -> bool:
    """Take the pause of a queue, a type or all away; whether there was one."""
    (row,) = await link.fetch("resume", kind, name)
    return bool(row["resumed"])


async def pauses(link: Link) -> list[Pause]:
    """All of them, the oldest first."""
    return [Pause(*row) for row in await link.fetch("list_pauses")]


async def converge(link: Link, batch: int, *, window: int, grace_seconds: float) -> Converged:
    """Make at most about `batch` rows say what is paused."""
    (row,) = await link.fetch("converge_pauses", batch, window, grace_seconds)
    return Converged(row["held"], row["resumed"], row["queues"], row["more"])


async def processing(link: Link, kind: Kind, name: str) -> int:
    """How many jobs of it run."""
    (row,) = await link.fetch("count_processing", kind, name)
    return int(row["count"])
