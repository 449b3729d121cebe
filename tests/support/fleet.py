"""Runners that hear of jobs, on virtual time: real coordinators, whose loops can be frozen or killed, and a database of lists.

What is simulated here is what `runtime/herd.py` speaks of, and nothing else, so a hundred thousand enqueues take minutes: the
pending jobs, notifications that reach every runner some time later, claims and looks that take a while, beats that say who is
awake. There is no poll.
"""

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

from asyncjobs.model.claim import Claimed, Scan
from asyncjobs.model.peers import LOTS, Lot, Peers
from asyncjobs.runtime import coordinator, herd
from asyncjobs.runtime.coordinator import Coordinator, Shared
from asyncjobs.runtime.orders import Order, Scanned
from asyncjobs.runtime.polling import Polling
from asyncjobs.settings import Queue
from tests.simulation.loop import make_loop
from tests.support.claims import a_claimed, an_ack

BEAT_SECONDS: Final = 5.0
AWAKE_SECONDS: Final = 8.0
RESCUE_SECONDS: Final = 2.0
_FRESH_SECONDS: Final = 0.015


class Fleet:
    """The database, the clock, and all runners."""

    def __init__(
        self, seed: int, runners: int, slots: int, monkeypatch: Any, durations: Sequence[float] = (0.0, 0.01, 0.1)
    ) -> None:
        self.random = Random(seed)
        self.now = 1000.0
        self.slots, self.durations = slots, durations
        self.pending: dict[int, float] = {}  # job -> since when
        self.waits: list[float] = []
        self.claims = self.looks = self.told = 0
        self.alone = 0  # claims that carried no outcomes: nothing else asked for a call
        self.late: list[str] = []
        self._ids, self._order = count(1), count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self.runners: list[SimRunner] = []
        self._gone: list[SimRunner] = []  # their tasks never end
        for module in (coordinator, herd):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(herd, "CHANCE", Random(seed))
        for _ in range(runners):
            self.start()

    def start(self) -> None:
        """One more runner."""
        self.runners.append(SimRunner(self, self.random.getrandbits(62)))

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), what))

    def latency(self) -> float:
        return self.random.expovariate(1000) if self.random.random() < 0.99 else self.random.uniform(0, 0.05)

    def enqueue(self, number: int) -> None:
        """So many jobs in one transaction, and their notification."""
        for _ in range(number):
            self.pending[next(self._ids)] = self.now
        self.later(self.latency(), lambda: self.tell(number, None))

    def tell(self, number: int | None, by: "SimRunner | None", passes: int = 0) -> None:
        """A notification, as long as its sender lives."""
        if by is not None and not by.is_alive:
            return
        self.told += 1
        lot = None if number is None else Lot(number, self.random.randrange(LOTS), passes)
        for runner in self.runners:
            if runner is not by:
                at = max(self.now + self.latency(), runner.heard_until)
                runner.heard_until = at
                runner.loop.call_at(at, runner.hear, lot)
            elif lot is not None:
                runner.loop.call_at(self.now, runner.hear_own, lot)

    def lose(self, runner: "SimRunner") -> None:
        """The rescue finds it gone."""
        self.runners.remove(runner)
        self._gone.append(runner)
        for job_id in runner.claimed:
            self.pending[job_id] = self.now
        runner.claimed.clear()
        self.tell(None, None)

    def run(self, seconds: float) -> None:
        ends_at = self.now + seconds
        while True:
            self._turn()
            following = [self._events[0][0]] if self._events else []
            following += [max(one.loop.next_at, one.frozen_until) for one in self.runners]
            at = min(following)
            if at > ends_at:
                self.now = ends_at
                return
            self.now = max(self.now, at)

    def _turn(self) -> None:
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[2]()
        for runner in self.runners:
            while runner.frozen_until <= self.now and runner.loop.is_ready:
                runner.loop.step()

    def watch(self, longest: float) -> None:
        """From now on: does a job wait for longer, while a runner that is awake has a free slot?"""
        self.later(0.1, lambda: self.watch(longest))
        oldest = min(self.pending.values(), default=self.now)
        idle = [one for one in self.runners if one.is_idle_since <= self.now - longest and one.awake_since <= self.now - longest]
        if self.now - oldest > longest and idle:
            self.late.append(f"at {self.now - 1000:.3f} a job waits for {self.now - oldest:.3f} s")


class SimRunner:
    """One process. It is its call line, too."""

    def __init__(self, fleet: Fleet, id: int) -> None:
        self.fleet, self.id = fleet, id
        self.loop = make_loop(lambda: fleet.now, fleet.late.append)
        self.is_alive, self.is_open = True, True
        self.frozen_until = self.heard_until = self.beat_at = 0.0
        self.awake_since = self.is_idle_since = fleet.now
        self.calls = self.unwritten = 0
        self.claimed: dict[int, None] = {}
        self.peers = Peers((), id)
        self.running: dict[int, Any] = {}
        runner: Any = SimpleNamespace(is_held=lambda _: False, ended=lambda _: None, began=lambda _: None)
        nobody: Any = SimpleNamespace(add=lambda _: None, remove=lambda _: None)
        shared = Shared(
            line=cast("Any", self), attempts=nobody, handlers={}, surroundings=runner, polling=Polling(lambda: 1e9),
            turnstile=runner, probation=runner, keys=runner, verify=lambda *_: None, note=lambda *_: None, others=lambda: 1,
            place=self._place,
            tell=lambda _, number, passes: fleet.later(fleet.latency(), lambda: fleet.tell(number, self, passes)),
        )  # fmt: skip
        self.coordinator = _Starts(Queue(concurrency=fleet.slots), shared)
        self.coordinator.runner = self
        self.loop.create_task(self.coordinator.run())
        self.beat()

    def _place(self, draw: int, most: int) -> int | None:
        return self.peers.place(draw, most)

    # What it does.

    def hear(self, lot: Lot | None) -> None:
        self.coordinator.hear(lot, front=False, is_own=False)

    def hear_own(self, lot: Lot) -> None:
        self.coordinator.hear(lot, front=False, is_own=True)

    def beat(self) -> None:
        """And it hears who is awake."""
        self.beat_at = self.fleet.now
        known = [one.id for one in self.fleet.runners if self.fleet.now - one.beat_at < AWAKE_SECONDS]
        self.peers = Peers({*known, self.id}, self.id)
        self.loop.call_later(BEAT_SECONDS, self.beat)

    def freeze(self, seconds: float) -> None:
        self.frozen_until = self.awake_since = max(self.frozen_until, self.fleet.now + seconds)

    def kill(self) -> None:
        """It does nothing any more. What it had claimed is given to others, a while later."""
        self.is_alive = False
        self.frozen_until = self.awake_since = float("inf")
        self.fleet.later(RESCUE_SECONDS, lambda: self.fleet.lose(self))

    # Its call line.

    async def wait_open(self) -> None:
        pass

    def hand_in(self, order: Order, *, at_once: bool = False) -> None:
        del at_once
        self.calls += 1
        number, sent_at = self.calls, self.fleet.now
        (scan,) = order.scans
        carries, self.unwritten = self.unwritten, 0

        async def make() -> None:
            found = await self._ask(lambda: self._claim(scan, carries=carries > 0))
            last = (found[-1].priority, found[-1].place) if found else None
            order.answered([Scanned(found, scan.start, len(found) >= scan.limit, last, number, sent_at, 0.0)])

        self.loop.create_task(make())

    def _claim(self, scan: Scan, *, carries: bool) -> list[Claimed]:
        fleet = self.fleet
        found = [job_id for job_id in fleet.pending if (100, job_id) > scan.start][: scan.limit]
        fleet.claims += 1
        fleet.alone += not carries
        for job_id in found:
            fleet.waits.append(fleet.now - fleet.pending.pop(job_id))
            self.claimed[job_id] = None
        return [a_claimed(id=job_id, token=job_id, place=job_id) for job_id in found]

    async def look(self, starts: Mapping[tuple[str, str | None], tuple[int, int]]) -> set[tuple[str, str | None]]:
        def found() -> set[tuple[str, str | None]]:
            self.fleet.looks += 1
            (start,) = starts.values()
            until, pending = self.fleet.now - _FRESH_SECONDS, self.fleet.pending.items()
            return {*starts} if any(since <= until and (100, job_id) > start for job_id, since in pending) else set()

        return await self._ask(found)  # type: ignore[no-any-return]

    async def _ask(self, what: Callable[[], Any]) -> Any:
        """The server does it some time later, whether or not its process is frozen, and its answer comes later still."""
        answer = self.loop.create_future()

        def arrives() -> None:
            if self.is_alive:
                found = what()
                self.loop.call_later(self.fleet.latency(), answer.set_result, found)

        self.fleet.later(self.fleet.latency(), arrives)
        return await answer

    def put(self, ack: Any) -> None:
        """The outcome is written with a call that claims, if there is one in this moment, else with one of its own."""
        self.claimed.pop(ack.id, None)
        self.unwritten += 1
        self.loop.call_soon(self.loop.call_soon, self._write)

    def _write(self) -> None:
        self.unwritten = 0


class _Starts(Coordinator):
    """Handlers are timers."""

    runner: SimRunner

    def start(self, job: Claimed, lane: str | None) -> None:
        runner = self.runner
        attempt: Any = SimpleNamespace(claimed=job, lane=lane, completed_in_transaction=False)
        runner.running[job.id] = attempt
        if len(runner.running) >= self.general.slots.size:
            runner.is_idle_since = float("inf")
        seconds = runner.fleet.random.choice(runner.fleet.durations)
        asyncio.get_running_loop().call_later(seconds, self._over, job, attempt)

    def _over(self, job: Claimed, attempt: Any) -> None:
        del self.runner.running[job.id]
        if len(self.runner.running) == self.general.slots.size - 1:
            self.runner.is_idle_since = self.runner.fleet.now
        self._ended(attempt, an_ack(job))
