"""The clock by which a process trusts itself and observes others: it never steps, and goes on while the machine is suspended."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

#: Seconds on CLOCK_BOOTTIME; where a system lacks it, on the monotonic clock. No function of ours: each attempt asks for it.
boottime: Final[Callable[[], float]] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
