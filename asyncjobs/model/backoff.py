"""How long a failed job waits for its next attempt: exponential, with jitter, never above a maximum."""

from collections.abc import Callable
from math import ldexp

import msgspec

from asyncjobs.errors import ConfigurationError
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.outcome import Duration

JITTER = 0.1  # jobs that failed together do not come back together


class _Base(msgspec.Struct, frozen=True):
    base: Duration = 1


class Backoff(_Base, frozen=True, kw_only=True):
    """`base * 2 ** (attempt - 1)` seconds after a failed attempt, give or take 10 %, never above `maximum`.

    `Backoff(0)` retries at once. ConfigurationError for a negative or infinite duration, or a maximum below the base.
    """

    maximum: Duration = 300

    def __post_init__(self) -> None:
        try:
            base = duration_seconds(self.base, name="Backoff(base)")
            maximum = duration_seconds(self.maximum, name="Backoff(maximum)")
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        if maximum < base:
            raise ConfigurationError(f"Backoff: maximum={self.maximum!r} is below base={self.base!r}.")

    def delay_seconds(self, attempt: int, random: Callable[[], float]) -> float:
        """The wait after this attempt (the first is 1); `random` draws from [0, 1)."""
        maximum = duration_seconds(self.maximum, name="Backoff(maximum)")
        try:
            # Unlike `2 ** n`, which makes a number of any length, this overflows; attempts may go up to two thousand million.
            wanted = ldexp(duration_seconds(self.base, name="Backoff(base)"), max(attempt, 1) - 1)
        except OverflowError:
            wanted = maximum
        jitter = 1 + JITTER * (2 * random() - 1)
        return min(min(wanted, maximum) * jitter, maximum)
