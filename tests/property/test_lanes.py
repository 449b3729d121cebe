"""Coordinator, slots and starts against a model without scans: each free slot goes to the best job that may have it."""

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from asyncjobs.model.claim import Claimed, Scan
from asyncjobs.runtime import coordinator as module
from asyncjobs.runtime.coordinator import Coordinator, Shared
from asyncjobs.runtime.orders import NoAnswer, Scanned
from asyncjobs.runtime.polling import Polling
from asyncjobs.settings import Queue
from tests.support.claims import a_claimed
from tests.support.lines import Line

LANES = st.sampled_from(["fast", "slow", "other", None])


@dataclass(frozen=True)
class Pending:
    priority: int
    place: int
    lane: str | None


class Starts(Coordinator):
    """Its attempts are the model's."""

    def __init__(self, queue: Queue, shared: Shared, model: "Lanes") -> None:
        super().__init__(queue, shared)
        self.model = model

    def start(self, job: Claimed, lane: str | None) -> None:
        self.model.running.append((self.model.claimed[job.id], lane))


class Lanes(RuleBasedStateMachine):
    """The database is a list; a claim takes from it what the SQL would take."""

    @initialize(general=st.integers(0, 4), fast=st.integers(0, 3), slow=st.integers(0, 2))
    def start(self, general: int, fast: int, slow: int) -> None:
        lanes = {lane: slots for lane, slots in (("fast", fast), ("slow", slow)) if slots}
        self.sizes: dict[str | None, int] = {None: general if lanes else max(general, 1)}
        self.sizes.update(lanes)
        queue = Queue(concurrency=sum(self.sizes.values()), lanes=lanes)
        self.place, self.early_place = 0, 0
        self.claimed: dict[int, Pending] = {}
        self.pending: list[Pending] = []
        self.running: list[tuple[Pending, str | None]] = []
        self.now = 0.0
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.loop = asyncio.new_event_loop()
        self.line = Line()
        self.loop.run_until_complete(self.begin(queue))

    async def begin(self, queue: Queue) -> None:
        nobody: Any = SimpleNamespace(add=lambda _: None)
        shared = Shared(
            line=cast("Any", self.line), attempts=nobody, handlers={}, surroundings=nobody, polling=Polling(lambda: 3600.0),
            turnstile=nobody, probation=nobody, keys=nobody, verify=nobody, note=nobody, others=lambda: 0,
        )  # fmt: skip
        self.coordinator = Starts(queue, shared, self)
        self.task = self.loop.create_task(self.coordinator.run())

    def rest(self) -> None:
        """Let the coordinator come to rest."""

        async def turn() -> None:
            for _ in range(6):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turn())

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.task.cancel()
            self.rest()
            self.loop.close()
            self.patch.undo()

    @property
    def asked(self) -> list[Scan]:
        """What waits for an answer."""
        asked = self.line.asked
        return asked[-1][0] if asked and not asked[-1][1].done() else []

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
        self.coordinator.lanes[ended[1]].slots.give_back()
        self.coordinator._alarm.wake()

    @rule(milliseconds=st.integers(1, 200))
    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds / 1000

    @rule()
    def lose_the_call(self) -> None:
        self.lose_a_call()

    def lose_a_call(self) -> None:
        self.rest()
        if self.asked:
            self.line.calls += 1
            self.line.asked[-1][1].set_exception(NoAnswer())
            self.rest()

    @rule()
    def claim_all(self) -> None:
        self.lose_a_call()  # what was asked before may be behind the times
        expected = self.expected()
        before = len(self.running)
        late = any(job.place < 0 for job in self.pending)  # found in time, not at once
        for _ in range(50):
            self.rest()
            if not self.asked:
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
        scans, answer = self.line.asked[-1]
        self.line.calls += 1
        found = []
        for scan in scans:
            assert scan.limit <= self.free(scan.lane)
            found.append(self.answer(scan))
        answer.set_result(found)

    def answer(self, scan: Scan) -> Scanned:
        found = [
            job
            for job in sorted(self.pending, key=lambda job: (job.priority, job.place))
            if (job.priority, job.place) > scan.start and scan.lane in (None, job.lane)
        ][: scan.limit]
        claimed = [a_claimed(id=job.place, priority=job.priority, place=job.place, lane=job.lane) for job in found]
        for job in found:
            self.pending.remove(job)
        self.claimed.update({job.place: job for job in found})
        is_full = len(found) >= scan.limit
        last = (found[-1].priority, found[-1].place) if found else None
        return Scanned(claimed, scan.start, is_full, last, self.line.calls, self.now, 0.001)

    @invariant()
    def slots_add_up(self) -> None:
        if hasattr(self, "coordinator"):
            self.rest()
            asking = {scan.lane: scan.limit for scan in self.asked}
            for lane in self.sizes:
                assert self.free(lane) >= 0
                if lane is None or self.sizes[lane]:
                    assert self.coordinator.lanes[lane].slots.free == self.free(lane) - asking.get(lane, 0)


Lanes.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLanes = Lanes.TestCase
