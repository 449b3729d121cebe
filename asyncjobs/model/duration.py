"""Durations come in as seconds or as timedeltas and go on as seconds."""

from datetime import timedelta
from math import isfinite

from asyncjobs.model.names import kind_of, shown
from asyncjobs.model.outcome import Duration

#: Longer than anybody waits, and far inside what a PostgreSQL interval or timestamp can hold.
LONGEST_SECONDS = 100 * 366 * 86_400.0


def duration_seconds(value: Duration, *, name: str, positive: bool = False) -> float:
    """The duration in seconds. ValueError with words for the user unless it is finite, at least 0 and at most a century.

    With `positive`, 0 is refused, too. A bool is not a number of seconds.
    """
    seconds = _seconds(value, name)
    if not isfinite(seconds):
        raise ValueError(f"{name}={shown(value)} is not a finite number of seconds.")
    if seconds < 0 or (positive and seconds == 0):
        raise ValueError(f"{name}={shown(value)} must be {'more than' if positive else 'at least'} 0 seconds.")
    if seconds > LONGEST_SECONDS:
        raise ValueError(f"{name}={shown(value)} is longer than 100 years.")
    return seconds


def _seconds(value: object, name: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    raise ValueError(f"{name}={shown(value)} is {kind_of(value)}: give seconds or a timedelta.")
