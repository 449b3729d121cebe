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

A crash between the claim and the start leaves what a crash during the attempt does: a processing row of a runner that is gone.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from asyncjobs.model.claim import Claimed


class Stock:
    """What waits for the slots of one queue; `lanes` are those with slots of their own."""

    def __init__(self, most: int, lanes: Iterable[str]) -> None:
        self.most = most
        self._line: OrderedDict[int, tuple[Claimed, float]] = OrderedDict()  # by job, with when its claim was answered
        self._lanes: dict[str, OrderedDict[int, None]] = {lane: OrderedDict() for lane in lanes}

    def __len__(self) -> int:
        return len(self._line)

    @property
    def expires_at(self) -> float:
        """When the next of these expires, by `boottime`."""
        return min((job.start_by for job, _ in self._line.values()), default=math.inf)

    @property
    def room(self) -> int:
        """How many are to be asked for: none as long as more than half of what may wait here does."""
        return 0 if self.is_ample else max(self.most - len(self._line), 0)

    @property
    def is_ample(self) -> bool:
        """Whether more than half of what may wait here does."""
        return len(self._line) * 2 > self.most

    def add(self, job: Claimed) -> None:
        """Let it wait behind the others."""
        self._line[job.id] = job, time.monotonic()
        if job.lane in self._lanes:
            self._lanes[job.lane][job.id] = None

    def take(self, lane: str | None) -> Claimed | None:
        """The first that may use a slot of this kind, if there is one, as of now: it starts."""
        line = self._line if lane is None else self._lanes[lane]
        if not line:
            return None
        job, since = self._remove(next(iter(line)))
        return msgspec.structs.replace(job, started_epoch=job.started_epoch + time.monotonic() - since)

    def take_if(self, condition: Callable[[Claimed], bool]) -> list[Claimed]:
        """Those of which this is true: they are not to start here."""
        found = [job_id for job_id, (job, _) in self._line.items() if condition(job)]
        return [self._remove(job_id)[0] for job_id in found]

    def _remove(self, job_id: int) -> tuple[Claimed, float]:
        job, since = self._line.pop(job_id)
        if job.lane in self._lanes:
            del self._lanes[job.lane][job_id]
        return job, since
