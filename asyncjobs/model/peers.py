"""In which order peers are called by a lot: the same for all of them that know of the same peers.

Each peer has some points on a ring, the lot is one more, and the order is that in which the peers' points follow it. A peer that
comes or goes moves none of the others' points: runners that do not know of it yet agree with those that do about all lots but
those that fall before it. Several points each, so that their shares are alike.
"""

from bisect import bisect_left
from collections.abc import Collection
from typing import Final

import msgspec

#: Lots are drawn below this.
LOTS: Final = 1 << 32
_POINTS: Final = 16
_MASK: Final = (1 << 64) - 1


class Lot(msgspec.Struct, frozen=True):
    """What a notification says of jobs that became pending: how many, the random number that says who is called, and how many
    runners in a row have passed them on, since they could claim none.
    """

    count: int
    draw: int
    passes: int = 0


class Peers:
    """The order of these as one of them sees it. One that is not among them, or alone, is always the first."""

    def __init__(self, ids: Collection[int], own: int) -> None:
        self._own = own
        self._ring: list[tuple[int, int]] = []
        if own in ids and len(ids) > 1:
            self._ring = sorted((_point(id, number), id) for id in ids for number in range(_POINTS))

    def place(self, draw: int, most: int) -> int | None:
        """How many come before this one; None: as many as `most`, or more."""
        ring = self._ring
        if not ring:
            return 0
        before = set[int]()
        at = bisect_left(ring, (draw, 0))
        for number in range(len(ring)):
            _, id = ring[(at + number) % len(ring)]
            if id == self._own:
                return len(before)
            before.add(id)
            if len(before) >= most:
                return None
        return None


def _point(id: int, number: int) -> int:
    """Well mixed (splitmix64, Steele, Lea and Flood 2014), the same in every process."""
    mixed = (id + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return (mixed ^ (mixed >> 31)) >> 32
