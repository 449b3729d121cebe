"""A coordinator that runs, with a call line and timers in the test's hands."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from asyncjobs.model.claim import Ack, Claimed, Scan
from asyncjobs.model.outcome import Outcome
from asyncjobs.model.peers import Lot
from asyncjobs.runtime import coordinator as module
from asyncjobs.runtime import herd
from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.coordinator import Coordinator, Shared
from asyncjobs.runtime.orders import NoAnswer, Scanned
from asyncjobs.runtime.polling import Polling
from asyncjobs.settings import Queue
from asyncjobs.telemetry.events import Events
from tests.support.claims import a_claimed
from tests.support.lines import Line


class Starts(Coordinator):
    """Its attempts are the test's."""

    def start(self, job: Claimed, lane: str | None) -> None:
        attempt: Any = SimpleNamespace(claimed=job, lane=lane, completed_in_transaction=False)
        self._shared.attempts.add(attempt)


class Harness:
    """A coordinator that runs, whose timers are fired by hand."""

    def __init__(self, queue: Queue, monkeypatch: pytest.MonkeyPatch, *, others: bool = False) -> None:
        self.line = Line()
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.now = 100.0
        for one in (module, herd):
            monkeypatch.setattr(one, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.attempts = Attempts(events=Events())
        self.keyed: list[Ack] = []
        self.verified: list[Ack] = []
        self.held: set[str] = set()
        self.place = 0
        fake: Any = SimpleNamespace(ended=lambda _: None, is_held=lambda job: job.type in self.held, began=lambda _: None)
        self.polling = Polling(lambda: 3600.0)
        self.after: int | None = 0  # so many of its peers are before it, by whatever lot
        self.told: list[int | None] = []
        self.passed: list[int] = []  # how often, of each of these
        shared = Shared(
            line=cast("Any", self.line), attempts=self.attempts, handlers={}, surroundings=fake, polling=self.polling,
            turnstile=fake, probation=fake, keys=cast("Any", SimpleNamespace(put=lambda _, ack: self.keyed.append(ack))),
            verify=lambda _, ack: self.verified.append(ack), note=lambda *_: None, others=lambda: int(others),
            place=lambda _, most: None if self.after is None or self.after >= most else self.after,
            tell=lambda _, count, passes: self.tell(count, passes),
        )  # fmt: skip
        self.coordinator = Starts(queue, shared)
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_later", self._later)
        self.task = loop.create_task(self.coordinator.run())

    def tell(self, count: int | None, passes: int) -> None:
        self.told.append(count)
        self.passed.append(passes)

    def _later(self, seconds: float, callback: Callable[..., None], *args: Any) -> Any:
        timer = (seconds, partial(callback, *args))
        if seconds < 3600.0:
            self.timers.append(timer)
        return SimpleNamespace(cancel=lambda: self.timers.remove(timer) if timer in self.timers else None)

    def hear(
        self, count: int | None, *, after: int | None = 0, front: bool = False, is_own: bool = False, passes: int = 0
    ) -> None:
        """A notification of so many jobs, by whose lot so many peers are before this one; None: all are called."""
        self.after = after
        self.coordinator.hear(None if count is None else Lot(count, 5, passes), front=front, is_own=is_own)

    def fire(self) -> None:
        """Let the time of every timer come."""
        timers, self.timers = self.timers, []
        self.now += max((seconds for seconds, _ in timers), default=0.0)
        for _, callback in timers:
            callback()

    async def turn(self) -> None:
        """Let it come to rest."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def asks(self) -> list[Scan]:
        """What it asks for now, if anything."""
        await self.turn()
        return self.line.asked[-1][0] if self.line.asked and not self.line.asked[-1][1].done() else []

    def send(self) -> None:
        """The call leaves."""
        self.line.calls += 1
        self.now += 0.001

    async def answer(self, *counts: int, number: int | None = None, jobs: Sequence[Claimed] | None = None) -> None:
        """Answer the scans with so many jobs each, as of a call that left now, or had that number."""
        scans = await self.asks()
        assert len(scans) == len(counts)
        if number is None:
            self.send()
        found = []
        for scan, count in zip(scans, counts, strict=True):
            places = range(self.place + 1, self.place + count + 1)
            claimed = [a_claimed(id=at, token=at, place=at, lane=scan.lane) for at in places]
            claimed = claimed if jobs is None else [*jobs]
            self.place += count
            last = max(((job.priority, job.place) for job in claimed if not job.suspicion), default=None)
            is_full = len(claimed) >= scan.limit
            found.append(Scanned(claimed, scan.start, is_full, last, number or self.line.calls, self.now, 0.001))
        self.line.asked[-1][1].set_result(found)
        await self.turn()

    async def fail(self) -> None:
        """The call is not answered."""
        await self.asks()
        self.line.asked[-1][1].set_exception(NoAnswer())
        await self.turn()

    async def end(self, job_id: int, **fields: Any) -> None:
        """A handler ends."""
        self.ends(job_id, **fields)
        await self.turn()

    def ends(self, job_id: int, **fields: Any) -> None:
        """A handler ends, and nothing has followed from it yet."""
        attempt = next(one for one in self.attempts.all if one.claimed.id == job_id)
        vars(attempt).update(fields)
        self.coordinator._ended(attempt, Ack(job_id, attempt.claimed.token, Outcome(kind="completed")))

    @property
    def running(self) -> list[tuple[int, str | None]]:
        return [(one.claimed.id, one.lane) for one in self.attempts.all]

    @property
    def free(self) -> dict[str | None, int]:
        return {name: lane.slots.free for name, lane in self.coordinator.lanes.items()}


@asynccontextmanager
async def working(queue: Queue, *, others: bool = False) -> AsyncGenerator[Harness]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        made = Harness(queue, monkeypatch, others=others)
        try:
            yield made
        finally:
            made.task.cancel()
            await asyncio.wait([made.task])
            made.line.refuse()
            await made.turn()
    held = {name: sum(lane == name for _, lane in made.running) for name in made.coordinator.lanes}
    assert {name: lane.slots.taken for name, lane in made.coordinator.lanes.items()} == held, "slots are lost"


def asked_for(scans: Sequence[Scan]) -> list[tuple[str | None, int]]:
    return [(scan.lane, scan.limit) for scan in scans]


async def looked_at(harness: Harness, found: Collection[tuple[str, str | None]] = ()) -> Any:
    harness.fire()
    await harness.turn()
    lanes, answer = harness.line.looks[-1]
    answer.set_result(set(found))
    await harness.turn()
    return lanes
