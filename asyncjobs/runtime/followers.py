"""The followers of a head: the next jobs of its key's line, claimed with it by a runner that claims ahead (`Queue(prefetch=N)`).

A call and a commit for each job of a key is what most of them cost. With followers they are run one after the other, and acked
together. What the database keeps is in `store/routines/finish/_chapter.sql`; what the runner does:

1. A run travels with its first job: whatever becomes of that one (it starts, waits, is given back), those behind it follow or are
   given back.
2. They wait, and count as what waits (`runtime/stock.py`), but may not use a slot until the one in front has *plainly completed*:
   its handler returned, and its outcome is the next call's. Then the next goes behind what waits for a slot.
3. Whatever else the one in front ends in (an error, a verdict, an interruption, a request, a completion in its handler's own
   transaction) ends the run: those behind it are given back, and none has begun. So does the loss of a claim of theirs.
4. What takes back a job that waits for a slot (a stop, a pause, a breaker, a request, its expiry) takes it, and all behind it.
5. Outcomes of a run are written in its order, those of one call together. While one of them cannot be written (its row is
   locked, the database refuses it) those behind it wait for it.
6. `ctx.complete` waits until all outcomes in front of its own are written: what a handler commits by itself is in order, too.
7. Followers that are given back were claimed in vain, which costs two writes each. So a runner asks for as many as its jobs of
   keys deserve: a run that is cut short by how one of its jobs ended halves that number, a job that completes adds one.

So a key's jobs run in their order, one at a time, and after a crash again from the first whose outcome was not written. More of
them may run again than without `prefetch`: all that had ended since the last call.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import force_setattr

from asyncjobs.model.claim import Claimed, Finished
from asyncjobs.runtime.stock import Stock


class Followers:
    """Those of one run that have not had their turn, in the order of their line; and what became of the others' outcomes."""

    def __init__(self, jobs: Sequence[Claimed]) -> None:
        self._jobs = deque(jobs)
        self.since = time.monotonic()  # when their claim was answered
        self.is_broken = False
        self._written = 0  # outcomes
        self._stock: Stock | None = None
        self._waiting: list[tuple[int, Callable[[], Any]]] = []  # for so many to be written
        for number, job in enumerate(jobs, 1):
            force_setattr(job, "followers", self)
            force_setattr(job, "number", number)

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Any:
        return iter(self._jobs)

    def wait_in(self, stock: Stock) -> None:
        """They count as what waits there."""
        self._stock = stock
        stock.follow(self)

    def next(self) -> Claimed:
        """The next has its turn."""
        job = self._jobs.popleft()
        self._gone(1)
        return job

    def cut(self, condition: Callable[[Claimed], bool] = lambda _: True) -> list[Claimed]:
        """The first of which this is true, and all behind it: they are not to start here."""
        at = next((at for at, job in enumerate(self._jobs) if condition(job)), len(self._jobs))
        cut = [self._jobs.pop() for _ in range(len(self._jobs) - at)]
        self._gone(len(cut))
        return cut[::-1]

    def _gone(self, count: int) -> None:
        if self._stock is not None:
            self._stock.unfollow(self, count)

    # Outcomes.

    def settled(self, *, completed: bool) -> None:
        """An outcome of the run was written, as a completion or not; or its claim was lost."""
        self._written += 1
        self.is_broken |= not completed
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for number, tell in waiting:
                self.when_written(number, tell)

    def when_written(self, number: int, tell: Callable[[], Any]) -> None:
        """Call this when so many outcomes are written, or the run is broken; at once if it is so."""
        if self._written >= number or self.is_broken:
            tell()
        else:
            self._waiting.append((number, tell))


def joined(finished: Finished) -> Finished:
    """The answer with each head's followers behind it."""
    lines: dict[str | None, list[Claimed]] = {}
    for job in sorted(finished.followers, key=lambda job: job.place):
        lines.setdefault(job.serialization_key, []).append(job)
    heads = {job.serialization_key: job for job in (*finished.claimed, *(job for job, _ in finished.asking))}
    for key, jobs in lines.items():
        force_setattr(heads[key], "followers", Followers(jobs))
    return finished
