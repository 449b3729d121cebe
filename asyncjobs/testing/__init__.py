"""For tests of apps that use asyncjobs, and of itself: a recorder of events, an auditor of the promises, a checker of histories,
a movable clock.
"""

from asyncjobs.testing.attempts import Attempt, Recorded, Violation
from asyncjobs.testing.auditor import Auditor, PromiseBroken, install_line
from asyncjobs.testing.clock import MovableClock
from asyncjobs.testing.history import Applied, History, Joined, Written
from asyncjobs.testing.recorder import Recorder

__all__ = [
    "Applied",
    "Attempt",
    "Auditor",
    "History",
    "Joined",
    "MovableClock",
    "PromiseBroken",
    "Recorded",
    "Recorder",
    "Violation",
    "Written",
    "install_line",
]
