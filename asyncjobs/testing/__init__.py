"""For tests of apps that use asyncjobs, and of itself: a recorder of events, an auditor of the promises, a movable clock."""

from asyncjobs.testing.attempts import Attempt, Recorded, Violation
from asyncjobs.testing.auditor import Auditor, PromiseBroken, install_line
from asyncjobs.testing.clock import MovableClock
from asyncjobs.testing.recorder import Recorder

__all__ = ["Attempt", "Auditor", "MovableClock", "PromiseBroken", "Recorded", "Recorder", "Violation", "install_line"]
