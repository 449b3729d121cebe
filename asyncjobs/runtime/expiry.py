"""Jobs that expire (P18), in a runner. Whether one has expired is the database's to say, and only there are they ended
(`store/routines/expiry`).

What a runner has claimed may expire before it starts: it waits for a slot, or its answer was late. By the clock of this process,
which went on meanwhile, that is told without asking: the claim said how long it had left, and is no older than its call. So a
runner may find that a moment too early, by what its call took, and never too late. It gives the job back with its attempt, and
the next claim decides, by the server's clock.

A call that met jobs that have expired has ended these and others: tasks that wait for their end are told.
"""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import msgspec

from asyncjobs.model.claim import Claimed, Finished
from asyncjobs.runtime.clock import boottime
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.telemetry.events import Events, JobsExpired

_expires: Final = attrgetter("expires_epoch")


def has_expired(job: Claimed) -> bool:
    """Whether it must not start here any more."""
    return job.expires_epoch is not None and boottime() >= job.start_by


def with_deadlines(finished: Finished, sent_at: float) -> Finished:
    """The answer with when its jobs have to start, of a call that was sent at this moment."""
    claimed = (*finished.claimed, *finished.followers) if finished.followers else finished.claimed
    if not any(map(_expires, claimed)) and not any(_expires(job) for job, _ in finished.asking):
        return finished
    return msgspec.structs.replace(
        finished,
        claimed=[_timed(job, sent_at) for job in finished.claimed],
        followers=[_timed(job, sent_at) for job in finished.followers],
        asking=[(_timed(job, sent_at), on_dead) for job, on_dead in finished.asking],
    )


def _timed(job: Claimed, sent_at: float) -> Claimed:
    if job.expires_epoch is None:
        return job
    return msgspec.structs.replace(job, start_by=sent_at + job.expires_epoch - job.started_epoch)


def tell_expired(ended: Sequence[tuple[int, str]], wakes: Wakes, events: Events) -> None:
    """Tell of jobs (ids and types) that have been ended: tasks that wait for them, and the sinks."""
    for job_id, _ in ended:
        wakes.ended(job_id)
    for type, count in Counter(type for _, type in ended).items():
        events.emit(JobsExpired(type=type, count=count))
