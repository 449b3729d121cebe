"""For tests of apps that use asyncjobs, and of itself. pytest is not needed; its plugin is `asyncjobs.testing.plugin`.

perform             run one handler in memory, without a database
captured            keep in memory what a block enqueues
in_memory           keep all jobs of an app in memory, and run them there
run_until_idle      run what is due in a database, until nothing is
assert_enqueued, refute_enqueued    what was enqueued, in a database or a captured block
*_sync              the same in a plain `def` test
override            point an app at a test's database, or let it run nothing by itself
clear               forget all jobs
server, databases   a PostgreSQL for tests, and a fresh database for each
Proxy               break, silence and slow down the connections to a database, by what they are for
MovableClock        move the clock that decides what is due
Recorder, Auditor, History          what happened, and whether the promises held
"""

from asyncjobs.testing.asserting import assert_enqueued, assert_enqueued_sync, refute_enqueued, refute_enqueued_sync
from asyncjobs.testing.attempts import Attempt, Recorded, Violation
from asyncjobs.testing.auditor import Auditor, PromiseBroken, install_line
from asyncjobs.testing.captured import Captured, captured
from asyncjobs.testing.clearing import clear, clear_sync
from asyncjobs.testing.clock import MovableClock
from asyncjobs.testing.databases import Databases, databases
from asyncjobs.testing.history import Applied, Held, History, Joined, Written
from asyncjobs.testing.idle import run_until_idle, run_until_idle_sync
from asyncjobs.testing.in_memory import in_memory
from asyncjobs.testing.late import Ready, Serving
from asyncjobs.testing.overriding import override
from asyncjobs.testing.perform import perform
from asyncjobs.testing.proxy import Proxy
from asyncjobs.testing.recorder import Recorder
from asyncjobs.testing.server import server

__all__ = [
    "Applied",
    "Attempt",
    "Auditor",
    "Captured",
    "Databases",
    "Held",
    "History",
    "Joined",
    "MovableClock",
    "PromiseBroken",
    "Proxy",
    "Ready",
    "Recorded",
    "Recorder",
    "Serving",
    "Violation",
    "Written",
    "assert_enqueued",
    "assert_enqueued_sync",
    "captured",
    "clear",
    "clear_sync",
    "databases",
    "in_memory",
    "install_line",
    "override",
    "perform",
    "refute_enqueued",
    "refute_enqueued_sync",
    "run_until_idle",
    "run_until_idle_sync",
    "server",
]
