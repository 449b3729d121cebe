"""Attempts in their slots: taken at the start, free when the handler has really ended."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest

from asyncjobs.config import Queue
from asyncjobs.handlers import Declared, Handler
from asyncjobs.model.claim import FRONT, Ack, Scan
from asyncjobs.runtime import attempts as attempts_module
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.telemetry.events import HandlerStuck
from tests.support.attempts import Runs
from tests.support.claims import SUSPECT, a_claimed
from tests.support.eventually import eventually

GENERAL = Scan("default", None, 1, FRONT)
FAST = Scan("default", "fast", 1, FRONT)


class Rig:
    """Attempts of one queue whose handlers end when they are let go."""

    def __init__(self) -> None:
        self.runs = Runs()
        self.put: list[Ack] = []
        self.wakes = 0
        self.settled: list[Ack] = []
        self.go = asyncio.Event()
        self.coordinator = Coordinator(Queue(concurrency=3, lanes={"fast": 1}), ask=lambda: None, later=lambda *_: None)
        handlers = {name: Handler(name, function, Declared(), declared_at="test") for name, function in self.functions.items()}
        self.attempts = Attempts(
            handlers, [self.coordinator], self.runs.surroundings, put=self.put.append, settle=self.settle, wake=self.wake,
            note=lambda *_: None, pool=cast("Any", None),
        )  # fmt: skip

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        return {"wait": self.wait, "stubborn": self.stubborn, "complete": self.complete}

    async def wait(self) -> None:
        await self.go.wait()

    async def stubborn(self) -> None:
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                continue

    async def complete(self) -> None:
        self.attempts.all[0].completed_here = True

    def settle(self, _attempt: Attempt, ack: Ack) -> None:
        self.settled.append(ack)

    def wake(self) -> None:
        self.wakes += 1

    def start(self, id: int = 1, *, type: str = "wait", scan: Scan = GENERAL, **fields: Any) -> Attempt:
        self.attempts.start(a_claimed(id=id, token=id, type=type, **fields), scan)
        return self.attempts.all[-1]

    @property
    def free(self) -> tuple[int, int]:
        return self.coordinator.slots.free("fast"), self.coordinator.slots.free(None)


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_slot_of_the_scan_is_taken_at_once_and_free_when_the_handler_has_ended(rig: Rig) -> None:
    rig.start(1)
    rig.start(2, scan=FAST)
    assert (rig.free, sorted(rig.attempts.ids)) == ((0, 1), [1, 2])
    rig.go.set()
    assert await rig.attempts.wait_ended(5)
    assert (rig.free, rig.attempts.ids) == ((1, 2), set())
    assert [ack.id for ack in rig.put] == [1, 2]


async def test_handler_that_ignores_its_cancellation_keeps_its_slot(rig: Rig) -> None:
    attempt = rig.start(type="stubborn")
    await asyncio.sleep(0)
    rig.attempts.cancel_all("shutdown")
    assert not await rig.attempts.wait_ended(0.05)
    assert (rig.free, list(rig.attempts.ids), rig.put) == ((1, 1), [1], [])
    assert attempt.cancel_reason == "shutdown"
    rig.go.set()
    assert await rig.attempts.wait_ended(5)
    assert rig.free == (1, 2)


async def test_handler_that_goes_on_is_reported_as_stuck_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts_module, "STUCK_SECONDS", 0.05)
    seen: list[HandlerStuck] = []
    rig.runs.events.subscribe(seen.append, HandlerStuck)
    rig.start(1, type="stubborn")
    rig.start(2)
    await asyncio.sleep(0)
    rig.attempts.cancel_all("claim lost")
    rig.attempts.report_stuck()
    assert seen == []
    await asyncio.sleep(0.06)
    for _ in range(3):
        rig.attempts.report_stuck()
    assert [(event.job_id, event.type, event.reason) for event in seen] == [(1, "stubborn", "claim lost")]
    assert rig.attempts.stuck == 1
    rig.go.set()
    assert await rig.attempts.wait_ended(5)


async def test_handler_that_ignores_its_timeout_is_reported_as_stuck(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts_module, "STUCK_SECONDS", 0.02)
    seen: list[HandlerStuck] = []
    rig.runs.events.subscribe(seen.append, HandlerStuck)
    rig.start(1, type="stubborn", timeout_seconds=0.01)
    await asyncio.sleep(0.05)
    rig.attempts.report_stuck()
    assert [event.reason for event in seen] == ["timeout"]
    rig.go.set()
    assert await rig.attempts.wait_ended(5)
    assert [ack.outcome.kind for ack in rig.put] == ["retry"]


async def test_job_that_its_handler_completed_is_settled_not_acked(rig: Rig) -> None:
    rig.start(type="complete")
    assert await rig.attempts.wait_ended(5)
    assert rig.wakes == 1  # nothing is put, which would wake it
    assert ([ack.id for ack in rig.settled], rig.put) == ([1], [])
    assert rig.free == (1, 2)


async def test_no_suspect_may_be_claimed_while_one_is_here_and_its_end_is_a_reason_to_look(rig: Rig) -> None:
    assert rig.attempts.may_take_suspect(GENERAL)
    rig.start(1, **SUSPECT)
    assert not rig.attempts.may_take_suspect(GENERAL)
    version = rig.coordinator.version
    rig.go.set()
    assert await rig.attempts.wait_ended(5)
    assert (rig.attempts.may_take_suspect(GENERAL), rig.coordinator.version) == (True, version + 1)


async def test_no_suspect_may_be_claimed_ahead_of_its_slot(rig: Rig) -> None:
    rig.start(1)
    rig.start(2)
    assert (rig.attempts.may_take_suspect(GENERAL), rig.attempts.may_take_suspect(FAST)) == (False, True)
    rig.start(3, **SUSPECT)
    assert [(ack.id, ack.outcome.kind) for ack in rig.put] == [(3, "interrupted")]
    assert rig.attempts.may_take_suspect(FAST)
    rig.go.set()
    assert await rig.attempts.wait_ended(5)


async def test_jobs_beyond_the_free_slots_wait_for_one_in_the_order_of_their_claims(rig: Rig) -> None:
    for id in (1, 2, 3, 4):
        rig.start(id)
    assert ([attempt.claimed.id for attempt in rig.attempts.all], rig.coordinator.waiting) == ([1, 2], 2)
    assert sorted(rig.attempts.ids) == [1, 2, 3, 4]
    rig.attempts.all[0].cancel("cancel requested")
    await eventually(lambda: rig.put, description="the first has ended")
    assert ([attempt.claimed.id for attempt in rig.attempts.all], rig.coordinator.waiting) == ([2, 3], 1)
    rig.go.set()
    assert await rig.attempts.wait_ended(5)
    assert ([ack.id for ack in rig.put], rig.coordinator.waiting, rig.free) == ([1, 2, 3, 4], 0, (1, 2))


async def test_jobs_that_wait_are_given_back_and_those_that_run_go_on(rig: Rig) -> None:
    for id in (1, 2, 3):
        rig.start(id, losses=1 if id == 3 else 0)
    rig.attempts.give_back_waiting()
    assert [(ack.id, ack.outcome.kind) for ack in rig.put] == [(3, "interrupted")]
    assert (sorted(rig.attempts.ids), rig.coordinator.waiting) == ([1, 2], 0)
    rig.go.set()
    assert await rig.attempts.wait_ended(5)


async def test_waiting_for_nothing_is_over_at_once(rig: Rig) -> None:
    assert await rig.attempts.wait_ended(0)
    assert await rig.attempts.wait_ended(5)


async def test_what_has_ended_is_gone_without_the_collector(rig: Rig) -> None:
    gc.disable()
    try:
        attempt = weakref.ref(rig.start())
        rig.go.set()
        assert await rig.attempts.wait_ended(5)
        await asyncio.sleep(0)  # the task's own end
        rig.runs.contexts.clear()
        assert attempt() is None
    finally:
        gc.enable()
