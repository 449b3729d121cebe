"""The history of attempts, put together from recorded events, and what the promises say about it (P2, P3, P7)."""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import msgspec

from asyncjobs.telemetry.events import (
    AttemptEnded,
    AttemptStarted,
    ClaimWasLost,
    Event,
    JobsGivenBack,
    JobsRescued,
    OutcomeWritten,
    RunnerDied,
    RunnerLostItself,
)

T = TypeVar("T")

#: Outcomes after which the attempt does not count.
_REFUNDED = frozenset({"snooze", "interrupted"})
#: Outcomes after which only an operator's retry starts the job again, and its count.
_FINAL = frozenset({"completed", "dead", "cancel"})


class Recorded(NamedTuple):
    """An event and the moment it was emitted (seconds of `time.monotonic`)."""

    at: float
    event: Event


class Attempt(msgspec.Struct, kw_only=True):
    """One execution of a job, as it was seen."""

    job_id: int
    type: str
    queue: str
    number: int
    token: int
    runner_id: int
    serialization_key: str | None
    started_at: float
    ended_at: float | None = None  # None: not ended, or its process died
    outcome: str | None = None
    delay_seconds: float = 0.0  # until it is tried again
    claim_lost: bool = False  # its effects on asyncjobs are fenced: it may overlap with its successor
    given_back: bool = False  # it does not count; a crash does
    fenced_at: float | None = None  # when others were seen to have declared its runner dead


class LinePlace(NamedTuple):
    """A job's place in its key's line; `times`: how often it joined the line."""

    serialization_key: str
    job_id: int
    place: int
    times: int = 1


class Violation(NamedTuple):
    """A promise that did not hold, and for which job."""

    promise: str
    job_id: int | None
    problem: str

    def __str__(self) -> str:
        about = f"job {self.job_id} " if self.job_id is not None else ""
        return f"{self.promise}: {about}{self.problem}"


def attempts_in(recorded: Iterable[Recorded]) -> list[Attempt]:
    """The attempts that these events tell of, in the order they started."""
    reading = _Reading()
    for at, event in recorded:
        if isinstance(event, AttemptStarted):
            reading.start(at, event)
        else:
            reading.follow(at, event)
    return sorted(reading.attempts, key=lambda attempt: attempt.started_at)


class _Reading:
    """Attempts as far as events have told of them."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self._by_token: defaultdict[int, list[Attempt]] = defaultdict(list)
        self._running: dict[int, Attempt] = {}  # by identity
        self._unwritten: dict[int, Attempt] = {}  # by job: what of it ended last, until that is written
        self._died: dict[int, Recorded] = {}  # runners

    def start(self, at: float, event: AttemptStarted) -> None:
        attempt = _started(at, event)
        if event.runner_id in self._died:  # it had not heard of it
            _follow(attempt, *self._died[event.runner_id])
        self.attempts.append(attempt)
        self._by_token[event.token].append(attempt)
        self._running[id(attempt)] = attempt

    def follow(self, at: float, event: Event) -> None:
        if isinstance(event, RunnerDied):
            self._died[event.runner_id] = Recorded(at, event)
        for attempt in self._about(event):
            _follow(attempt, at, event)
            if attempt.ended_at is not None:
                self._running.pop(id(attempt), None)

    def _about(self, event: Event) -> list[Attempt]:
        match event:
            case AttemptEnded():
                ended = [attempt for attempt in self._by_token[event.token] if attempt.ended_at is None]
                self._unwritten.update((attempt.job_id, attempt) for attempt in ended)
                return ended
            case ClaimWasLost():
                return self._by_token[event.token]
            case OutcomeWritten():
                self._unwritten.pop(event.job_id, None)
                return self._by_token[event.token]
            case JobsGivenBack():  # also what had ended when its runner, which was to stop, could not write it any more
                cut_off = [self._unwritten[job_id] for job_id in event.job_ids if job_id in self._unwritten]
                return [*self._running.values(), *cut_off]
            case JobsRescued() | RunnerDied() | RunnerLostItself():
                return list(self._running.values())
            case _:
                return []


def _started(at: float, event: AttemptStarted) -> Attempt:
    return Attempt(
        job_id=event.job_id,
        type=event.type,
        queue=event.queue,
        number=event.attempt,
        token=event.token,
        runner_id=event.runner_id,
        serialization_key=event.serialization_key,
        started_at=at if event.began_at is None else event.began_at,
    )


def _follow(attempt: Attempt, at: float, event: Event) -> None:
    match event:
        case AttemptEnded(token=attempt.token):
            attempt.ended_at, attempt.outcome, attempt.delay_seconds = at, event.outcome, event.delay_seconds
            attempt.given_back |= event.outcome in _REFUNDED
        case ClaimWasLost(token=attempt.token):
            attempt.claim_lost = True
        case OutcomeWritten(token=attempt.token):
            # A rescue is told of after its commit: by then the job's next attempt may have started, and seems to be meant.
            # What the handler's transaction wrote was written before its runner was declared dead: since then the key goes on.
            attempt.claim_lost = event.in_transaction and attempt.fenced_at is not None
        case JobsRescued():
            attempt.claim_lost |= attempt.job_id in event.job_ids
        case JobsGivenBack():
            attempt.given_back |= attempt.job_id in event.job_ids
        case RunnerDied(runner_id=attempt.runner_id):
            attempt.claim_lost, attempt.fenced_at = True, at
        case RunnerLostItself(runner_id=attempt.runner_id):
            attempt.claim_lost = True
        case _:
            pass


def overlapping(attempts: Sequence[Attempt]) -> list[Violation]:
    """Attempts of one job, or of one serialization key, that ran at the same time with both claims valid; tokens used twice."""
    found = [
        Violation("P2", second.job_id, f"got token {second.token}, which job {first.job_id} had")
        for first, second in _neighbours(attempts, lambda attempt: attempt.token)
    ]
    for first, second in _neighbours(attempts, lambda attempt: attempt.job_id):
        if _overlap(first, second):
            found.append(Violation("P2", second.job_id, f"started attempt {second.number} while attempt {first.number} ran"))
    keyed = [attempt for attempt in attempts if attempt.serialization_key is not None]
    for first, second in _neighbours(keyed, lambda attempt: attempt.serialization_key):
        if first.job_id != second.job_id and _overlap(first, second):
            found.append(Violation("P3", second.job_id, f"ran beside job {first.job_id} on key {second.serialization_key}"))
    return found


def late(attempts: Iterable[Attempt]) -> list[Violation]:
    """Attempts that started when their runner had been declared dead. One that had started before may go on until it notices."""
    return [
        Violation("P2", attempt.job_id, f"started attempt {attempt.number} after its runner had been declared dead")
        for attempt in attempts
        if attempt.fenced_at is not None and attempt.started_at > attempt.fenced_at
    ]


def follows(attempt: Attempt, own: Sequence[Attempt], front: Sequence[Attempt]) -> bool:
    """Whether it was in order that it started before the job in front of it was over, or before that ran once more: it followed
    in a run of its runner. There the one in front had just completed, by its last attempt, and nobody knew yet that its outcome
    would not be written. Then this one's was not, either: it ran again, or its claim was taken away. (`own`: all attempts of
    its job; `front`: of the one in front, by their starts.)
    """
    before = next((one for one in reversed(front) if one.started_at <= attempt.started_at), None)
    is_behind = (
        before is not None and before.runner_id == attempt.runner_id and before.outcome == "completed"
        and before.ended_at is not None and before.ended_at <= attempt.started_at
    )  # fmt: skip
    is_void = attempt.claim_lost or attempt.given_back or any(one.started_at > attempt.started_at for one in own)
    return is_behind and is_void


def out_of_order(attempts: Sequence[Attempt], line: Iterable[LinePlace]) -> list[Violation]:
    """Jobs that started before one that stood in front of them in their key's line, or between two attempts of it; but for what
    follows in a run.
    """
    by_job: defaultdict[int, list[Attempt]] = defaultdict(list)
    for attempt in sorted(attempts, key=lambda attempt: attempt.started_at):
        by_job[attempt.job_id].append(attempt)
    # Who joined more than once (an operator's retry) went to the end of the line on purpose.
    seen = [place for place in line if place.job_id in by_job and place.times == 1]
    found: list[Violation] = []
    for before, after in _neighbours(sorted(seen, key=lambda place: place.place), lambda place: place.serialization_key):
        own, front = by_job[after.job_id], by_job[before.job_id]
        early = [attempt for attempt in own if attempt.started_at < front[-1].started_at]
        if not all(follows(attempt, own, front) for attempt in early):
            key = after.serialization_key
            found.append(Violation("P3", after.job_id, f"of key {key} started before job {before.job_id}, which joined first"))
    return found


def uncounted(attempts: Sequence[Attempt], counted: Mapping[int, int], started_over: Collection[int] = ()) -> list[Violation]:
    """Attempts that did not count although they should: by their ordinals, and by the counts in the table (`counted`, by job).

    One that was lost with its runner when the one before it had been lost as well may pay nothing (`model/probation.py`, 3): then
    the next has its ordinal. What an operator started over (`started_over`) counts from nothing.
    """
    found = [Violation("P7", a.job_id, f"ran as attempt {a.number}") for a in attempts if a.number < 1]
    by_job = list(_neighbours(attempts, lambda attempt: attempt.job_id))
    # (A frozen runner may see the end of an attempt that was lost meanwhile.)
    spared = {second.token for first, second in by_job if (first.outcome is None or first.claim_lost) and second.outcome is None}
    for first, second in by_job:
        is_anew = second.number == 1 and second.job_id in started_over
        if first.given_back or first.outcome in _FINAL or is_anew:
            continue
        if second.number < first.number + (first.token not in spared):
            found.append(Violation("P7", second.job_id, f"ran attempt {second.number} again after it was spent"))
    return found + [
        Violation("P7", last.job_id, f"counts {counted[last.job_id]} attempts after attempt {last.number}")
        for last in {attempt.job_id: attempt for attempt in attempts}.values()
        if not (last.given_back or last.job_id in started_over)
        and counted.get(last.job_id, last.number) < last.number - (last.token in spared)
    ]


def _overlap(first: Attempt, second: Attempt) -> bool:
    return not first.claim_lost and first.ended_at is not None and second.started_at < first.ended_at


def _neighbours(items: Iterable[T], group: Callable[[T], Hashable]) -> Iterable[tuple[T, T]]:
    groups: defaultdict[Hashable, list[T]] = defaultdict(list)
    for item in items:
        groups[group(item)].append(item)
    for members in groups.values():
        yield from pairwise(members)
