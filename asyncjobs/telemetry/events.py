"""Typed events: what happened, for whoever listens. Domain code emits them; sinks decide level and words.

An event that nobody subscribed to costs a dictionary look-up: callers of the hot path ask `wants` before they build one.
"""

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from asyncjobs.model.storable import safe_str


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """The root of all events."""


class JobEnqueued(Event, frozen=True, kw_only=True):
    job_id: int
    type: str
    queue: str
    created: bool


class WorkflowEnqueued(Event, frozen=True, kw_only=True):
    """A workflow was written; each of its jobs has an event of its own."""

    workflow_id: int
    name: str
    size: int


class EnqueuesUndone(Event, frozen=True, kw_only=True):
    """A caller's transaction ended without a commit, and these jobs with it (`runtime/undone.py`)."""

    job_ids: list[int]
    how: str  # "rolled back", "closed" (a session that was left without a commit), or "ended" (a connection: one of the two)


class AttemptStarted(Event, frozen=True, kw_only=True):
    job_id: int
    type: str
    queue: str
    attempt: int
    token: int
    runner_id: int
    serialization_key: str | None = None
    queued_seconds: float = 0.0
    correlation_id: str | None = None
    trace_context: str | None = None  # of the enqueue, as tracing wrote it into the job's row
    began_at: float | None = None  # by `time.monotonic`; the event may be told much later, by a process that was frozen


class AttemptEnded(Event, frozen=True, kw_only=True):
    job_id: int
    type: str
    queue: str
    attempt: int
    token: int
    runner_id: int
    outcome: str
    message: str | None = None
    serialization_key: str | None = None
    run_seconds: float = 0.0
    delay_seconds: float = 0.0  # until it is tried again
    error: BaseException | None = None


class AcksWritten(Event, frozen=True, kw_only=True):
    """One call of the database wrote these outcomes and claimed so many jobs; tokens are the claims' whose outcomes they are."""

    runner_id: int
    tokens: list[int]
    claimed: int
    seconds: float


class OutcomeWritten(Event, frozen=True, kw_only=True):
    job_id: int
    token: int
    runner_id: int
    status: str
    in_transaction: bool = False  # of the handler (`ctx.complete`): committed before this was told, and maybe long before


class ClaimWasLost(Event, frozen=True, kw_only=True):
    job_id: int
    token: int
    runner_id: int
    during: str


class OutcomeRefused(Event, frozen=True, kw_only=True):
    """The database refuses to write what an attempt ended in; the outcomes of others are written without it."""

    job_id: int
    token: int
    runner_id: int
    error: BaseException
    refusals: int  # of this outcome so far
    again_in_seconds: float


class RowRefused(Event, frozen=True, kw_only=True):
    """The database refuses what a duty is to write to this row, alone; others are seen to without it (`runtime/set_aside.py`)."""

    during: str  # "promote", "rescue", "advance", "sweep", "fold"
    row: str  # in words: a job, a key, a gate
    error: BaseException
    refusals: int  # of this row so far
    again_in_seconds: float


class CompletionUndone(Event, frozen=True, kw_only=True):
    """An attempt ended as completed, in a transaction of its handler's that was rolled back afterwards: it has failed."""

    job_id: int
    type: str
    token: int
    runner_id: int
    status: str  # what became of the job


class HandlerStuck(Event, frozen=True, kw_only=True):
    job_id: int
    type: str
    since_seconds: float
    reason: str
    hook: str | None = None  # and its method, if it is a hook's that goes on


class JobsClaimed(Event, frozen=True, kw_only=True):
    runner_id: int
    queue: str
    wanted: int
    claimed: int


class JobsPromoted(Event, frozen=True, kw_only=True):
    count: int


class JobsExpired(Event, frozen=True, kw_only=True):
    """Jobs of a type were not started in time: they were ended, as cancelled."""

    type: str
    count: int


class JobsRescued(Event, frozen=True, kw_only=True):
    job_ids: list[int]
    reason: str


class JobsGivenBack(Event, frozen=True, kw_only=True):
    runner_id: int
    job_ids: list[int]
    reason: str


class KeysAdvanced(Event, frozen=True, kw_only=True):
    """A serializer dispatched heads of keys."""

    count: int


class HandlerWaitsForItsQueue(Event, frozen=True, kw_only=True):
    """A handler waits for a job that needs a slot of the same queue: when its like have all of them, none goes on."""

    job_id: int
    type: str
    queue: str
    awaited_id: int
    awaited_type: str


class SequenceMoved(Event, frozen=True, kw_only=True):
    """A sequence stood behind its rows, as after a switch-over, and was moved on."""

    name: str
    was: int
    is_now: int


class LeaseAcquired(Event, frozen=True, kw_only=True):
    duty: str
    runner_id: int
    token: int


class LeaseEnded(Event, frozen=True, kw_only=True):
    duty: str
    runner_id: int
    reason: str  # "lost", or "released"
    successor: int | None = None


class DutyPassed(Event, frozen=True, kw_only=True):
    duty: str
    items: int | None
    failed: bool
    seconds: float


class RowsPruned(Event, frozen=True, kw_only=True):
    jobs: int
    dead_letters: int
    runners: int
    dedup_keys: int


class RunnerStarted(Event, frozen=True, kw_only=True):
    """It runs jobs, and knows whether notifications arrive (or has not heard for a few seconds)."""

    runner_id: int
    database: str  # host and name, without a password
    schema: str
    queues: dict[str, int]  # and their slots
    types: list[str]
    notify: str  # "listen": they arrive; "poll": they do not; "probing": that is not known yet
    name: str | None = None  # what people call it


class RunnerStopped(Event, frozen=True, kw_only=True):
    runner_id: int
    abandoned_job_ids: list[int]
    seconds: float


class RunnerDied(Event, frozen=True, kw_only=True):
    runner_id: int
    unchanged_seconds: float


class RunnerRegistered(Event, frozen=True, kw_only=True):
    runner_id: int
    formerly: int | None = None


class RunnerLostItself(Event, frozen=True, kw_only=True):
    runner_id: int
    reason: str


class RunnerOutdated(Event, frozen=True, kw_only=True):
    """A migration that breaks older programs was applied: this runner claims nothing any more."""

    runner_id: int
    migration: str


class ListenerConnected(Event, frozen=True, kw_only=True):
    reconnect: bool


class ListenerLost(Event, frozen=True, kw_only=True):
    reason: str


class ListenerFellBack(Event, frozen=True, kw_only=True):
    reason: str


class NotificationsSent(Event, frozen=True, kw_only=True):
    count: int


class NotificationHeard(Event, frozen=True, kw_only=True):
    """Another process notified something; what this process notified itself is not heard again. `kind`: "other" for what no
    asyncjobs sends, since anybody who may connect can NOTIFY.
    """

    kind: str


class LoopStalled(Event, frozen=True, kw_only=True):
    seconds: float
    stack: str
    task: str | None = None
    stop_asked: bool = False  # by a signal, which the loop hears when it turns


class PartRestarted(Event, frozen=True, kw_only=True):
    """A part of the app ended though nobody had stopped it, and was started again."""

    part: str
    error: BaseException
    restarts: int  # of this part so far


class ServicePassFailed(Event, frozen=True, kw_only=True):
    service: str
    error: BaseException
    failures: int


class DatabaseFailed(Event, frozen=True, kw_only=True):
    during: str
    error: BaseException


class SchedulesDeclared(Event, frozen=True, kw_only=True):
    """What became of the rows of schedules when a runner declared its own."""

    added: list[str]
    changed: list[str]
    enabled: list[str]
    removed: list[str]


class ScheduleDiffers(Event, frozen=True, kw_only=True):
    """Other runners declare this schedule with a newer definition: it is theirs to fire."""

    schedule: str


class ScheduleFired(Event, frozen=True, kw_only=True):
    schedule: str
    job_ids: list[int]
    tick_at: datetime
    late_seconds: float


class ScheduleTicksSkipped(Event, frozen=True, kw_only=True):
    """Ticks after the first instant and up to the second made no job of their own: `missed`, `overlapped`, `duplicate`, or
    `spent` (they had made one before the clock was put back).
    """

    schedule: str
    reason: str
    after: datetime
    until: datetime


class ScheduleReanchored(Event, frozen=True, kw_only=True):
    """The server's clock was put back: the schedule, which had got ahead, goes on from now instead of resting until then."""

    schedule: str
    was_at: datetime
    now_at: datetime


class ScheduleRecovered(Event, frozen=True, kw_only=True):
    """A schedule that could not tick has made its job again."""

    schedule: str


class ScheduleDisabled(Event, frozen=True, kw_only=True):
    """A schedule cannot tick: told once. It is tried again, until it makes its job or an operator disables it."""

    schedule: str
    reason: str


class BreakerOpened(Event, frozen=True, kw_only=True):
    """A call of this process opened a circuit breaker. `alone`: for this process, since the database does not answer."""

    service: str
    formerly: str
    failures: int
    seconds: float
    alone: bool = False


class BreakerHalfOpened(Event, frozen=True, kw_only=True):
    service: str
    alone: bool = False


class BreakerClosed(Event, frozen=True, kw_only=True):
    service: str
    formerly: str
    alone: bool = False


class BreakerMoved(Event, frozen=True, kw_only=True):
    """An operator closed a circuit breaker, or opened it: for so many seconds, or (None) until it is reset."""

    service: str
    formerly: str
    state: str
    seconds: float | None = None
    reason: str | None = None


class LimitsDiffer(Event, frozen=True, kw_only=True):
    """Another program had declared these limits, or totals of queues, otherwise: what this one declares counts now."""

    names: list[str]


class LimitKeyClosed(Event, frozen=True, kw_only=True):
    """A service said "not now" to a job (`Throttled`): none of its limit key starts for so long."""

    key: str
    job_id: int
    seconds: float


class VerbUsed(Event, frozen=True, kw_only=True):
    verb: str  # of an operator, as `jobs.cancel`
    by: str
    target: str
    outcome: str  # what came of it, or the kind of error
    via: str = "python"  # or "cli", "dashboard"
    why: str | None = None


class LoginRefused(Event, frozen=True, kw_only=True):
    """A wrong token came to the dashboard."""

    address: str
    path: str
    wrong: int  # how many came from there within a minute
    is_last: bool = False  # for a minute no more are looked at


class EmbeddedStarted(Event, frozen=True, kw_only=True):
    folder: str
    port: int


class HookRaised(Event, frozen=True, kw_only=True):
    """A hook raised where that changes nothing any more: the enqueue stands, the attempt is given back."""

    hook: str
    method: str
    type: str
    error: BaseException


class ResourceNotClosed(Event, frozen=True, kw_only=True):
    resource: str
    error: BaseException


class SinkFailed(Event, frozen=True, kw_only=True):
    event: str
    error: BaseException


Sink = Callable[[Any], None]


class Events:
    """Where events go: sinks by the kind of event they asked for."""

    def __init__(self) -> None:
        self._sinks: dict[type[Event], list[Sink]] = {}
        self._all: list[Sink] = []
        self._asks: dict[type[Event], list[Callable[[], bool] | None]] = {}  # of each sink of a kind; None: it wants all

    def subscribe(self, sink: Sink, *kinds: type[Event]) -> Callable[[], None]:
        """Call `sink` with each event of these kinds (of all, when none is named); returns what ends it."""
        return self._subscribe(sink, kinds, None)

    def subscribe_if(self, asks: Callable[[], bool], sink: Sink, kind: type[Event]) -> Callable[[], None]:
        """As `subscribe`, but while `asks` says no, this sink alone is no reason to build an event for those who ask `wants`."""
        return self._subscribe(sink, [kind], asks)

    def _subscribe(self, sink: Sink, kinds: Sequence[type[Event]], asks: Callable[[], bool] | None) -> Callable[[], None]:
        lists = [self._sinks.setdefault(kind, []) for kind in kinds] or [self._all]
        all_asks = [self._asks.setdefault(kind, []) for kind in kinds]
        for sinks in lists:
            sinks.append(sink)
        for of_kind in all_asks:
            of_kind.append(asks)
        has_ended = False

        def unsubscribe() -> None:
            nonlocal has_ended
            if has_ended:
                return
            has_ended = True
            for sinks in lists:
                sinks.remove(sink)
            for of_kind in all_asks:
                of_kind.remove(asks)

        return unsubscribe

    def wants(self, kind: type[Event]) -> bool:
        """Whether anybody would see an event of this kind."""
        if self._all:
            return True
        for asks in self._asks.get(kind, ()):  # noqa: SIM110 - asked for each attempt: a generator would be half of what it takes
            if asks is None or asks():
                return True
        return False

    def emit(self, event: Event) -> None:
        """Hand the event to its sinks. A sink that raises is reported and never reaches the emitter."""
        for sink in (*self._sinks.get(type(event), ()), *self._all):
            try:
                sink(event)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - a sink is the user's code: it ends nothing
                self._report(sink, event, error)

    def _report(self, sink: Sink, event: Event, error: BaseException) -> None:
        if isinstance(event, SinkFailed):
            kind = type(error).__name__
            sys.stderr.write(f"asyncjobs: a sink failed on its own failure: {kind}: {safe_str(error)} ({safe_str(sink)})\n")
            return
        self.emit(SinkFailed(event=type(event).__name__, error=error))
