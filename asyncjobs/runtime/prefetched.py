"""The jobs that a runner has claimed ahead of its free slots (`Queue(prefetch=N)`), until a slot takes them.

A claim per free slot is what keeps work where it can run at once. For jobs that are shorter than a round trip it is the round
trips that cost; `prefetch` trades for them. What holds:

1. Off unless asked for: a queue without `prefetch` has nothing here, ever. With `prefetch=N`, at most N jobs of the queue wait
   here. They come with the scan for general slots; slots that are kept for a lane are never claimed ahead for.
2. The database knows no difference: a job that waits here is processing, under the runner's name and a token of its own, and the
   claim has counted its attempt. A runner that dies leaves it to the rescue like any other, as a failed attempt; a head of a key
   holds its key, and the order of the key, as if it ran.
3. A slot that is free is never left empty while a job waits here that may use it. A general slot takes the first of all, a slot
   that is kept for a lane the first of that lane; they start in the order in which they were claimed. So what becomes pending
   later starts after them, whatever its priority.
4. An attempt begins when it has its slot: timeout, queue time and the `started_at` that the handler sees count from there. (The
   row's `started_at` is the instant of the claim.)
5. Whatever keeps a job from being claimed takes back what has not started: a stop of the runner, a pause of its queue, type or
   key (`runtime/giving_back.py`), a circuit breaker that is not closed (but for its probes), a claim that may be lost. So does a
   request to end it, which the ack carries out. Such a job gets its attempt back and a new place, behind what is pending; if its
   type or key is paused, it is `paused`.
6. A claim that was sent before such a change and is answered after it brings jobs that may not run any more. A stopped queue
   and a breaker are looked at when the answer comes; a pause, when that call is over.
7. A slot that is freed as a frozen process goes on takes the next that waits here before anybody can tell that its claim may
   be another's by now. The attempt finds that out by itself, and does not begin (`runtime/attempt.py`).
8. While more than half of N waits here nothing is urgent. So the acker lets the loop turn before it calls, as long as each turn
   ends attempts (those that wait for nothing themselves): with N=500 a statement then serves some 240 jobs, without it 100.

A crash between the claim and the start leaves what a crash during the attempt does: a processing row of a runner that is gone.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sized

import msgspec

from asyncjobs.model.claim import Claimed
from asyncjobs.runtime.coordinator import Coordinator


class Prefetched:
    """What waits for the slots of one queue. It counts its jobs in the queue's coordinator, which asks for no more than N."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._line: OrderedDict[int, tuple[Claimed, float]] = OrderedDict()  # by job, with when its claim was answered
        kept = [lane for lane in coordinator.slots.lanes if lane is not None]
        self._lanes: dict[str, OrderedDict[int, None]] = {lane: OrderedDict() for lane in kept}

    @property
    def ids(self) -> Collection[int]:
        """The jobs that wait."""
        return self._line.keys()

    def add(self, job: Claimed) -> None:
        """Let it wait behind the others."""
        self._line[job.id] = job, time.monotonic()
        if job.lane in self._lanes:
            self._lanes[job.lane][job.id] = None
        self._coordinator.waiting += 1

    def take(self, lane: str | None) -> Claimed | None:
        """The first that may use a slot of this kind, if there is one, as of now: it starts."""
        line = self._line if lane is None else self._lanes[lane]
        if not line:
            return None
        job, since = self._remove(next(iter(line)))
        return msgspec.structs.replace(job, started_epoch=job.started_epoch + time.monotonic() - since)

    def take_if(self, condition: Callable[[Claimed], bool], *, among: Iterable[int] | None = None) -> list[Claimed]:
        """Those that are not to start here, of all or of these jobs."""
        ids = self._line if among is None else among
        found = [job_id for job_id in ids if job_id in self._line and condition(self._line[job_id][0])]
        return [self._remove(job_id)[0] for job_id in found]

    def _remove(self, job_id: int) -> tuple[Claimed, float]:
        job, since = self._line.pop(job_id)
        if job.lane in self._lanes:
            del self._lanes[job.lane][job_id]
        self._coordinator.waiting -= 1
        return job, since


async def gather(outcomes: Sized, most: int, coordinators: Iterable[Coordinator]) -> None:
    """Let attempts that end without waiting for anything join the call, while one of these has enough that waits."""
    count = 0
    while count < len(outcomes) < most and any(coordinator.is_stocked for coordinator in coordinators):
        count = len(outcomes)
        await asyncio.sleep(0)
