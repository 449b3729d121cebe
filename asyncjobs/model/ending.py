"""How a job ended, as far as a caller that waits for many needs it: a row of `ended_among.sql`."""

import msgspec

from asyncjobs.model.job import Job
from asyncjobs.model.status import Status


class Ending(msgspec.Struct, frozen=True):
    """One job that has ended, or is not there."""

    id: int
    status: Status | None = None  # None: there is no such job
    type: str | None = None
    result: str | None = None  # JSON text
    result_dropped: str | None = None
    job: Job | None = None  # of one that ended without a result: its row


class AwaitedKind(msgspec.Struct, frozen=True):
    """One of the jobs that a handler waits for and that have not started: a row of `awaited_kinds.sql`."""

    id: int
    type: str
    queue: str
    lane: str | None
    is_behind: bool  # it has the handler's own key
