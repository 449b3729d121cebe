"""Jobs whose time has come: promoting them, learning when the next one is due, and whether anything is to be done now."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_lock_timeout


class Promoted(msgspec.Struct, frozen=True, kw_only=True):
    """What one call did."""

    count: int = 0
    queues: list[str] = []  # of each job that became pending
    urgent: frozenset[str] = frozenset()  # of these, where one has a better priority than most
    opened: list[str] = []  # where keys of limits were opened: any number of jobs may be claimed
    keys: list[str] = []  # with due jobs that have to join their key's line
    next_due_seconds: float | None = None  # from now on; None: nothing is scheduled
    skipped: bool = False  # something is due that others hold
    expired: list[tuple[int, str]] = []  # ids and types of jobs that were ended instead; not among the `count`


class Reached(msgspec.Struct, frozen=True):
    """How far a call got, for the next one to go on from there; and what finding the due jobs cost the server."""

    at: datetime
    scan_seconds: float


async def promote(
    link: Link,
    batch: int,
    *,
    since: datetime | None = None,
    blocked: Sequence[str] = (),
    aside: Sequence[int] = (),
    only: Sequence[int] | None = None,
) -> tuple[Promoted, Reached]:
    """Make at most `batch` due jobs pending, but for those `aside`; or `only` these. `blocked` keys are left out of the answer's
    `keys`.

    `since` is how far an earlier call reached; jobs that are due since before are found without it only.
    """
    (row,) = await link.fetch("promote", batch, since, list(blocked), list(aside) or None, None if only is None else list(only))
    promoted = Promoted(
        count=row["promoted"] or 0,
        queues=row["queues"] or [],
        urgent=frozenset(row["urgent_queues"] or ()),
        opened=row["opened"] or [],
        keys=row["keys"],
        next_due_seconds=row["next_due_seconds"],
        skipped=row["skipped"],
        expired=ended(row["expired"]),
    )
    return promoted, Reached(row["reached_at"], row["scan_seconds"])


async def due_ids(link: Link, batch: int, *, since: datetime | None, aside: Sequence[int]) -> list[int]:
    """The jobs that a `promote` would look at."""
    return [row["id"] for row in await link.fetch("due_ids", batch, since, list(aside))]


async def promote_keyed(link: Link, keys: Sequence[str], batch: int) -> Promoted | None:
    """Let at most `batch` due jobs of these keys join their lines. None: a stranger's transaction holds one of the keys."""
    try:
        (row,) = await link.fetch("promote_keyed", list(keys), batch)
    except Exception as error:
        if is_lock_timeout(error):
            return None
        raise
    urgent = frozenset(row["urgent_queues"] or ())
    return Promoted(count=row["promoted"], queues=row["queues"] or [], urgent=urgent, expired=ended(row["expired"]))


def ended(text: str | None) -> list[tuple[int, str]]:
    """The ids and types of jobs that were ended since they had expired, as the database tells them."""
    return [] if text is None else msgspec.json.decode(text, type=list[tuple[int, str]])


async def has_work(
    link: Link, runner_id: int, queues: Mapping[str, Sequence[str] | None], types: Sequence[str], versions: Mapping[str, int]
) -> bool:
    """Whether a runner of these queues (each with its only lanes, None: any), types and versions has something to do now."""
    (row,) = await link.fetch(
        "has_work", runner_id, msgspec.json.encode(queues).decode(), list(types), msgspec.json.encode(versions).decode()
    )
    return bool(row["has_work"])
