"""Deleting what has been kept for long enough."""

from collections.abc import Mapping

import msgspec

from asyncjobs.errors import AsyncJobsError
from asyncjobs.store.database import Link
from asyncjobs.store.leases import Fence, fetch_held


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """For how many seconds what is kept after its end."""

    completed: float
    cancelled: float
    dead_letters: float  # since they were acknowledged; their jobs go with them
    runners: float
    types: Mapping[str, float] = {}  # completed and cancelled jobs of these types


class Pruned(msgspec.Struct, frozen=True):
    """How many rows of which kind one call deleted, and whether there may be more."""

    jobs: int
    dead_letters: int
    runners: int
    dedup_keys: int
    more: bool
    failures: tuple[str, ...] = ()  # kinds that could not be pruned, and why

    def check(self) -> None:
        """AsyncJobsError when a kind could not be pruned."""
        if self.failures:
            raise AsyncJobsError(f"not all could be pruned: {'; '.join(self.failures)}.")


async def prune(link: Link, keep: Keep, batch: int, fence: Fence | None = None) -> Pruned:
    """Delete at most `batch` rows of each kind (for jobs: of each type). LeaseLost when the term of `fence` is over.

    A kind that cannot be pruned keeps no other from it: it is in `failures`.
    """
    times = (keep.completed, keep.cancelled, keep.dead_letters, keep.runners, list(keep.types), list(keep.types.values()))
    row = await fetch_held(link, "prune", fence, batch, *times)
    counts = row["jobs"], row["dead_letters"], row["runners"], row["dedup_keys"]
    return Pruned(*counts, row["more"], tuple(row["failures"]))


async def prunable(link: Link, keep: Keep) -> Pruned:
    """How much there is to delete, about: what is locked, or a halted key needs, is counted and will be spared."""
    times = (keep.completed, keep.cancelled, keep.dead_letters, keep.runners, list(keep.types), list(keep.types.values()))
    (row,) = await link.fetch("prunable", *times, timeout=300)
    return Pruned(row["jobs"], row["dead_letters"], row["runners"], row["dedup_keys"], more=any(row))
