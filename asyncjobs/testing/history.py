"""A checker of histories: did one owner at a time (P2), one at a time per key, in order (P3), and no idle slots (P4) hold in what
was recorded?

    history = History(attempts=recorder.attempts(), joins=joins, verbs=verbs, writes=writes)
    assert history.violations() == []

It knows nothing of the database and believes no process: it looks at who joined which line (and with which place), whose claims
were taken, when handlers started and ended, which writes were accepted, and what operators did. The rules:

1. A token is of one claim. A claim's writes are accepted at most once, and never after the claim was taken away.
2. Two attempts of one job, or of two jobs with one key, do not overlap, unless the earlier one had lost its claim. (One that
   breaks rule 6 is not held against others, too.) So has one whose handler completed its job in its own transaction, and whose
   process was frozen after the commit and declared dead: the key goes on, and its end is told of when it wakes.
3. A *stay* of a job in its key's line lasts from its joining until it is over: completed, cancelled, dead (if its type halts:
   not before it was released). No job starts before all stays with a lower place are over. An operator's retry of a job that
   was over is a new stay, with the place of its new joining; one of a job that halted its key goes on with the old.
   But a job may follow another in a run of one runner: it starts when the last attempt of the one in front has completed there,
   whether that is written or not. If it is not, the job in front of it runs again, and after it this one does.
4. A job does not start when its cancellation is done.
5. Nothing of a paused queue, type or key starts between the answer to the pause and the resume, but for what had been claimed
   when the answer came: it may be on its way to its runner, or wait there for a slot.
6. No attempt starts when its claim has been taken away: its runner had been declared dead, a later attempt of its job had
   started, or its job had ended. One that had started before, and was frozen in its middle, may go on until it notices. An
   attempt starts when it was seen that it may, whenever that was told: its process may have been frozen in between.
7. What a handler's transaction wrote in which it completed its job (`ctx.complete`) is there when the job is completed, and only
   then, and once.
8. No job waits for longer than `prompt_seconds` beside a free slot of its queue (`late.py`).
9. No call is answered by a deadlock: of any calls of asyncjobs none waits for another in a circle.

Besides: at most one live job has a dedup key at any moment (`lives.py`).

Moments are seconds of `time.monotonic`, as a recorder notes them. What an operator did took effect somewhere between `sent_at`
and `done_at`: the checker takes the moment that accuses nobody wrongly.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

import msgspec

from asyncjobs.testing.attempts import Attempt, Violation, follows
from asyncjobs.testing.late import Ready, Serving, idle_seconds
from asyncjobs.testing.lives import Lived, together

T = TypeVar("T")

_FINAL = frozenset({"completed", "cancel"})
_AGAIN = frozenset({"retry", "snooze"})
_NEVER = float("inf")


class Joined(NamedTuple):
    """A job got a place in its key's line."""

    key: str
    job_id: int
    place: int
    halts: bool = False  # its death stops the key


class Applied(NamedTuple):
    """What an operator did: `cancel` a job that did not run, `release` the key that it halted, `retry` it after it had ended."""

    verb: Literal["cancel", "release", "retry"]
    job_id: int
    sent_at: float
    done_at: float


class Held(NamedTuple):
    """A pause, as the one saw it who paused."""

    kind: Literal["queue", "type", "key"]
    name: str
    answered_at: float
    claimed: Collection[int] = ()  # the tokens that its jobs' rows had when the answer had come
    resumed_at: float = float("inf")  # when the resume was sent

    def covers(self, attempt: Attempt) -> bool:
        """Whether the attempt is of what is paused."""
        return self.name == {"queue": attempt.queue, "type": attempt.type, "key": attempt.serialization_key}[self.kind]


class Written(NamedTuple):
    """An attempt's write of its outcome, and whether it touched a row."""

    job_id: int
    token: int
    at: float
    accepted: bool
    fenced_at: float | None = None  # when the claim was taken away


class _Wait(NamedTuple):
    """From when on nothing kept a job but its line, until it started, or was seen last."""

    job_id: int
    queue: str
    since: float
    until: float


class _Stay(msgspec.Struct):
    """One stay of a job in the line."""

    joined: Joined
    started_at: float | None = None
    over_at: float | None = None
    attempts: list[Attempt] = []


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What was recorded, in any order."""

    attempts: Sequence[Attempt]
    joins: Sequence[Joined] = ()
    verbs: Sequence[Applied] = ()
    pauses: Sequence[Held] = ()
    writes: Sequence[Written] = ()
    lives: Sequence[Lived] = ()  # of jobs with dedup keys
    ended: Mapping[int, float] = {}  # when jobs ended, by the table: some are ended by others than their attempts
    completed: Collection[int] = ()  # jobs, by the table
    effects: Mapping[int, int] = {}  # of jobs that their handlers complete: how often what they write with it is there
    ready: Sequence[Ready] = ()  # once for each job that is to be in time
    serving: Sequence[Serving] = ()
    prompt_seconds: float = 1.5
    deadlocks: Sequence[str] = ()  # answers to calls, or lines of the server's log, in words

    def violations(self) -> list[Violation]:
        """Every violation that was found; none: the rules held."""
        of_claims = [*self._of_tokens(), *self._of_writes(), *self._of_starts()]
        of_keys = [*self._overlaps(), *self._cancelled(), *self._held(), *self._order()]
        return [
            *of_claims,
            *of_keys,
            *self._of_effects(),
            *self._late(),
            *together(self.lives),
            *(Violation("locks", None, one) for one in self.deadlocks),
        ]

    def _of_tokens(self) -> Iterator[Violation]:
        for token, attempts in _grouped(self.attempts, lambda attempt: attempt.token):
            if len(attempts) > 1:
                yield Violation("P2", attempts[1].job_id, f"ran twice under token {token}")

    def _of_writes(self) -> Iterator[Violation]:
        for token, writes in _grouped(self.writes, lambda write: write.token):
            accepted = [write for write in writes if write.accepted]
            if len(accepted) > 1:
                yield Violation("P2", accepted[1].job_id, f"accepted two outcomes under token {token}")
            for write in accepted:
                if write.fenced_at is not None and write.fenced_at < write.at:
                    yield Violation("P2", write.job_id, f"accepted an outcome under token {token}, whose claim was taken away")

    def _of_starts(self) -> Iterator[Violation]:
        for attempt in self._sorted_out()[1]:
            yield Violation("P2", attempt.job_id, f"started attempt {attempt.number} when its claim had been taken away")

    def _sorted_out(self) -> tuple[list[Attempt], list[Attempt]]:
        """The attempts in the order they started, and those that did after their claim was taken away."""
        retried: dict[int, float] = {}
        for verb in self.verbs:
            if verb.verb == "retry":
                retried[verb.job_id] = max(verb.sent_at, retried.get(verb.job_id, verb.sent_at))
        newest: dict[int, Attempt] = {}
        heeded: list[Attempt] = []
        late: list[Attempt] = []
        for attempt in sorted(self.attempts, key=lambda attempt: attempt.started_at):
            before = newest.get(attempt.job_id)
            is_older = before is not None and attempt.number < before.number
            if is_older and before is not None and retried.get(attempt.job_id, float("-inf")) > before.started_at:
                is_older = False  # it was started over, and counts anew
            is_fenced = attempt.fenced_at is not None and attempt.fenced_at < attempt.started_at
            has_ended = self.ended.get(attempt.job_id, float("inf")) < attempt.started_at
            if attempt.claim_lost and (is_older or has_ended or is_fenced):
                late.append(attempt)
            else:
                heeded.append(attempt)
                newest[attempt.job_id] = attempt
        return heeded, late

    def _overlaps(self) -> Iterator[Violation]:
        heeded, _ = self._sorted_out()
        for _, attempts in _grouped(heeded, lambda attempt: attempt.job_id):
            for first, second in _overlapping(attempts):
                yield Violation("P2", second.job_id, f"started attempt {second.number} while attempt {first.number} ran")
        keyed = [attempt for attempt in heeded if attempt.serialization_key is not None]
        for key, attempts in _grouped(keyed, lambda attempt: attempt.serialization_key):
            for first, second in _overlapping(attempts):
                if first.job_id != second.job_id:
                    yield Violation("P3", second.job_id, f"ran beside job {first.job_id} on key {key}")

    def _cancelled(self) -> Iterator[Violation]:
        retried = {verb.job_id: verb.sent_at for verb in self.verbs if verb.verb == "retry"}
        for verb in self.verbs:
            if verb.verb == "cancel":
                late = [a for a in self.attempts if a.job_id == verb.job_id and a.started_at > verb.done_at]
                if late and retried.get(verb.job_id, float("-inf")) < verb.sent_at:
                    yield Violation("P3", verb.job_id, "started after it was cancelled")

    def _held(self) -> Iterator[Violation]:
        for pause in self.pauses:
            for attempt in self.attempts:
                is_late = pause.answered_at < attempt.started_at < pause.resumed_at
                if is_late and pause.covers(attempt) and attempt.token not in pause.claimed:
                    yield Violation("P3", attempt.job_id, f"started after the pause of {pause.kind} {pause.name} was answered")

    def _order(self) -> Iterator[Violation]:
        fronts: dict[str, list[_Stay]] = {}
        for stay, latest, front in self._in_line():
            key, started_at = stay.joined.key, stay.started_at
            if started_at is not None and started_at < latest and not _followed(stay, fronts[key]):
                yield Violation("P3", stay.joined.job_id, f"of key {key} started before job {front}, in front of it, was done")
            fronts.setdefault(key, []).append(stay)

    def _in_line(self) -> Iterator[tuple[_Stay, float, int]]:
        """Each stay, when all in front of it were over, and which was over last."""
        for _, stays in _grouped(self._stays(), lambda stay: stay.joined.key):
            latest, front = float("-inf"), 0
            for stay in sorted(stays, key=lambda stay: stay.joined.place):
                yield stay, latest, front
                over_at = _NEVER if stay.over_at is None else stay.over_at
                if over_at > latest:
                    latest, front = over_at, stay.joined.job_id

    def _of_effects(self) -> Iterator[Violation]:
        completed = frozenset(self.completed)
        for job_id, times in self.effects.items():
            if times > 1:
                yield Violation("P2", job_id, f"was completed in {times} of its handlers' transactions")
            elif times and job_id not in completed:
                yield Violation(
                    "P2", job_id, "is not completed, although the transaction in which its handler did so was committed"
                )
            elif not times and job_id in completed:
                yield Violation("P1", job_id, "is completed, and what its handler's transaction wrote is gone")

    def _late(self) -> Iterator[Violation]:
        fronts: dict[int, float] = {}
        for stay, latest, _ in self._in_line() if self.ready else ():
            fronts.setdefault(stay.joined.job_id, latest)
        for wait in self._waits():
            since = max(wait.since, fronts.get(wait.job_id, wait.since))
            if wait.until - since > self.prompt_seconds:
                idle = idle_seconds(wait.queue, since, wait.until, self.serving, self.attempts)
                if idle > self.prompt_seconds:
                    yield Violation("P4", wait.job_id, f"waited while a slot of queue {wait.queue} was free for {idle:.1f} s")

    def _waits(self) -> Iterator[_Wait]:
        attempts = dict(_grouped(sorted(self.attempts, key=_start), lambda attempt: attempt.job_id))
        cancelled = {verb.job_id for verb in self.verbs if verb.verb == "cancel"}
        for ready in self.ready:
            mine, at = attempts.get(ready.job_id, []), ready.at
            if not mine and (ready.job_id in cancelled or self.pauses):
                continue
            for attempt in mine:
                yield _Wait(ready.job_id, ready.queue, self._resumed(attempt, at), attempt.started_at)
                is_again = attempt.outcome in _AGAIN and not attempt.claim_lost and attempt.ended_at is not None
                at = (attempt.ended_at or 0.0) + attempt.delay_seconds if is_again else _NEVER
            if at < _NEVER:
                yield _Wait(ready.job_id, ready.queue, at, self.ended.get(ready.job_id, _NEVER))

    def _resumed(self, attempt: Attempt, at: float) -> float:
        """When no pause held it back any more."""
        for pause in sorted(self.pauses, key=lambda pause: pause.resumed_at):
            if pause.covers(attempt) and pause.answered_at < attempt.started_at and at < pause.resumed_at < attempt.started_at:
                at = pause.resumed_at
        return at

    def _stays(self) -> Iterator[_Stay]:
        attempts = dict(_grouped(self._sorted_out()[0], lambda attempt: attempt.job_id))
        verbs = dict(_grouped(self.verbs, lambda verb: verb.job_id))
        for job_id, joins in _grouped(self.joins, lambda joined: joined.job_id):
            stays = _stays_of(sorted(joins, key=_place), attempts.get(job_id, []), verbs.get(job_id, []))
            ended_at = self.ended.get(job_id)
            yield from stays if ended_at is None else _ended_by_others(stays, attempts.get(job_id, []), ended_at)


def _followed(stay: _Stay, fronts: Sequence[_Stay]) -> bool:
    """Whether each of its attempts that started before a stay in front of it was over followed in a run."""
    for front in fronts:
        over_at = _NEVER if front.over_at is None else front.over_at
        early = [attempt for attempt in stay.attempts if attempt.started_at < over_at]
        if not all(follows(attempt, stay.attempts, front.attempts) for attempt in early):
            return False
    return True


def _stays_of(joins: Sequence[Joined], attempts: Sequence[Attempt], verbs: Sequence[Applied]) -> list[_Stay]:
    """The job's stays: what happened to it, in order, belongs to the first that is not over."""
    stays = [_Stay(joined) for joined in joins]
    moments = [(attempt.started_at, attempt) for attempt in attempts] + [(verb.sent_at, verb) for verb in verbs]
    at = 0
    for moment, what in sorted(moments, key=lambda pair: pair[0]):
        is_over = stays[at].over_at is not None
        if isinstance(what, Applied):
            if what.verb == "retry":
                at += is_over and at + 1 < len(stays)
            elif not is_over:
                stays[at].over_at = moment
        elif not (is_over and what.claim_lost):  # else: a process that does not know yet that its claim was taken away
            at += is_over and at + 1 < len(stays)
            _add(stays[at], what)
    return stays


def _add(stay: _Stay, attempt: Attempt) -> None:
    """An attempt during the stay. One that lost its claim ends no stay: of its end nobody took note."""
    stay.attempts.append(attempt)
    if stay.started_at is None:
        stay.started_at = attempt.started_at
    is_final = attempt.outcome in _FINAL or (attempt.outcome == "dead" and not stay.joined.halts)
    stay.over_at = attempt.ended_at if is_final and not attempt.claim_lost else None


def _ended_by_others(stays: list[_Stay], attempts: Sequence[Attempt], ended_at: float) -> list[_Stay]:
    """A rescue, or an operator's request, ended the job after its last attempt: perhaps one that was claimed and never seen."""
    outcome = attempts[-1].outcome if attempts else None
    if stays[-1].over_at is None and not (stays[-1].joined.halts and outcome in {"dead", None}):
        stays[-1].over_at = ended_at
    return stays


def _overlapping(attempts: Sequence[Attempt]) -> Iterator[tuple[Attempt, Attempt]]:
    running: Attempt | None = None
    for attempt in sorted(attempts, key=lambda attempt: attempt.started_at):
        if running is not None and (running.ended_at is None or attempt.started_at < running.ended_at):
            yield running, attempt
        if attempt.claim_lost:
            continue
        if running is None or running.ended_at is None or (attempt.ended_at or float("inf")) > running.ended_at:
            running = attempt


def _start(attempt: Attempt) -> float:
    return attempt.started_at


def _place(joined: Joined) -> int:
    return joined.place


H = TypeVar("H", bound=Hashable)


def _grouped(items: Iterable[T], group: Callable[[T], H]) -> Iterator[tuple[H, list[T]]]:
    groups: defaultdict[H, list[T]] = defaultdict(list)
    for item in items:
        groups[group(item)].append(item)
    yield from groups.items()
