"""What waits for a slot on the runner that claimed it ahead: who starts next, as of when, and what is given back."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from asyncjobs.config import Queue
from asyncjobs.handlers import Declared, Handler
from asyncjobs.model.claim import Ack, Scan
from asyncjobs.model.request import Request
from asyncjobs.runtime import prefetched
from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.runtime.prefetched import Prefetched
from asyncjobs.telemetry.events import AttemptStarted
from tests.support.attempts import Runs
from tests.support.claims import a_claimed
from tests.support.eventually import eventually

GENERAL = Scan("default", None, 100)
FAST = Scan("default", "fast", 1)


class Rig:
    """A queue with one slot kept for `fast` and one general slot. Jobs of type `wait` end when theirs is let go."""

    def __init__(self) -> None:
        self.runs = Runs()
        self.put: list[Ack] = []
        self.ended: list[int] = []
        self.held: set[str] = set()
        self.go: dict[int, asyncio.Event] = {}
        self.coordinator = Coordinator(
            Queue(concurrency=2, lanes={"fast": 1}, prefetch=10), ask=lambda: None, later=lambda *_: None
        )
        handlers = {name: Handler(name, self.wait, Declared(), declared_at="test") for name in ("wait", "guarded")}
        self.attempts = Attempts(
            handlers, [self.coordinator], self.runs.surroundings, put=self.put.append, settle=lambda *_: None,
            wake=lambda: None, note=lambda *_: None, pool=cast("Any", None), ended=lambda job: self.ended.append(job.id),
            is_held=lambda job: job.type in self.held,
        )  # fmt: skip

    async def wait(self) -> int:
        job_id = self.runs.contexts[-1].job.id
        await self.go.setdefault(job_id, asyncio.Event()).wait()
        return job_id

    def claim(self, *ids: int, scan: Scan = GENERAL, **fields: Any) -> None:
        for id in ids:
            self.attempts.start(a_claimed(**({"id": id, "token": id, "type": "wait"} | fields)), scan)

    async def end(self, job_id: int) -> None:
        await eventually(lambda: job_id in self.go, description=f"job {job_id} has begun")
        self.go[job_id].set()
        await eventually(lambda: job_id not in self.running, description=f"job {job_id} has ended")

    @property
    def running(self) -> list[int]:
        return [attempt.claimed.id for attempt in self.attempts.all]

    @property
    def given_back(self) -> list[int]:
        return [ack.id for ack in self.put if ack.outcome.kind == "interrupted"]


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_general_slot_takes_the_first_of_all_in_the_order_of_the_claims(rig: Rig) -> None:
    rig.claim(1, 2, 3)
    rig.claim(4, priority=1)
    rig.claim(9, scan=FAST, lane="fast")
    rig.claim(5, lane="fast")
    started = []
    for job_id in (1, 2, 3, 4):
        await rig.end(job_id)
        started.append(rig.running[-1])
    assert started == [2, 3, 4, 5]
    assert rig.coordinator.waiting == 0
    rig.attempts.cancel_all("shutdown")
    assert await rig.attempts.wait_ended(5)


async def test_slot_that_is_kept_for_a_lane_takes_the_first_of_that_lane(rig: Rig) -> None:
    rig.claim(1)
    rig.claim(2, scan=FAST, lane="fast")
    rig.claim(3, lane="slow")
    rig.claim(4, 5, lane="fast")
    await rig.end(2)
    assert (rig.running, rig.coordinator.waiting) == ([1, 4], 2)
    await rig.end(1)
    assert rig.running == [4, 3]
    rig.attempts.cancel_all("shutdown")
    assert await rig.attempts.wait_ended(5)


async def test_kept_slot_of_its_lane_that_is_free_is_taken_at_once(rig: Rig) -> None:
    rig.claim(1)
    rig.claim(2, lane="slow")
    rig.claim(3, lane="fast")
    assert (rig.running, rig.coordinator.waiting) == ([1, 3], 1)
    rig.attempts.cancel_all("shutdown")
    assert await rig.attempts.wait_ended(5)
    assert rig.coordinator.slots.taken == 0


async def test_kept_slot_stays_free_when_nothing_of_its_lane_waits(rig: Rig) -> None:
    rig.claim(1, 2)
    rig.claim(3, scan=FAST, lane="fast")
    await rig.end(3)
    assert (rig.running, rig.coordinator.slots.free("fast")) == ([1], 1)
    rig.attempts.cancel_all("shutdown")
    assert await rig.attempts.wait_ended(5)


def test_job_has_started_when_it_has_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(prefetched, "time", SimpleNamespace(monotonic=lambda: clock.now))
    line = Prefetched(Coordinator(Queue(prefetch=1), ask=lambda: None, later=lambda *_: None))
    job = a_claimed()
    line.add(job)
    clock.now += 7.5
    taken = line.take(None)
    assert taken is not None
    assert taken.started_epoch - job.started_epoch == 7.5
    assert line.take(None) is None


async def test_queue_time_is_counted_until_the_start(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(prefetched, "time", SimpleNamespace(monotonic=lambda: clock.now))
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
    rig.claim(2, timeout_seconds=0.05)
    rig.go[2] = asyncio.Event()
    rig.go[2].set()
    await asyncio.sleep(0.1)  # longer than its timeout
    await rig.end(1)
    assert await rig.attempts.wait_ended(5)
    assert [(ack.id, ack.outcome.kind) for ack in rig.put] == [(1, "completed"), (2, "completed")]


async def some_waiting(rig: Rig) -> None:
    rig.claim(1)
    rig.claim(2, type="guarded")
    rig.claim(3, losses=1)


GIVERS: dict[str, tuple[Callable[[Rig], None], list[int]]] = {
    "all": (lambda rig: rig.attempts.give_back_waiting(), [2, 3]),
    "some": (lambda rig: rig.attempts.give_back_waiting(lambda job: job.type == "guarded"), [2]),
    "a claim that may be lost": (lambda rig: rig.attempts.cancel_all("claim lost"), [2, 3]),
    "a request": (lambda rig: rig.attempts.obey(Request(3, 3, "cancel", None)), [3]),
    "a request to another claim": (lambda rig: rig.attempts.obey(Request(3, 4, "cancel", None)), []),
}


@pytest.mark.parametrize("name", GIVERS)
async def test_what_waits_is_given_back_and_never_starts(rig: Rig, name: str) -> None:
    await some_waiting(rig)
    give, expected = GIVERS[name]
    give(rig)
    assert (rig.given_back, rig.ended) == (expected, expected)
    assert rig.coordinator.waiting == 2 - len(expected)
    for event in [rig.go.setdefault(job_id, asyncio.Event()) for job_id in (1, 2, 3)]:
        event.set()
    assert await rig.attempts.wait_ended(5)
    assert [context.job.id for context in rig.runs.contexts if context.job.id in expected] == []
    assert rig.coordinator.slots.taken == 0


async def test_job_that_a_breaker_holds_does_not_begin_to_wait(rig: Rig) -> None:
    rig.held.add("guarded")
    await some_waiting(rig)
    assert (rig.given_back, rig.ended, rig.coordinator.waiting) == ([2], [2], 1)
    rig.attempts.cancel_all("shutdown")
    assert await rig.attempts.wait_ended(5)


async def test_ids_are_what_runs_and_what_waits(rig: Rig) -> None:
    rig.claim(1, 2, 3)
    assert (sorted(rig.attempts.ids), rig.attempts.waiting) == ([1, 2, 3], 2)
    rig.attempts.cancel_all("shutdown")
    assert (sorted(rig.attempts.ids), rig.attempts.waiting) == ([1], 0)
    assert await rig.attempts.wait_ended(5)


class Turns:
    """Outcomes of which each turn of the loop brings some, as long as there are any to bring."""

    def __init__(self, *brought: int) -> None:
        self.outcomes: list[int] = [0]
        self.brought = list(brought)

    def turn(self) -> None:
        if self.brought:
            self.outcomes += [0] * self.brought.pop(0)
            asyncio.get_running_loop().call_soon(self.turn)


@pytest.mark.parametrize(
    ("brought", "waiting", "gathered"),
    [((10, 10, 0, 10), 5, 21), ((10,) * 20, 5, 101), ((10, 10), 2, 1)],
    ids=["until a turn brings none", "until the call is full", "not while little waits"],
)
async def test_outcomes_gather(brought: tuple[int, ...], waiting: int, gathered: int) -> None:
    coordinator = Coordinator(Queue(prefetch=5), ask=lambda: None, later=lambda *_: None)
    coordinator.waiting = waiting
    turns = Turns(*brought)
    asyncio.get_running_loop().call_soon(turns.turn)
    await prefetched.gather(turns.outcomes, 100, [coordinator])
    assert len(turns.outcomes) == gathered
