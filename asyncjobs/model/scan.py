"""Where a claim starts to read the index of pending jobs, so that it does not walk the dead entries at its front again and again.

While any session of the server holds an old snapshot, entries of jobs that were claimed long ago stay at the front of the index,
and every scan walks them (0.15 µs each: 25,000 claims/s fell to 4,900/s after 100,000 jobs; a page each where their rows lie far
apart). A start belongs to one scan (a queue, or one lane of it). It is

1. *ahead* behind a scan that was filled: where that ended. A scan that met jobs that have expired counts as full, and the next
   one starts behind them (`store/routines/expiry`).
2. the *floor* behind one that came back short: the place of a job that this scan claimed at least a second ago, when it had not
   started ahead. What was pending before that then has been claimed, or was locked. (One that starts ahead, behind jobs of a
   worse priority, does not see the ordinary ones that came meanwhile.) Its priority is the most urgent that the scan has brought
   yet, and ordinary at most, since places say nothing about other priorities. Until there is such a job the floor is the front.
3. the *front* when a scan has been ahead for `max(100 ms, 20 × what the last front scan took)`; and after a hint, which whoever
   makes something pending gives that may belong before the start. The poll gives one. A hint is served by the answer of a scan
   that began at the front after it was given: a call that fails has served nobody.

A scan from the floor, or from the front, that came back short has seen everything. So has one from ahead, together with the full
ones before it, each of which began where the one before had ended: all that was pending when the first of these was sent. What
became pending later, with a place before their ends, was not seen.

What has a place before the floor came late: it waits for a visit to the front. That is

* the look behind a scan that found nothing, or less than its runner answers for (`runtime/coordinator.py`, 4): it starts at the
  front, unless twenty times the last such have not passed yet. Other looks start at the floor. When a look has found something,
  the floor is the front again for a second at least;
* the scan of the poll (P6).

So a transaction that commits within a second of its enqueue waits for nothing, and a longer one for a look. Retries, snoozes,
promotions, next heads, rescues, what is given back and what is resumed draw a new place when they become pending, so they come
behind the floor. A better priority than the ordinary one has a hint, whoever makes it pending. So has what keeps an old place:
what was replaced or changed, a suspect that is cleared, and a member of a workflow that is released, which has the place that it
got when it was blocked. (Once a scan has brought a member, its floor is before all priorities that are in use.) Suspects and
jobs with a limit are found whatever the start. The scans of a queue that has ageing take jobs by age
(`store/routines/finish/pick_aged.sql`), and always start at the front.
"""

from typing import Final

from asyncjobs.model.claim import AGED, FRONT, Claimed
from asyncjobs.model.new_row import ORDINARY_PRIORITY

_LEAST_SECONDS: Final = 0.1
#: What is looked for again and again is not looked for before so many times its cost: it takes a twentieth of the time at most.
COST_RATIO: Final = 20.0
#: For so long at least a job must have been claimed whose place is the floor. (The last of those that see to it that called
#: runners were there looks after 0.7 s: `runtime/herd.py`.)
LATE_SECONDS: Final = 1.0


def floor_priority(job: Claimed) -> int:
    """Of which priority at most the floor of a scan is that has brought this one."""
    return job.priority if job.workflow_id is None else FRONT[0]


class ScanStart:
    """The start of one scan. Not thread-safe: it belongs to its coordinator."""

    __slots__ = (
        "_aged", "_floor", "_front_cost", "_hints", "_look_at", "_priority", "_served", "_serving", "_start", "_whole_at",
        "_whole_call", "_young", "_young_at",
    )  # fmt: skip

    def __init__(self, ageing_seconds: float | None = None) -> None:
        #: Where the front of a scan by age is, which is all that there is of one.
        self._aged = None if ageing_seconds is None else (AGED, round(ageing_seconds * 1_000_000))
        self._start: tuple[int, int] | None = None  # ahead; None: the floor
        self._hints = 0
        self._serving = 0  # the hints that had been given when the scan that is under way began
        self._served = 0
        self._front_cost = 0.0  # what the last scan from the front took
        self._look_at = float("-inf")  # when a look may start at the front again
        self._whole_at = float("-inf")  # when the last scan began that did not start ahead
        self._whole_call = 0  # the number of its call
        self._priority = ORDINARY_PRIORITY  # the floor's
        self._floor: int | None = None
        self._young: int | None = None  # the floor that is to be
        self._young_at = float("-inf")  # when that job was claimed

    def hint(self) -> None:
        """Start the next scan at the front."""
        self._hints += 1

    def next(self, now: float) -> tuple[int, int]:
        """Where the scan that is made now starts."""
        due = self._start is not None and now - self._whole_at >= max(_LEAST_SECONDS, COST_RATIO * self._front_cost)
        if self._hints > self._served or due:
            self._serving = self._hints
            return self.front
        return self.floor if self._start is None else self._start

    def made(
        self,
        start: tuple[int, int],
        *,
        full: bool,
        last: tuple[int, int] | None,
        priority: int,
        call: int,
        at: float,
        seconds: float,
    ) -> tuple[int, float] | None:
        """The scan of this call, that began at `at` and took `seconds`: whether it was filled, its last row, the best priority.

        The call, and the instant, before which all that became pending has been seen; None: this scan was not the last of it.
        """
        if start <= self.front:
            self._front_cost, self._served = seconds, self._serving
        is_whole = start <= self.floor
        if is_whole:
            self._whole_call, self._whole_at = call, at
        if not full or self._aged is not None:
            self._start = None
        else:
            self._start = FRONT if last is None else last
        if last is not None and self._aged is None:
            self._priority = min(self._priority, priority)
            if is_whole and at - self._young_at >= LATE_SECONDS:
                self._floor, self._young, self._young_at = self._young, last[1], at
        return None if full else (self._whole_call, self._whole_at)

    def look_in(self, now: float) -> float:
        """In how many seconds a look may start at the front."""
        return self._look_at - now

    def look(self, now: float, *, from_front: bool) -> tuple[int, int]:
        """Where a look for what scans have skipped starts: at the front if that is wanted, and it may."""
        return FRONT if self._floor is None or (from_front and self._look_at <= now) else self.floor

    def looked(self, start: tuple[int, int], *, found: bool, at: float, seconds: float) -> None:
        """That look was made: whether something was there."""
        if start == FRONT:
            self._look_at = at + COST_RATIO * seconds
        if found:
            self._floor = self._young = None

    @property
    def front(self) -> tuple[int, int]:
        """The start of a scan that sees everything, whenever it became pending."""
        return FRONT if self._aged is None else self._aged

    @property
    def floor(self) -> tuple[int, int]:
        """The start of a scan that sees everything, but for what came late."""
        return self.front if self._floor is None else (self._priority, self._floor)
