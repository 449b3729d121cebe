"""The waits between attempts: exponential, jittered, bounded, whatever the numbers."""

import random

from hypothesis import given
from hypothesis import strategies as st

from asyncjobs import Backoff


def middle() -> float:
    return 0.5


def test_it_doubles_from_the_base_to_the_maximum() -> None:
    backoff = Backoff(2, maximum=30)
    assert [backoff.delay_seconds(attempt, middle) for attempt in range(1, 7)] == [2, 4, 8, 16, 30, 30]


def test_jitter_is_a_tenth_either_way_and_never_goes_above_the_maximum() -> None:
    backoff = Backoff(10, maximum=20)
    assert backoff.delay_seconds(1, lambda: 0.0) == 9
    assert round(backoff.delay_seconds(1, lambda: 1.0), 9) == 11
    assert backoff.delay_seconds(2, lambda: 1.0) == 20
    assert backoff.delay_seconds(9, lambda: 0.0) == 18


def test_a_base_of_nothing_retries_at_once() -> None:
    assert [Backoff(0).delay_seconds(attempt, random.random) for attempt in (1, 50, 2**31)] == [0, 0, 0]


@given(
    base=st.floats(min_value=0, max_value=1e9),
    factor=st.floats(min_value=1, max_value=3),
    attempt=st.integers(min_value=-5, max_value=2**31),
    drawn=st.floats(min_value=0, max_value=1, exclude_max=True),
)
def test_no_attempt_number_overflows(base: float, factor: float, attempt: int, drawn: float) -> None:
    maximum = min(base * factor, 3e9)
    delay = Backoff(base, maximum=maximum).delay_seconds(attempt, lambda: drawn)
    assert 0 <= delay <= maximum
    if attempt <= 1:
        assert delay <= base * 1.1 + 1e-9
