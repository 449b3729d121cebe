"""The jobs that a runner has claimed ahead of its free slots (`Queue(prefetch=N)`), until a slot takes them.

A claim per free slot is what keeps work where it can run at once. For jobs that are shorter than a round trip it is the round
trips that cost; `prefetch` trades for them. What holds:

1. Off unless asked for: a queue without `prefetch` has nothing here, ever. With `prefetch=N`, at most N jobs of the queue wait
   here. They come with the scan for general slots; slots that are kept for a lane are never claimed ahead for.
2. The database knows no difference: a job that waits here is processing, under the runner's name and a token of its own, and
   the claim has counted its attempt. A runner that dies leaves it to the rescue like any other, as a failed attempt; a head of
   a key holds its key, and the order of the key, as if it ran.
3. A slot that is free is never left empty while a job waits here that may use it. A general slot takes the first of all, a slot
   that is kept for a lane the first of that lane; they start in the order in which they were claimed. So what becomes pending
   later starts after them, whatever its priority.
4. An attempt begins when it has its slot: timeout, queue time and the `started_at` that the handler sees count from there. (The
   row's `started_at` is the instant of the claim.)
5. Whatever keeps a job from being claimed takes back what has not started: a stop of the runner, a pause of its queue, type or
   key (`runtime/giving_back.py`), a circuit breaker that is not closed (but for its probes), a claim that may be lost. So does
   a request to end it, which the ack carries out, and its expiry (`runtime/expiry.py`). Such a job gets its attempt back and a
   new place, behind what is pending; if its type or key is paused, it is `paused`.
6. A claim that was sent before such a change and is answered after it brings jobs that may not run any more. A stopped queue
   and a breaker are looked at when the answer comes; a pause, when that call is over.
7. A slot that is freed as a frozen process goes on takes the next that waits here before anybody can tell that its claim may be
   another's by now. The attempt finds that out by itself, and does not begin (`runtime/attempt.py`).
8. While more than half of N waits here nothing is urgent: no more is asked for, and the call line lets attempts end before it
   calls, as long as each turn of the loop ends some (those that wait for nothing themselves). When half is gone the coordinator
   asks for what is missing, in the call that takes the outcomes along: with N=500 a statement then serves some 250 jobs. (If it
   asked as soon as one was missing, it would ask for what is missing before the line has gathered: 128 jobs a call.)
9. What a claim brings for free slots lies here, too, for one step: its slots are kept for the first that wait, and are filled
   when the line has sent what is asked for next. Whatever takes jobs back finds them here; a slot that none is left for is free.

A crash between the claim and the start leaves what a crash during the attempt does: a processing row of a runner that is gone.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Protocol

from msgspec.structs import force_setattr

from asyncjobs.model.claim import Claimed


class Run(Sized, Protocol):
    """Jobs that wait for the one in front of them (`runtime/followers.py`)."""

    def __iter__(self) -> Iterator[Claimed]:
        """Those that have not had their turn."""
        ...

    def cut(self, condition: Callable[[Claimed], bool]) -> list[Claimed]:
        """Those that are not to start here."""
        ...


class Stock:
    """What waits for the slots of one queue; `lanes` are those with slots of their own."""

    def __init__(self, most: int, lanes: Iterable[str]) -> None:
        self.most = most
        self._line: OrderedDict[int, tuple[Claimed, float]] = OrderedDict()  # by job, with when its claim was answered
        self._lanes: dict[str, OrderedDict[int, None]] = {lane: OrderedDict() for lane in lanes}
        self._runs: dict[int, Run] = {}  # by identity
        self._behind = 0  # how many jobs these are
        self.kept: list[str | None] = []  # slots, by lane, that are filled from here in the next step
        self._trusted = most  # how many of them may be asked for

    def __len__(self) -> int:
        return len(self._line) + self._behind

    @property
    def expires_at(self) -> float:
        """When the next of these expires, by `boottime`."""
        behind = (job.start_by for run in self._runs.values() for job in run)
        return min((*(job.start_by for job, _ in self._line.values()), *behind), default=math.inf)

    @property
    def room(self) -> int:
        """How many are to be asked for: none as long as more than half of what may wait here does."""
        return 0 if self.is_ample else max(self.most - self.without_slot, 0)

    @property
    def without_slot(self) -> int:
        """How many wait for more than the slots that are kept for the first of them."""
        return max(len(self) - len(self.kept), 0)

    @property
    def is_ample(self) -> bool:
        """Whether more than half of what may wait here does."""
        return self.without_slot * 2 > self.most

    @property
    def ahead(self) -> int:
        """How many followers may be asked for (`runtime/followers.py`, 7)."""
        return min(self.room, self._trusted)

    def completed(self) -> None:
        """A job of a key has."""
        self._trusted = min(self._trusted + 1, self.most)

    def was_cut_short(self) -> None:
        """A run was, by how one of its jobs ended."""
        self._trusted //= 2

    def add(self, job: Claimed, *, since: float | None = None) -> None:
        """Let it wait behind the others; `since`: when its claim was answered, if that is a while ago."""
        self._line[job.id] = job, time.monotonic() if since is None else since
        if job.lane in self._lanes:
            self._lanes[job.lane][job.id] = None

    def take(self, lane: str | None) -> Claimed | None:
        """The first that may use a slot of this kind, if there is one, as of now: it starts."""
        line = self._line if lane is None else self._lanes[lane]
        if not line:
            return None
        job, since = self._remove(next(iter(line)))
        force_setattr(job, "started_epoch", job.started_epoch + time.monotonic() - since)  # a copy took 0.6 us
        return job

    def take_if(self, condition: Callable[[Claimed], bool]) -> list[Claimed]:
        """Those of which this is true: they are not to start here."""
        found = [job_id for job_id, (job, _) in self._line.items() if condition(job)]
        taken = [self._remove(job_id)[0] for job_id in found]
        return [*taken, *(job for run in list(self._runs.values()) for job in run.cut(condition))] if self._runs else taken

    def follow(self, run: Run) -> None:
        """These wait here, too, for the one in front of them."""
        self._runs[id(run)] = run
        self._behind += len(run)

    def unfollow(self, run: Run, count: int) -> None:
        """So many of these do not any more."""
        self._behind -= count
        if not run:
            self._runs.pop(id(run), None)

    def has(self, job: Claimed) -> bool:
        """Whether it waits for a slot."""
        return job.id in self._line

    def _remove(self, job_id: int) -> tuple[Claimed, float]:
        job, since = self._line.pop(job_id)
        if job.lane in self._lanes:
            del self._lanes[job.lane][job_id]
        return job, since
