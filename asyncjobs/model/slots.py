"""The room of one queue on one runner: how many attempts may run, and which of the slots are kept for a lane.

Every take and return checks the sum (P13): free + taken = concurrency, and no pool of slots goes below zero or above its size.
"""

from collections.abc import Mapping


class SlotsError(AssertionError):
    """The slots do not add up: a defect of asyncjobs, never of a job."""


class Slots:
    """Slots by lane; the lane None stands for the general slots, which take jobs of any lane."""

    def __init__(self, concurrency: int, lanes: Mapping[str, int] | None = None) -> None:
        self._size: dict[str | None, int] = {None: concurrency - sum((lanes or {}).values())}
        self._size.update(lanes or {})
        self._free = dict(self._size)
        self._all_free = concurrency
        self.concurrency = concurrency
        self.taken = 0

    @property
    def lanes(self) -> list[str | None]:
        """The lanes in the order in which claims fill them: kept slots first, so that general ones stay free for the others."""
        return [*(lane for lane in self._size if lane is not None), None]

    @property
    def sizes(self) -> dict[str, int]:
        """How many slots there are of each kind, the general ones under ""."""
        return {lane or "": size for lane, size in self._size.items()}

    def free(self, lane: str | None) -> int:
        """Free slots of the lane's own, or (None) general ones."""
        return self._free[lane]

    @property
    def any_free(self) -> bool:
        """Whether any slot is free."""
        return self.taken < self.concurrency

    def take(self, lane: str | None) -> None:
        """One attempt more runs in a slot of this kind."""
        self._free[lane] -= 1
        self._all_free -= 1
        self.taken += 1
        if self._free[lane] < 0 or self._all_free + self.taken != self.concurrency:
            raise self._error(lane)

    def give_back(self, lane: str | None) -> None:
        """An attempt that ran in a slot of this kind has ended."""
        self._free[lane] += 1
        self._all_free += 1
        self.taken -= 1
        if self._free[lane] > self._size[lane] or self._all_free + self.taken != self.concurrency:
            raise self._error(lane)

    def _error(self, lane: str | None) -> SlotsError:
        return SlotsError(f"slots {self._free} + {self.taken} taken of {self._size}, after a change of {lane!r}")
