"""One queue on one runner: what it may ask for, and whether there is a reason to ask.

A coordinator is the synchronous half of claiming: it holds the queue's slots and knows what it has seen; the acker asks it for
its scans whenever a call goes out, so that freed slots, acks and claims of all queues share one statement. P5 and P6 live here:

1. It asks for exactly the free slots: a scan per lane with free slots of its own, and one for the general slots; to that one
   comes what is left of `prefetch`: jobs that wait here for a slot (`runtime/prefetched.py`).
2. Every reason to look (a notification, an enqueue of this process, a due job, the poll) bumps `version`. A scan remembers the
   version from *before* its statement was sent. It is satisfied only when it came back short, had started at the front, and the
   version is still the same; whatever happens while the statement is under way leaves it hungry. A flag that is cleared when the
   answer arrives would forget exactly that.
3. A freed slot is no reason by itself: when the last scan came back short, nothing was there. But a hungry scan is asked again at
   once when a slot becomes free, so a slot never stays empty while work is known to wait (P4).
4. Rows that somebody has locked (another runner's claim, a verb, a stranger's transaction) are skipped, not absent, and nobody
   notifies when they are let go. So a scan that came back short is followed by a look whether anything is there that it would
   have taken: after 20 ms while other runners live, else after 0.2 s; one look for all scans of that time, since it costs less
   than a scan. If something is there the scan is made again; as long as it comes back short the pauses double, up to a second.
5. A call that failed leaves its scans hungry, and they start at the front.
6. The next head of a key may start in the slot of the job before it, without a scan, as long as nothing else waits for that slot:
   the last scan came back short, it is no older than 0.1 s, and nothing has woken the coordinator since. Else the head becomes
   pending behind all that is, and takes part in a scan. (Starting it always: with 60 hot keys of 200 jobs each, 100 one-job keys
   started after 10,099 jobs, and a job of priority 1 after 10,000; with this rule after 149 and 50.) The age bounds what a missed
   notification can cost while keys keep the slots busy.
"""

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Final

from asyncjobs.config import Queue
from asyncjobs.model.claim import FRONT, Claimed, Scan
from asyncjobs.model.scan import ScanStart
from asyncjobs.model.slots import Slots

#: How long another claim may hold rows locked that it will not keep.
SECOND_LOOK_SECONDS: Final = 0.02
#: Without other runners only verbs and strangers lock rows.
LONELY_LOOK_SECONDS: Final = 0.2
LONGEST_LOOK_SECONDS: Final = 1.0

#: For how long a scan that came back short vouches for it that nothing waits.
HEADS_SECONDS: Final = 0.1

_order: Final = attrgetter("priority", "place")


class _Lane:
    """One scan of the queue: where it starts, and up to which version it has seen everything."""

    __slots__ = ("seen", "start")

    def __init__(self) -> None:
        self.start = ScanStart()
        self.seen = -1


class Coordinator:
    """Owns a queue's slots on this runner."""

    def __init__(self, queue: Queue, *, ask: Callable[[], None], later: Callable[[float, Callable[[], None]], object]) -> None:
        self.queue = queue.name
        self.slots = Slots(queue.concurrency, {name: lane.slots for name, lane in queue.lanes.items()})
        self.version = 0
        self.waiting = 0  # jobs that were claimed here and wait for a general slot
        self.prefetch = queue.prefetch if self.slots.free(None) else 0
        self._ask = ask
        self._later = later
        self._lanes = {lane: _Lane() for lane in self.slots.lanes}
        self.is_look_due = False
        self._short: set[str | None] = set()  # lanes whose scan came back short since the last look
        self._look_seconds: float | None = None  # the pause before the look that is planned, or was made last; None: the first
        self._is_look_planned = False
        self._short_at = float("-inf")  # when the last scan for general slots was made that came back short
        self._stopped = False

    @property
    def is_hungry(self) -> bool:
        """Whether there is a free slot and a reason to look for a job for it."""
        if not self._stopped:
            for name, lane in self._lanes.items():  # a generator would be half of what it takes
                if lane.seen != self.version and self._room(name):
                    return True
        return False

    def _room(self, lane: str | None) -> int:
        free = self.slots.free(lane)
        return free if lane is not None else free + max(self.prefetch - self.waiting, 0)

    @property
    def is_stocked(self) -> bool:
        """Whether more than half of what it may claim ahead waits here."""
        return self.waiting * 2 > self.prefetch

    @property
    def is_stopped(self) -> bool:
        """Whether it claims nothing any more."""
        return self._stopped

    def wake(self, *, front: bool = False) -> None:
        """There is a reason to look; `front`: perhaps before the jobs that were claimed last."""
        self.version += 1
        if front:
            for lane in self._lanes.values():
                lane.start.hint()
        self._ask()

    def expect_head(self) -> None:
        """The call that is made now may make a key's next job pending here: let it look for it, too."""
        self.version += 1

    def may_start_heads(self, now: float) -> bool:
        """Whether nothing that is known of waits for a free general slot, so that a key's next job may have it without a scan."""
        is_free = not self._stopped and self.slots.free(None) > 0
        return is_free and self._lanes[None].seen == self.version and now - self._short_at < HEADS_SECONDS

    def stop(self) -> None:
        """Claim nothing any more."""
        self._stopped = True

    def scans(self, now: float) -> list[Scan]:
        """What to ask for now."""
        if self._stopped:
            return []
        return [
            Scan(self.queue, name, room, lane.start.next(now))
            for name, lane in self._lanes.items()
            if (room := self._room(name)) and lane.seen != self.version
        ]

    def answered(
        self, scan: Scan, claimed: Sequence[Claimed], *, version: int, at: float, seconds: float, others: bool,
        apart: Collection[str] = (),
    ) -> None:  # fmt: skip
        """The answer to a scan that was asked for at `version` and sent at `at`. `others`: other runners may hold rows locked.

        Jobs of the types `apart` were looked for from the front, and do not tell how far the scan got.
        """
        lane = self._lanes[scan.lane]
        full = len(claimed) >= scan.limit
        last = _last([job for job in claimed if not (job.suspicion or job.type in apart)]) if full else None
        lane.start.made(scan.start, full=full, last=last, at=at, seconds=seconds)
        if not full and scan.start == FRONT:
            lane.seen = version
            if scan.lane is None:
                self._short_at = at
            self._short.add(scan.lane)
            if not self._is_look_planned:
                self._is_look_planned = True
                first = SECOND_LOOK_SECONDS if others else LONELY_LOOK_SECONDS
                self._later(self._look_seconds or first, self._look)

    def _look(self) -> None:
        self.is_look_due = not self._stopped
        self._ask()

    def looks(self) -> list[tuple[str, str | None]]:
        """The scans that may have skipped something. (Whatever slots are free: the next that is freed asks nobody.)"""
        return [(self.queue, lane) for lane in self._short]

    def looked(self, found: Collection[tuple[str, str | None]]) -> None:
        """What of that is there all the same."""
        was_skipped = any(look in found for look in self.looks())
        self._short.clear()
        self.is_look_due = self._is_look_planned = False
        if was_skipped:
            self._look_seconds = min(2 * (self._look_seconds or SECOND_LOOK_SECONDS), LONGEST_LOOK_SECONDS)
            self.wake()
        else:
            self._look_seconds = None


def _last(claimed: Sequence[Claimed]) -> tuple[int, int] | None:
    return max(map(_order, claimed), default=None)
