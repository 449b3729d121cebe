"""Jobs that waited although they could have run (P4): nothing kept them, and a runner that served their queue had a free slot.

A job may start when it is there and due, when all that stand in front of it in its key's line are over, and when no pause
holds it back. It is late when after that moment slots of its queue were free for longer than what a wake-up takes, without a
break, in runners that could claim: confirmed, and known to be there. Busy slots, and times in which no runner could claim, are
nobody's fault.

When a runner could claim is said by who knows what befell it (`Serving`); when jobs came to be due, by who enqueued them
(`Ready`). Retries and snoozes are due by what their attempts say.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from asyncjobs.testing.attempts import Attempt

_NEVER = float("inf")

Stretch: TypeAlias = tuple[float, float]


class Ready(NamedTuple):
    """A job was there, and due, at the latest at this moment."""

    job_id: int
    at: float
    queue: str


class Serving(NamedTuple):
    """A runner might claim from a queue during this time, for so many slots (those of lanes left out)."""

    runner_id: int
    queue: str
    slots: int
    since: float
    until: float = _NEVER


def idle_seconds(queue: str, since: float, until: float, serving: Iterable[Serving], attempts: Sequence[Attempt]) -> float:
    """The longest time within these moments in which a slot of the queue was free all the time, in one runner or another."""
    longest = 0.0
    ends_at = begins_at = since
    for begin, end in sorted(stretch for one in serving if one.queue == queue for stretch in _free(one, since, until, attempts)):
        if begin > ends_at:
            begins_at = begin
        ends_at = max(ends_at, end)
        longest = max(longest, ends_at - begins_at)
    return longest


def _free(one: Serving, since: float, until: float, attempts: Sequence[Attempt]) -> Iterator[Stretch]:
    """When this runner had a free slot."""
    since, until = max(since, one.since), min(until, one.until)
    if since >= until:
        return
    changes: list[tuple[float, int]] = [(until, one.slots)]
    for attempt in attempts:
        if attempt.runner_id == one.runner_id and attempt.queue == one.queue:
            changes += [(attempt.started_at, 1), (_NEVER if attempt.ended_at is None else attempt.ended_at, -1)]
    taken, at = 0, since
    for moment, change in sorted(changes):
        if moment > at:
            if taken < one.slots:
                yield at, min(moment, until)
            at = moment
        if at >= until:
            return
        taken += change
