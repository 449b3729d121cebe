"""Operators' verbs: `jobs.admin`. The command line and the dashboard can do nothing that is not here.

Every verb says what it found and did: a `Verb` with its outcome and the status that the job had before. A job that is final never
changes, except by an explicit `retry`. There is one file per concern; `Admin` is all of them.
"""

from typing import final

from asyncjobs.admin.breakers import Breakers
from asyncjobs.admin.dead_letters import DeadLetters
from asyncjobs.admin.doctor import Doctor
from asyncjobs.admin.finding import Finding
from asyncjobs.admin.keys import Keys
from asyncjobs.admin.limits import Limits
from asyncjobs.admin.listing import Listing
from asyncjobs.admin.pauses import Pauses
from asyncjobs.admin.pruning import Pruning
from asyncjobs.admin.schedules import Schedules
from asyncjobs.admin.trail import Trail
from asyncjobs.admin.workflows import Workflows

__all__ = ["Admin"]


@final
class Admin(Finding, Keys, DeadLetters, Pauses, Schedules, Breakers, Limits, Pruning, Workflows, Doctor, Listing, Trail):
    """What operators do. The app must be open; it need not run jobs."""
