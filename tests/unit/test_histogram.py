import math
from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from asyncjobs.model.histogram import bucket, middle_seconds, percentile

DURATIONS = st.floats(min_value=2e-6, max_value=1e8)


@given(st.lists(DURATIONS, min_size=1, max_size=300), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
@example([1e-3] * 99 + [10.0], 0.99)
def test_a_percentile_is_within_two_percent_of_the_one_of_the_sorted_durations(durations: list[float], fraction: float) -> None:
    exact = sorted(durations)[max(math.ceil(fraction * len(durations)), 1) - 1]
    found = percentile(Counter(map(bucket, durations)), fraction)
    assert found is not None
    assert abs(found - exact) <= 0.0197 * exact


@given(st.lists(DURATIONS, min_size=1), st.lists(DURATIONS, min_size=1))
def test_histograms_add_up(ours: list[float], theirs: list[float]) -> None:
    assert Counter(map(bucket, ours)) + Counter(map(bucket, theirs)) == Counter(map(bucket, ours + theirs))


def test_the_ends_of_the_scale() -> None:
    assert bucket(0.0) == bucket(-1.0) == bucket(1e-6) == 0
    assert bucket(1e9) == bucket(1e12)
    assert middle_seconds(bucket(1e9)) > 0.9e9
    assert percentile({}, 0.95) is None
    assert bucket(60.0) - bucket(1e-6) < 460
