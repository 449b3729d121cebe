"""The clock by which a process trusts itself and observes others: it never steps, and goes on while the machine is suspended."""

import time


def boottime() -> float:
    """Seconds on CLOCK_BOOTTIME; where a system lacks it, on the monotonic clock."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
