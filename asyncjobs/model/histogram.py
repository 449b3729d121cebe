"""Durations counted in buckets, from which percentiles are read to within 2 %, whatever their number.

Bucket n holds the durations above G^(n-1) microseconds and up to G^n, with G = 1.04. A percentile is given as the value between
a bucket's ends whose relative distance from both is the same: (G - 1) / (G + 1), just under 2 %. (The scheme is DDSketch's:
Masson, Rim and Lee, 2019.) Histograms add up bucket by bucket, so those of several runners and minutes make one. Minutes and
microseconds are some 450 buckets apart; only the filled ones are kept.
"""

from collections.abc import Mapping
from math import ceil, log
from typing import Final

GROWTH: Final = 1.04

_LOG_GROWTH: Final = log(GROWTH)
_MICROSECONDS: Final = 1e6
#: What lies beyond 10^9 seconds is counted with those.
_LONGEST: Final = 1e15
_LAST: Final = ceil(log(_LONGEST) / _LOG_GROWTH)


def bucket(seconds: float) -> int:
    """The bucket of a duration. Everything up to a microsecond is in bucket 0."""
    microseconds = seconds * _MICROSECONDS
    if microseconds <= 1.0:
        return 0
    return ceil(log(microseconds) / _LOG_GROWTH) if microseconds < _LONGEST else _LAST


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
