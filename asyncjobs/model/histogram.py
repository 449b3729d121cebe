"""Durations counted in buckets, from which percentiles are read to within 2 %, whatever their number.

Bucket n holds the durations above G^(n-1) microseconds and up to G^n, with G = 1.04. A percentile is given as the value between
a bucket's ends whose relative distance from both is the same: (G - 1) / (G + 1), just under 2 %. (The scheme is DDSketch's:
Masson, Rim and Lee, 2019.) Histograms add up bucket by bucket, so those of several runners and minutes make one. Minutes and
microseconds are some 450 buckets apart; only the filled ones are kept.
"""

from bisect import bisect_left
from collections.abc import Mapping
from math import ceil, log
from typing import Final

GROWTH: Final = 1.04

_MICROSECONDS: Final = 1e6
#: What lies beyond 10^9 seconds is counted with those.
_LAST: Final = ceil(log(1e15) / log(GROWTH))
#: The longest duration of each bucket but the last. (To look it up takes a third of what a logarithm takes.)
_LONGEST: Final = [GROWTH**number / _MICROSECONDS for number in range(_LAST)]


def bucket(seconds: float) -> int:
    """The bucket of a duration. Everything up to a microsecond is in bucket 0."""
    return bisect_left(_LONGEST, seconds)


def middle_seconds(number: int) -> float:
    """The duration that a bucket stands for."""
    return 2.0 * GROWTH**number / (GROWTH + 1.0) / _MICROSECONDS


def percentile(histogram: Mapping[int, int], fraction: float) -> float | None:
    """The duration in seconds that this fraction of all does not exceed (the nearest rank); None when there are none."""
    total = sum(histogram.values())
    if not total:
        return None
    rank = min(max(ceil(fraction * total), 1), total)
    for number in sorted(histogram):
        rank -= histogram[number]
        if rank <= 0:
            return middle_seconds(number)
    raise AssertionError("unreachable: the rank is at most the total")
