"""The clock by which a process trusts itself and observes others: it never steps, and goes on while the machine is suspended."""

import time
from typing import Final

#: A timer that fires a moment early finds nothing yet, and costs a second look: so it is set a moment late.
TIMER_MARGIN_SECONDS: Final = 0.001

if hasattr(time, "CLOCK_BOOTTIME"):

    def boottime() -> float:
        """Seconds on CLOCK_BOOTTIME; where a system lacks it, on the monotonic clock."""
        # Looked up with each call: a simulated world has a clock of its own.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    boottime = time.monotonic
