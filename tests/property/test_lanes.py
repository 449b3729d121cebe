"""Coordinator, slots and starts against a model without scans: each free slot goes to the best job that may have it."""

from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from asyncjobs.config import Queue
from asyncjobs.model.claim import Scan
from asyncjobs.runtime.coordinator import Coordinator
from tests.support.claims import a_claimed

LANES = st.sampled_from(["fast", "slow", "other", None])


@dataclass(frozen=True)
class Pending:
    priority: int
    place: int
    lane: str | None


class Lanes(RuleBasedStateMachine):
    """The database is a list; a claim takes from it what the SQL would take."""

    @initialize(general=st.integers(0, 4), fast=st.integers(0, 3), slow=st.integers(0, 2))
    def start(self, general: int, fast: int, slow: int) -> None:
        lanes = {lane: slots for lane, slots in (("fast", fast), ("slow", slow)) if slots}
        self.sizes: dict[str | None, int] = {None: general if lanes else max(general, 1)}
        self.sizes.update(lanes)
        queue = Queue(concurrency=sum(self.sizes.values()), lanes=lanes)
        self.now, self.place, self.early_place = 0.0, 0, 0
        self.pending: list[Pending] = []
        self.running: list[tuple[Pending, str | None]] = []
        self.coordinator = Coordinator(queue, ask=lambda: None, later=lambda *_: None)

    def free(self, lane: str | None) -> int:
        return self.sizes.get(lane, 0) - sum(1 for _, slot in self.running if slot == lane)

    @rule(priority=st.integers(0, 2), lane=LANES, count=st.integers(1, 5))
    def enqueue(self, priority: int, lane: str | None, count: int) -> None:
        for _ in range(count):
            self.place += 1
            self.pending.append(Pending(priority, self.place, lane))
        self.coordinator.wake(front=priority < 2)

    @rule(lane=LANES)
    def commit_late(self, lane: str | None) -> None:
        """A place that was drawn long ago, and nobody says so."""
        self.early_place -= 1
        self.pending.append(Pending(2, self.early_place, lane))
        self.coordinator.wake()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: Any) -> None:
        ended = data.draw(st.sampled_from(self.running))
        self.running.remove(ended)
        self.coordinator.slots.give_back(ended[1])

    @rule(milliseconds=st.integers(1, 200))
    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds / 1000

    @rule()
    def lose_a_call(self) -> None:
        self.coordinator.scans(self.now)

    @rule()
    def claim_all(self) -> None:
        expected = self.expected()
        before = len(self.running)
        late = any(job.place < 0 for job in self.pending)  # found in time, not at once
        for _ in range(50):
            if not self.coordinator.is_hungry:
                break
            self.turn()
        else:
            raise AssertionError("never satisfied")
        left = [job for job in self.pending if self.free(None) or self.free(job.lane)]
        assert left == [], "a slot is free that this job may have"
        if not late:
            assert {(job.place, slot) for job, slot in self.running[before:]} == expected

    def expected(self) -> set[tuple[int, str | None]]:
        """The model: the best job first, into a slot of its lane, else into a general one."""
        free = {lane: self.free(lane) for lane in self.sizes}
        found: set[tuple[int, str | None]] = set()
        for job in sorted(self.pending, key=lambda job: (job.priority, job.place)):
            for slot in (job.lane, None):
                if free.get(slot, 0) > 0:
                    free[slot] -= 1
                    found.add((job.place, slot))
                    break
        return found

    def turn(self) -> None:
        scans = self.coordinator.scans(self.now)
        assert scans, "hungry, and asks for nothing"
        version = self.coordinator.version
        for scan in scans:
            assert scan.limit == self.free(scan.lane)
            self.answer(scan, version)

    def answer(self, scan: Scan, version: int) -> None:
        found = [
            job
            for job in sorted(self.pending, key=lambda job: (job.priority, job.place))
            if (job.priority, job.place) > scan.start and scan.lane in (None, job.lane)
        ][: scan.limit]
        claimed = [a_claimed(id=job.place, priority=job.priority, place=job.place, lane=job.lane) for job in found]
        self.coordinator.answered(scan, claimed, version=version, at=self.now, seconds=0.001, others=False)
        for job in found:
            self.pending.remove(job)
            self.running.append((job, scan.lane))
            self.coordinator.slots.take(scan.lane)

    @invariant()
    def slots_add_up(self) -> None:
        if hasattr(self, "coordinator"):
            for lane in self.sizes:
                assert self.free(lane) >= 0
                if lane is None or self.sizes[lane]:
                    assert self.coordinator.slots.free(lane) == self.free(lane)


Lanes.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLanes = Lanes.TestCase
