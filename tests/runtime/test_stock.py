"""What waits for a slot on the runner that claimed it ahead: who starts next, as of when, and what is given back."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from asyncjobs.declare.definition import JobDefinition, TypeOptions
from asyncjobs.model.claim import Scan
from asyncjobs.model.request import Request
from asyncjobs.runtime import stock
from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.coordinator import Coordinator, Shared
from asyncjobs.runtime.polling import Polling
from asyncjobs.runtime.queues import Queues
from asyncjobs.runtime.registration import Registration
from asyncjobs.runtime.requests import _is_of
from asyncjobs.settings import Queue
from asyncjobs.telemetry.events import AttemptStarted
from tests.support.attempts import Runs
from tests.support.claims import a_claimed
from tests.support.eventually import eventually
from tests.support.lines import Line


class Rig:
    """A queue with one slot kept for `fast` and one general slot. Jobs of type `wait` end when theirs is let go."""

    def __init__(self) -> None:
        self.runs = Runs()
        self.line = Line()
        self.held: set[str] = set()
        self.go: dict[int, asyncio.Event] = {}
        self.attempts = Attempts(events=self.runs.events)
        self.queues = Queues()
        handlers = {name: JobDefinition(name, self.wait, TypeOptions(), declared_at="test") for name in ("wait", "guarded")}
        nobody: Any = SimpleNamespace(ended=lambda _: None, is_held=lambda job: job.type in self.held, began=lambda _: None)
        shared = Shared(
            line=cast("Any", self.line), attempts=self.attempts, handlers=handlers, surroundings=self.runs.surroundings,
            polling=Polling(lambda: 3600.0), turnstile=nobody, probation=nobody, keys=nobody, verify=nobody, note=lambda *_: None,
            others=lambda: 0,
        )  # fmt: skip
        self.coordinator = Coordinator(Queue(concurrency=2, lanes={"fast": 1}, prefetch=10), shared)
        self.queues.add(self.coordinator)
        self.registration = Registration(
            cast("Any", None), self.attempts, self.queues, types=[], versions={}, events=self.runs.events, gives_up=True
        )

    async def wait(self) -> int:
        job_id = self.runs.contexts[-1].job.id
        await self.go.setdefault(job_id, asyncio.Event()).wait()
        return job_id

    def claim(self, *ids: int, lane: str | None = None, scan: str | None = None, **fields: Any) -> None:
        """Claimed with the scan of a lane (None: for general slots), while nothing waits in the coordinator's hands."""
        for id in ids:
            job = a_claimed(**({"id": id, "token": id, "type": "wait", "lane": lane} | fields))
            self.coordinator._start_or_stock(job, Scan("default", scan, 100), {})
        self.coordinator._fill_kept()

    async def end(self, job_id: int) -> None:
        await eventually(lambda: job_id in self.go, description=f"job {job_id} has begun")
        self.go[job_id].set()
        await eventually(lambda: job_id not in self.running, description=f"job {job_id} has ended")

    @property
    def running(self) -> list[int]:
        return [attempt.claimed.id for attempt in self.attempts.all]

    @property
    def waiting(self) -> int:
        return self.queues.waiting

    @property
    def given_back(self) -> list[int]:
        return self.line.given_back

    def stop(self) -> None:
        self.registration.give_up_claims()

    def obey(self, request: Request) -> None:
        if not self.attempts.obey(request):
            self.queues.give_back_waiting(partial(_is_of, request))

    @property
    def taken(self) -> int:
        return sum(lane.slots.taken for lane in self.coordinator.lanes.values())


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_general_slot_takes_the_first_of_all_in_the_order_of_the_claims(rig: Rig) -> None:
    rig.claim(1, 2, 3)
    rig.claim(4, priority=1)
    rig.claim(9, scan="fast", lane="fast")
    rig.claim(5, lane="fast")
    started = []
    for job_id in (1, 2, 3, 4):
        await rig.end(job_id)
        started.append(rig.running[-1])
    assert started == [2, 3, 4, 5]
    assert rig.waiting == 0
    rig.stop()
    assert await rig.attempts.wait_ended(5)


async def test_slot_that_is_kept_for_a_lane_takes_the_first_of_that_lane(rig: Rig) -> None:
    rig.claim(1)
    rig.claim(2, scan="fast", lane="fast")
    rig.claim(3, lane="slow")
    rig.claim(4, 5, lane="fast")
    await rig.end(2)
    assert (rig.running, rig.waiting) == ([1, 4], 2)
    await rig.end(1)
    assert rig.running == [4, 3]
    rig.stop()
    assert await rig.attempts.wait_ended(5)


async def test_kept_slot_of_its_lane_that_is_free_is_taken_at_once(rig: Rig) -> None:
    rig.claim(1)
    rig.claim(2, lane="slow")
    rig.claim(3, lane="fast")
    assert (rig.running, rig.waiting) == ([1, 3], 1)
    rig.stop()
    assert await rig.attempts.wait_ended(5)
    assert rig.taken == 0


async def test_kept_slot_stays_free_when_nothing_of_its_lane_waits(rig: Rig) -> None:
    rig.claim(1, 2)
    rig.claim(3, scan="fast", lane="fast")
    await rig.end(3)
    assert (rig.running, rig.coordinator.lanes["fast"].slots.free) == ([1], 1)
    rig.stop()
    assert await rig.attempts.wait_ended(5)


def test_job_has_started_when_it_has_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(stock, "time", SimpleNamespace(monotonic=lambda: clock.now))
    line = stock.Stock(1, ())
    job = a_claimed()
    claimed_at = job.started_epoch
    line.add(job)
    clock.now += 7.5
    taken = line.take(None)
    assert taken is not None
    assert taken.started_epoch - claimed_at == 7.5
    assert line.take(None) is None


async def test_queue_time_is_counted_until_the_start(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(stock, "time", SimpleNamespace(monotonic=lambda: clock.now))
    seen: list[AttemptStarted] = []
    rig.runs.events.subscribe(seen.append, AttemptStarted)
    rig.claim(1, 2)
    clock.now += 60
    await rig.end(1)
    await rig.end(2)
    assert [event.queued_seconds for event in seen] == [1.0, 61.0]  # a_claimed: one second from due to claimed
    began = [context.job.started_at for context in rig.runs.contexts]
    assert began[1] - began[0] == timedelta(seconds=60)  # type: ignore[operator]


async def test_timeout_is_counted_from_the_start(rig: Rig) -> None:
    rig.claim(1)
    rig.claim(2, timeout_seconds=0.3)
    rig.go[2] = asyncio.Event()
    rig.go[2].set()
    await asyncio.sleep(0.4)  # longer than its timeout
    await rig.end(1)
    assert await rig.attempts.wait_ended(5)
    assert [(ack.id, ack.outcome.kind) for ack in rig.line.put_] == [(1, "completed"), (2, "completed")]


async def some_waiting(rig: Rig) -> None:
    rig.claim(1)
    rig.claim(2, type="guarded")
    rig.claim(3, losses=1)


GIVERS: dict[str, tuple[Callable[[Rig], None], list[int]]] = {
    "all": (lambda rig: rig.queues.give_back_waiting(), [2, 3]),
    "some": (lambda rig: rig.queues.give_back_waiting(lambda job: job.type == "guarded"), [2]),
    "a claim that may be lost": (lambda rig: rig.stop(), [2, 3]),
    "a request": (lambda rig: rig.obey(Request(3, 3, "cancel", None)), [3]),
    "a request to another claim": (lambda rig: rig.obey(Request(3, 4, "cancel", None)), []),
}


@pytest.mark.parametrize("name", GIVERS)
async def test_what_waits_is_given_back_and_never_starts(rig: Rig, name: str) -> None:
    await some_waiting(rig)
    give, expected = GIVERS[name]
    give(rig)
    assert rig.given_back == expected
    assert rig.waiting == 2 - len(expected)
    for event in [rig.go.setdefault(job_id, asyncio.Event()) for job_id in (1, 2, 3)]:
        event.set()
    assert await rig.attempts.wait_ended(5)
    assert [context.job.id for context in rig.runs.contexts if context.job.id in expected] == []
    assert rig.taken == 0


async def test_job_that_a_breaker_holds_does_not_begin_to_wait(rig: Rig) -> None:
    rig.held.add("guarded")
    await some_waiting(rig)
    assert (rig.given_back, rig.waiting) == ([2], 1)
    rig.stop()
    assert await rig.attempts.wait_ended(5)


def test_what_has_a_slot_that_is_kept_for_it_is_asked_for_again() -> None:
    line = stock.Stock(2, ())
    for id in range(4):
        line.add(a_claimed(id=id))
    assert (line.is_ample, line.room, line.without_slot) == (True, 0, 4)
    line.kept += [None, None, None]
    assert (line.is_ample, line.room, line.without_slot) == (False, 1, 1)
    line.take_if(lambda job: job.id < 2)
    assert (line.is_ample, line.room, line.without_slot) == (False, 2, 0)


@pytest.mark.parametrize(("most", "rooms"), [(4, [4, 3, 2, 0, 0]), (1, [1, 0]), (0, [0])])
def test_no_more_is_asked_for_while_more_than_half_waits(most: int, rooms: list[int]) -> None:
    line, found = stock.Stock(most, ()), list[int]()
    for id in range(most + 1):
        found.append(line.room)
        line.add(a_claimed(id=id))
    assert found == rooms
