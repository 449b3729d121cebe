"""Which of many runners look for jobs of which all of them hear.

A notification reaches every runner. If each looked, one job would cost a claim, and a second look, of each. So what is told of
jobs that became pending carries their number and a lot (`model/peers.py`), and this holds:

1. Runners that serve the same (queues, slots, types, versions) are peers; each knows those that were awake at its last beat.
   The lot puts them in an order. Others are no peers: of each kind some are called. A runner that knows of no peers is called
   by every lot.
2. As many of the first are *called* as it takes slots for the jobs: they claim at once, and each answers for its share.
3. The others do not look. One without a free slot notes the reason, so the next slot that it frees asks.
4. A called one whose scan was full, and that answers for more, passes the rest on, with a lot of its own. So does one that cannot
   claim (no slot is free, its line is closed): after 2 ms, if no slot was freed meanwhile; and one that stops. What eight in a
   row have passed on, none of which could claim any of it, calls all: that is a notification without a lot, and every runner
   looks.
5. All are called once in 20 ms at most: one that was about to has nothing to say when another has.
6. The three that come next see to it that the called ones were there: after 25 ms, 0.3 and 0.7 s they ask whether anything is
   there (a look, no claim), unless they have seen since that nothing was; then they claim. One that is full by then notes the
   reason, as in 3.
7. What a look finds, who was called may have left, and others do not know of: if the scan that follows is full, others are
   called for as many jobs again. If that of the poll is, all are.
8. An enqueue of a single plain job that is not urgent calls a runner of its own process, if one runs the type and has a free
   slot that no claim has asked for: it answers for the job, and nobody else is told unless it passes the job on, as in 4. (What
   is passed on carries no hint for scans, which an urgent one needs: `model/scan.py`.)
9. A called one that finds what it answers for needs no second look (4 of `runtime/coordinator.py`): the next peer's is one.

Enqueues carry a number, and so do promotions, next heads of keys, what rescues give back, and members of workflows that are
released. All are called where the number is not known (a limit has room again, an operator resumes a queue), and for suspects,
of which each runner takes one.

What a crash leaves. Of a called one, before its claim: the next peer's look, 25 ms later; if that one is gone as well, those of
the others. Of one that has claimed a part of its share: the same look, and 7. Of one that was about to pass on or to call all:
the same. Of all four at once (a host that is frozen), of who enqueued, before it notified or its own runner has claimed, of a
session that swallows notifications: the poll. No wake-up depends on what a runner thinks of the others: a list of peers that is
out of date calls one too many, or nobody, and then the look finds it.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

from asyncjobs.model.chance import CHANCE
from asyncjobs.model.peers import Lot
from asyncjobs.runtime.orders import Scanned

#: When those that come next look, after they have heard.
LOOKS_AFTER_SECONDS: Final = (0.025, 0.3, 0.7)
#: Between two calls of all.
APART_SECONDS: Final = 0.02
#: How long one that is called waits for a slot to be freed, before it passes on what it is called for.
PATIENCE_SECONDS: Final = 0.002
#: So many times jobs are passed on by runners that could claim none of them. Where four of five slots are taken half of the
#: runners are full. Claims that carried no outcomes, for each batch of jobs, when the first of a hundred such that was full
#: called all: 5.2; after three, five, eight that were full: 2.9, 1.7, 1.3. Notifications: 1.1, 1.8, 2.0, 2.2.
MOST_PASSES: Final = 8

#: How many peers come before this one in the order of a draw; None: so many or more.
Place = Callable[[int, int], int | None]


def alone(_draw: int, _most: int, /) -> int | None:
    """The place of a runner that knows of no peers."""
    return 0


class Herd:
    """What the coordinator of one queue has to do with the other runners that serve it."""

    def __init__(self, slots: int, *, place: Place, tell: Callable[[int | None, int], None], others: Callable[[], int]) -> None:
        self._slots = max(slots, 1)
        self._place = place
        self._tell = tell  # the others of so many jobs; None: call all
        self._others = others
        self.told = 0.0  # jobs that this one answers for; inf: of those that the others may not know of
        self._passes = 0  # how often some of these have been passed on
        self._called_at = -inf  # when all were called last
        self._timer: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None

    def called(self, lot: Lot) -> int:
        """Of how many jobs this runner is called for, 0: not; below zero: it is to look, as the first, the second …"""
        width = -(-lot.count // self._slots)
        place = self._place(lot.draw, width + len(LOOKS_AFTER_SECONDS))
        if place is None:
            return 0
        return -(-lot.count // width) if place < width else width - place - 1

    def answer_for(self, jobs: int, *, passes: int, can_claim: bool) -> None:
        """This runner is called for so many, which have been passed on so often."""
        self._passes = max(passes, self._passes) if self.told else passes
        self.told += jobs
        if not can_claim and self._patience is None and self._others():
            self._patience = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._pass_on)

    def found_by_look(self) -> None:
        """There are jobs that others were called for, and have not claimed: perhaps as many as two runners have slots for."""
        self.told = max(self.told, 2.0 * self._slots)

    def found_by_poll(self) -> None:
        """There may be any number of jobs of which the others do not know."""
        self.told = inf

    def begin(self) -> float:
        """A claim is made: for how many it answers. Those that are told of meanwhile may not be seen by it."""
        told, self.told = self.told, 0.0
        return told

    def end(self, told: float, found: Sequence[Scanned], *, is_seen: bool, can_claim: bool) -> None:
        """That claim has found this. `is_seen`: with it, all that was told of before it has been seen."""
        claimed = sum(len(one.jobs) for one in found)
        if not is_seen:
            self.told += max(told - claimed, 0.0)
        if can_claim or not self.told:
            return
        if claimed:
            self._passes = -1
        self._pass_on()

    def _pass_on(self) -> None:
        """Let others see to the jobs that this one answers for, if no claim has been made for them."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        left, self.told = self.told, 0.0
        if left == inf or self._passes >= MOST_PASSES:
            self.call_all()
        elif left and self._others():
            self._tell(int(left), self._passes + 1)

    def stop(self) -> None:
        """This runner claims no more."""
        self._pass_on()

    def call_all(self) -> None:
        """Let every runner look that has a free slot."""
        if self._timer is not None or not self._others():
            return
        wait = self._called_at + APART_SECONDS - time.monotonic()
        if wait > 0:
            self._timer = asyncio.get_running_loop().call_later(wait * (1 + CHANCE.random()), self._call_all)
        else:
            self._call_all()

    def _call_all(self) -> None:
        self._timer = None
        self._called_at = time.monotonic()
        self._tell(None, 0)

    def all_called(self) -> None:
        """Another called all: those who have room see to what this one answers for."""
        self._called_at = time.monotonic()
        self.told = 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
