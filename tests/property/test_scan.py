"""No start of a scan hides a job that was told of and committed within a second of its enqueue: nothing looks here, or polls.

A model of one scan in random worlds: bursts and rests, commits that come late, members that are released with the places of long
ago, few slots, several priorities, and calls that take from 1 to 300 ms.
"""

import random

import msgspec
import pytest

from asyncjobs.model.claim import FRONT
from asyncjobs.model.new_row import ORDINARY_PRIORITY
from asyncjobs.model.scan import ScanStart

SECONDS = 60.0


class Row(msgspec.Struct, frozen=True, order=True):
    """A job: pending from its commit on."""

    priority: int
    place: int
    commit_at: float
    is_member: bool = False

    @property
    def has_hint(self) -> bool:
        return self.is_member or self.priority < ORDINARY_PRIORITY


class World:
    """A scan, its slots, and who enqueues."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.start = ScanStart()
        self.slots = self.random.choice((1, 2, 5))
        self.priorities = self.random.choice(((100,), (100, 200), (50, 100, 200), (100, 100, 100, 10, 300), (-5, 100)))
        self.pace = self.random.choice((1.0, 5.0, 30.0))
        self.length = self.random.choice((0.01, 0.1, 0.5))  # of a job
        self.latest = self.random.choice((0.0, 0.2, 0.9))  # from an enqueue to its commit
        self.now = self.enqueue_at = 0.0
        self.place = self.calls = self.reason = 0
        self.seen = -1
        self.coming: list[Row] = []
        self.pending: list[Row] = []
        self.running: list[float] = []  # when they end

    def enqueue(self) -> None:
        """What was enqueued until now."""
        while self.enqueue_at <= self.now:
            for _ in range(self.random.choice((1, 1, 1, 8))):
                late = self.latest * self.random.random() if self.random.random() < 0.3 else 0.0
                self._add(late)
            if self.random.random() < 0.05:
                self._add(10 * self.random.random(), is_member=True)
            self.enqueue_at += self.random.expovariate(self.pace) + (3.0 if self.random.random() < 0.01 else 0.0)

    def _add(self, seconds: float, *, is_member: bool = False) -> None:
        self.place += 1
        self.coming.append(Row(self.random.choice(self.priorities), self.place, self.enqueue_at + seconds, is_member))

    def commit(self) -> None:
        """What was committed until now, of which the coordinator is told."""
        for row in [row for row in self.coming if row.commit_at <= self.now]:
            self.coming.remove(row)
            self.pending.append(row)
            self.reason = self.calls
            if row.has_hint:
                self.start.hint()

    def scan(self, free: int) -> None:
        """A call: it sees what was pending when it began."""
        start, at = self.start.next(self.now), self.now
        seconds = self.random.choice((0.001, 0.001, 0.003, 0.05, 0.3))
        claimed = sorted(row for row in self.pending if (row.priority, row.place) > start)[:free]
        self.pending = left = [row for row in self.pending if row not in claimed]
        self.calls += 1
        call = self.calls
        self.now += seconds
        self.pending = [*left]
        self.commit()
        seen = self.start.made(
            start, full=len(claimed) == free, last=max(((row.priority, row.place) for row in claimed), default=None), call=call,
            at=at, priority=min((FRONT[0] if row.is_member else row.priority for row in claimed), default=ORDINARY_PRIORITY),
            seconds=seconds,
        )  # fmt: skip
        self.running += [self.now + self.random.expovariate(1 / self.length) for _ in claimed]
        if seen is not None:
            self.seen = seen[0]
            assert self.seen <= self.reason or not left, f"rests at {self.now:.3f}, and has not seen {left[0]}"

    def run(self) -> None:
        while self.now < SECONDS:
            self.enqueue()
            self.commit()
            self.running = [end for end in self.running if end > self.now]
            free = self.slots - len(self.running)
            if self.seen <= self.reason and free:
                self.scan(free)
            else:
                self.now += 0.005


@pytest.mark.parametrize("seed", range(30))
def test_whoever_was_told_of_is_seen(seed: int) -> None:
    World(seed).run()
