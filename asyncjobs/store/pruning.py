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
    audit: float = 90 * 86_400.0  # what operators did
    types: Mapping[str, float] = {}  # completed and cancelled jobs of these types

    def times(self) -> tuple[float | list[str] | list[float], ...]:
        """As `prune` takes them."""
        seconds = self.completed, self.cancelled, self.dead_letters, self.runners, self.audit
        return *seconds, list(self.types), list(self.types.values())


class Pruned(msgspec.Struct, frozen=True):
    """How many rows of which kind one call deleted, and whether there may be more."""

    jobs: int
    dead_letters: int
    runners: int
    dedup_keys: int
    more: bool
    audit: int = 0  # what operators did
    failures: tuple[str, ...] = ()  # kinds that could not be pruned, and why

    @property
    def rows(self) -> int:
        """All of them."""
        return self.jobs + self.dead_letters + self.runners + self.dedup_keys + self.audit

    def in_words(self) -> str:
        """How many of what."""
        what = (
            (self.jobs, "ended jobs"), (self.dead_letters, "acknowledged dead letters"), (self.runners, "former runners"),
            (self.dedup_keys, "dedup keys"), (self.audit, "entries of the audit"),
        )  # fmt: skip
        return ", ".join(f"{count:,} {name}" for count, name in what)

    def check(self) -> None:
        """AsyncJobsError when a kind could not be pruned."""
        if self.failures:
            raise AsyncJobsError(f"not all could be pruned: {'; '.join(self.failures)}.")


async def prune(link: Link, keep: Keep, batch: int, fence: Fence | None = None) -> Pruned:
    """Delete at most `batch` rows of each kind (for jobs: of each type). LeaseLost when the term of `fence` is over.

    A kind that cannot be pruned keeps no other from it: it is in `failures`.
    """
    row = await fetch_held(link, "prune", fence, batch, *keep.times())
    counts = row["jobs"], row["dead_letters"], row["runners"], row["dedup_keys"]
    return Pruned(*counts, row["more"], row["audit"], tuple(row["failures"]))


async def prunable(link: Link, keep: Keep) -> Pruned:
    """How much there is to delete, about: what is locked, or a halted key needs, is counted and will be spared."""
    (row,) = await link.fetch("prunable", *keep.times(), timeout=300)
    return Pruned(row["jobs"], row["dead_letters"], row["runners"], row["dedup_keys"], any(row), row["audit"])
