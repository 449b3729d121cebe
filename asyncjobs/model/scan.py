"""Where a claim starts to read the index of pending jobs, so that it does not walk the dead entries at its front again and again.

While any session of the server holds an old snapshot, entries of jobs that were claimed long ago stay at the front of the index,
and every scan walks them (0.15 µs each: 25,000 claims/s fell to 4,900/s after 100,000 jobs). So a scan starts where the newest
*full* scan ended. What lies before that point (a late commit, a better priority, a retry) is found because

* a scan that met jobs that have expired lets the next one start behind them, and counts as full (`store/routines/expiry`);
* a scan that came back short makes the next one start at the front: only a backlog keeps the start ahead;
* a scan starts at the front when `max(100 ms, 20 × what the last front scan took)` has passed since that one;
* whoever makes something pending that may belong before it gives a hint.

The scans of a queue that has ageing take jobs by age (`store/routines/finish/pick_aged.sql`), and always start at the front.

A start belongs to one scan (a queue, or one lane of it) and moves only when that scan was filled. A hint is served by the answer
of a scan that began at the front after it was given: a call that fails has served nobody.

A scan that came back short has seen everything together with the full ones before it, each of which began where the one before
had ended, back to the front. All that was pending when the first of these was sent is seen, so no scan from the front has to
follow for that. What became pending later, with a place before their ends, was not.
"""

from typing import Final

from asyncjobs.model.claim import AGED, FRONT, is_front

_LEAST_SECONDS: Final = 0.1
#: What is looked for again and again is not looked for before so many times its cost: it takes a twentieth of the time at most.
COST_RATIO: Final = 20.0


class ScanStart:
    """The start of one scan. Not thread-safe: it belongs to its coordinator."""

    __slots__ = ("_front", "_front_at", "_front_call", "_front_cost", "_hints", "_served", "_serving", "_start")

    def __init__(self, ageing_seconds: float | None = None) -> None:
        #: Where the front is; that of a scan by age is all that there is.
        self._front = FRONT if ageing_seconds is None else (AGED, round(ageing_seconds * 1_000_000))
        self._start = self._front
        self._hints = 0
        self._serving = 0  # the hints that had been given when the scan that is under way began
        self._served = 0
        self._front_at = float("-inf")
        self._front_cost = 0.0
        self._front_call = 0  # the number of the call of the last scan from the front

    def hint(self) -> None:
        """Start the next scan at the front."""
        self._hints += 1

    def next(self, now: float) -> tuple[int, int]:
        """Where the scan that is made now starts."""
        due = now - self._front_at >= max(_LEAST_SECONDS, COST_RATIO * self._front_cost)
        if self._hints > self._served or due:
            self._serving = self._hints
            return self._front
        return self._start

    def made(
        self, start: tuple[int, int], *, full: bool, last: tuple[int, int] | None, call: int, at: float, seconds: float
    ) -> tuple[int, float] | None:
        """The scan of this call, that began at `at` and took `seconds`: whether it was filled, and the last row it returned.

        The call, and the instant, before which all that became pending has been seen; None: this scan was not the last of it.
        """
        if is_front(start):
            self._front_at, self._front_cost, self._served = at, seconds, self._serving
            self._front_call = call
        self._start = last if full and last is not None and self._front == FRONT else self._front
        return None if full else (self._front_call, self._front_at)

    @property
    def front(self) -> tuple[int, int]:
        """The start of a scan that sees everything."""
        return self._front
