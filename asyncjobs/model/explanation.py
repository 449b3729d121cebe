"""Why is this job not running? One answer for each state that a job can be in: the first thing that has to change before it runs.

What is asked, in this order: has it ended, does it run, or wait for a slot of the runner that has claimed it ahead, does it wait
behind its key's head (then the head is explained, too), does it wait for other
jobs of its workflow (then the oldest of those is), is it not due, is it held back, is its queue paused, does anybody
serve it, and its payload's version, is its circuit breaker open, is its limit's key closed or full, are all slots taken that
lanes leave to it, may it have killed its runner; and if none of that, it waits for a slot.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from asyncjobs.model.probation import probation_seconds
from asyncjobs.model.status import FINAL, Status
from asyncjobs.model.workflow import Missing

Reason: TypeAlias = Literal[
    "ended", "running", "claimed ahead", "runner lost", "runner stopped", "behind", "key halted", "not due", "due", "paused",
    "no runner",
    "no runner for queue", "no handler", "no runner for both", "newer version", "moving", "breaker open", "limit closed",
    "limit full", "queue full", "lane full", "suspect", "waiting for a slot", "blocked",
]  # fmt: skip


class Room(msgspec.Struct, frozen=True):
    """The slots that a job may take where its queue keeps some for lanes, on all runners that live."""

    own: int  # kept for its lane
    general: int
    free: int  # of both


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What stands between a job and a permit of its limit, or of its queue's total."""

    key: str | None  # None: only the queue has a total
    each: int | None = None
    total: int | None = None
    running: int = 0  # of the key
    ids: Sequence[int] = ()  # some of these
    running_of_limit: int = 0
    opens_at: datetime | None = None  # closed until then
    closed_by: int | None = None  # a service had told this job so
    queue_total: int | None = None
    running_in_queue: int | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a job and its surroundings."""

    job_id: int
    status: Status
    queue: str
    type: str
    lane: str | None
    key: str | None
    run_at: datetime
    start_before: datetime | None = None  # when it expires
    now: datetime  # by the server's clock
    runner_id: int | None
    runner_is_alive: bool
    runner_stopped_at: datetime | None = None  # since when that runner stops by itself, or stopped
    is_ahead: bool = False  # it is processing, and waits for a slot of that runner
    started_at: datetime | None
    completed_at: datetime | None
    error_message: str | None
    runners: int
    serving_queue: int
    serving_type: int
    serving: int  # both
    declared_at: datetime | None = None  # when a runner declared its type last; None: none ever did
    version: int  # of its payload
    newest_version: int | None  # that one of those can run
    losses: int = 0  # with its runner, in a row
    suspicion: int = 0  # whether it may have been what killed them
    ahead: int  # pending jobs of the queue that come first; of a suspect: suspects
    running: int  # in the queue
    room: Room | None = None  # None: its queue keeps no slots for lanes
    head_id: int | None  # of the key's line
    halted_at: datetime | None
    halt_reason: str | None
    breaker: str | None = None  # the service whose circuit breaker holds the type back
    breaker_since: datetime | None = None
    breaker_until: datetime | None = None  # when a probe is let through; None: when it is reset
    use: Use | None = None  # None: it has no limit, nor has its queue a total
    pauses: Sequence[tuple[str, str, str | None, str | None, datetime]]  # kind, name, reason, by, since
    missing: Sequence[Missing] = ()  # what it waits for, if it is blocked

    @property
    def in_the_way(self) -> int | None:
        """The job that has to end before: the head of its key's line, or the oldest of those that it waits for."""
        if self.status == "waiting" and self.head_id != self.job_id:
            return self.head_id
        return self.missing[0].oldest_id if self.missing else None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job does not run, as data and as a sentence."""

    job_id: int
    status: Status
    reason: Reason
    sentence: str
    since: datetime | None = None  # for how long this has been so
    until: datetime | None = None  # when it changes by itself
    expires_at: datetime | None = None  # later it is not started any more
    ahead: int | None = None  # jobs that come first
    head: "Explanation | None" = None  # of the key's line: what it waits for


def explain(facts: Facts, head: Explanation | None = None) -> Explanation:
    """The explanation; `head` is that of the head of its key's line, for a job that waits behind it."""
    if facts.status in FINAL:
        return _ended(facts)
    if facts.status == "processing":
        return _running(facts)
    told = _waiting(facts, head)
    if facts.start_before is None:
        return told
    sentence = f"{told.sentence} It expires at {facts.start_before:%Y-%m-%d %H:%M:%S %Z}."
    return msgspec.structs.replace(told, sentence=sentence, expires_at=facts.start_before)


def _waiting(facts: Facts, head: Explanation | None) -> Explanation:
    if facts.status == "waiting":
        return _behind(facts, head)
    if facts.status == "blocked":
        return _blocked(facts, head)
    if facts.status in {"scheduled", "failed"}:
        return _later(facts)
    if facts.status == "paused" or any(kind in {"queue", "all"} for kind, *_ in facts.pauses):
        return _held(facts)
    return _unserved(facts) or _broken(facts) or _throttled(facts) or _crowded(facts) or _suspected(facts) or _in_line(facts)


def _explained(
    facts: Facts,
    reason: Reason,
    sentence: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    ahead: int | None = None,
    head: Explanation | None = None,
) -> Explanation:
    return Explanation(
        job_id=facts.job_id,
        status=facts.status,
        reason=reason,
        sentence=f"Job {facts.job_id} ({facts.type}): {sentence}",
        since=since,
        until=until,
        ahead=ahead,
        head=head,
    )


def _ended(facts: Facts) -> Explanation:
    why = f": {facts.error_message}" if facts.error_message else ""
    return _explained(facts, "ended", f"it is {facts.status}{why}.", since=facts.completed_at)


def _running(facts: Facts) -> Explanation:
    if facts.runner_is_alive and facts.is_ahead:
        follows = facts.head_id is not None and facts.head_id != facts.job_id
        waits = f"with job {facts.head_id}, behind which it stands in its key's line" if follows else "waiting for a slot"
        sentence = f"it is claimed ahead by runner {facts.runner_id}, {waits}."
        return _explained(facts, "claimed ahead", sentence, since=facts.started_at)
    if facts.runner_stopped_at is not None:
        return _stopped(facts, facts.runner_stopped_at)
    if facts.runner_is_alive:
        return _explained(facts, "running", f"it runs, on runner {facts.runner_id}.", since=facts.started_at)
    sentence = f"its runner {facts.runner_id} is gone: it is taken back by the next rescue, if another runner lives."
    return _explained(facts, "runner lost", sentence, since=facts.started_at)


def _stopped(facts: Facts, at: datetime) -> Explanation:
    if facts.runner_is_alive:
        sentence = (
            f"it runs, on runner {facts.runner_id}, which stops since {at:%Y-%m-%d %H:%M:%S %Z}: if it does not end there, it is "
            "given back with its attempt when that process is gone."
        )
    else:
        sentence = (
            f"its runner {facts.runner_id} stopped, and its process is gone: it is given back with its attempt by the next "
            "rescue, if another runner lives."
        )
    return _explained(facts, "runner stopped", sentence, since=at)


def _behind(facts: Facts, head: Explanation | None) -> Explanation:
    if facts.halted_at is not None:
        sentence = f'its key "{facts.key}" is halted by job {facts.head_id}, which is dead: {facts.halt_reason}.'
        return _explained(
            facts, "key halted", f"{sentence} Retry that job, or release the key.", since=facts.halted_at, head=head
        )
    if facts.head_id is None or facts.head_id == facts.job_id:
        held = _held(facts) if facts.pauses else None
        sentence = f'it is the next of its key "{facts.key}", and is being dispatched (within a sweep at the latest).'
        return held or _explained(facts, "moving", sentence)
    ahead = f" That one: {head.sentence.partition(': ')[2]}" if head is not None else ""
    sentence = f'it waits behind job {facts.head_id} of its key "{facts.key}".{ahead}'
    return _explained(facts, "behind", sentence, head=head)


def _blocked(facts: Facts, head: Explanation | None) -> Explanation:
    if not facts.missing or not facts.missing[0].missing:
        return _explained(
            facts, "moving", "what it waits for has ended, and it is being released (within a sweep at the latest)."
        )
    first = facts.missing[0]
    of = (
        f"{first.missing:,} of {first.size:,} jobs of {first.name or 'its workflow'}"
        if first.size > 1
        else first.name or "another"
    )
    sentence = f"it waits for {of}"
    if first.oldest_id is not None:
        sentence += f", {'the oldest is' if first.size > 1 else 'which is'} job {first.oldest_id}"
    cause = f": {head.sentence.partition(': ')[2]}" if head is not None else "."
    others = f" It waits for {len(facts.missing) - 1} more such." if len(facts.missing) > 1 else ""
    sentence += f"{cause}{others}"
    return _explained(facts, "blocked", sentence, head=head)


def _later(facts: Facts) -> Explanation:
    what = "its next attempt" if facts.status == "failed" else "it"
    if facts.run_at > facts.now:
        left = timedelta(seconds=round((facts.run_at - facts.now).total_seconds()))
        sentence = f"{what} is due at {facts.run_at:%Y-%m-%d %H:%M:%S %Z}, in {left}."
        if facts.runners and not facts.serving_type:
            sentence += f" Then it waits all the same: {_undeclared(facts)}"
        return _explained(facts, "not due", sentence, until=facts.run_at)
    if not facts.runners:
        return _explained(facts, "no runner", f"{what} is due, and no runner lives that would notice.", since=facts.run_at)
    return _explained(facts, "due", f"{what} is due, and is being made pending.", since=facts.run_at)


def _held(facts: Facts) -> Explanation:
    if not facts.pauses:
        sentence = (
            "it is paused by hand, until that or a resume of its type or key lets it go (or was, and is being made pending)."
        )
        return _unserved(facts) or _explained(facts, "paused", sentence)
    kind, name, reason, by, since = facts.pauses[0]
    what = "everything" if kind == "all" else f'its {kind} "{name}"'
    sentence = f"{what} is paused{f' by {by}' if by else ''}{f': {reason}' if reason else ''}."
    return _explained(facts, "paused", sentence, since=since)


def _unserved(facts: Facts) -> Explanation | None:
    if not facts.runners:
        return _explained(facts, "no runner", "no runner lives.")
    if not facts.serving_queue:
        return _explained(facts, "no runner for queue", f'no runner that lives serves the queue "{facts.queue}".')
    if not facts.serving_type:
        return _explained(facts, "no handler", _undeclared(facts))
    if not facts.serving:
        sentence = f'no runner that serves the queue "{facts.queue}" has a handler for "{facts.type}", others have.'
        return _explained(facts, "no runner for both", sentence)
    if facts.newest_version is not None and facts.version > facts.newest_version:
        sentence = (
            f"no runner can run version {facts.version} of this payload, those that live know {facts.newest_version} at most: "
            f"it waits for one with the newer program."
        )
        return _explained(facts, "newer version", sentence)
    return None


def _undeclared(facts: Facts) -> str:
    """A type that no runner that lives declares. (A stub's, or one enqueued from SQL as undeclared, may never have been.)"""
    ever = "none ever had" if facts.declared_at is None else f"one declared it last at {facts.declared_at:%Y-%m-%d %H:%M:%S %Z}"
    return f'no runner that lives has a handler for "{facts.type}", {ever}.'


def _broken(facts: Facts) -> Explanation | None:
    if facts.breaker is None:
        return None
    until = (
        "until it is reset" if facts.breaker_until is None else f"and a probe is let through at {facts.breaker_until:%H:%M:%S %Z}"
    )
    sentence = f'the circuit breaker of "{facts.breaker}" is open, {until}.'
    return _explained(facts, "breaker open", sentence, since=facts.breaker_since, until=facts.breaker_until)


def _throttled(facts: Facts) -> Explanation | None:
    use = facts.use
    if use is None:
        return None
    if use.opens_at is not None:
        told = "by its rate" if use.closed_by is None else f"since a service told job {use.closed_by} to come back later"
        sentence = f'its limit key "{use.key}" is closed until {use.opens_at:%H:%M:%S %Z}, {told}: {facts.ahead} come first.'
        return _explained(facts, "limit closed", sentence, until=use.opens_at, ahead=facts.ahead)
    if use.each is not None and use.running >= use.each:
        ids = ", ".join(map(str, use.ids)) + (", …" if use.running > len(use.ids) else "")
        sentence = f'its limit key "{use.key}" has {use.running} of {use.each} running (jobs {ids}): {facts.ahead} come first.'
    elif use.total is not None and use.running_of_limit >= use.total:
        name = str(use.key).partition(":")[0]
        sentence = f'its limit "{name}" has {use.running_of_limit} of {use.total} running: {facts.ahead} of its key come first.'
    elif use.queue_total is not None and (use.running_in_queue or 0) >= use.queue_total:
        sentence = f'its queue "{facts.queue}" has {use.running_in_queue} of {use.queue_total} running, over all runners.'
        return _explained(facts, "queue full", sentence, since=facts.run_at, ahead=facts.ahead)
    else:
        return None
    return _explained(facts, "limit full", sentence, since=facts.run_at, ahead=facts.ahead)


def _crowded(facts: Facts) -> Explanation | None:
    room = facts.room
    if room is None or room.free > 0:
        return None
    if room.own:
        what = f'all slots of its lane "{facts.lane}" are taken ({room.own}), and so are the general ones ({room.general})'
    elif not room.general:
        what = f'the queue "{facts.queue}" keeps all its slots for lanes, and it has none of these'
    else:
        what = f'all general slots of the queue "{facts.queue}" are taken ({room.general}), and the others are kept for lanes'
    return _explained(facts, "lane full", f"{what}: {facts.ahead} come first.", since=facts.run_at, ahead=facts.ahead)


def _suspected(facts: Facts) -> Explanation | None:
    if not facts.suspicion:
        return None
    sentence = (
        f"its runner died while it ran, {facts.losses} times in a row, and it may be why. So it waits for a runner where no "
        f"other such job has just begun; each is watched there for {probation_seconds(facts.suspicion):.0f} s at most: "
        f"{facts.ahead} come first."
    )
    return _explained(facts, "suspect", sentence, since=facts.run_at, ahead=facts.ahead)


def _in_line(facts: Facts) -> Explanation:
    sentence = f'it waits for a slot of the queue "{facts.queue}": {facts.ahead} come first, {facts.running} run.'
    return _explained(facts, "waiting for a slot", sentence, since=facts.run_at, ahead=facts.ahead)
