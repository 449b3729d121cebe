"""Attempts in their slots: taken at the start, free when the handler has really ended."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from asyncjobs.declare.definition import JobDefinition, TypeOptions
from asyncjobs.model.claim import Ack
from asyncjobs.model.request import Request
from asyncjobs.runtime import attempts as attempts_module
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.coordinator import Coordinator, Shared
from asyncjobs.runtime.polling import Polling
from asyncjobs.runtime.probation import Probation
from asyncjobs.settings import Queue
from asyncjobs.telemetry.events import HandlerStuck
from tests.support.attempts import Runs
from tests.support.claims import SUSPECT, a_claimed
from tests.support.eventually import eventually
from tests.support.lines import Line


class Rig:
    """Attempts of one queue whose handlers end when they are let go."""

    def __init__(self) -> None:
        self.runs = Runs()
        self.line = Line()
        self.verified: list[Ack] = []
        self.ended: list[int] = []
        self.go = asyncio.Event()
        self.attempts = Attempts(events=self.runs.events)
        self.woken = 0
        self.probation = Probation(cast("Any", None), events=self.runs.events, released=self.wake)
        handlers = {
            name: JobDefinition(name, function, TypeOptions(), declared_at="test") for name, function in self.functions.items()
        }
        turnstile: Any = SimpleNamespace(ended=lambda job: self.ended.append(job.id), is_held=lambda _: False)
        shared = Shared(
            line=cast("Any", self.line), attempts=self.attempts, handlers=handlers, surroundings=self.runs.surroundings,
            polling=Polling(lambda: 3600.0), turnstile=turnstile, probation=self.probation, keys=cast("Any", None),
            verify=self.verify, note=lambda *_: None, others=lambda: 0,
        )  # fmt: skip
        self.coordinator = Coordinator(Queue(concurrency=3, lanes={"fast": 1}), shared)

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        return {"wait": self.wait, "stubborn": self.stubborn, "complete": self.complete}

    @property
    def put(self) -> list[Ack]:
        return self.line.put_

    async def wait(self) -> None:
        await self.go.wait()

    async def stubborn(self) -> None:
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                continue

    async def complete(self) -> None:
        self.attempts.all[0].completed_in_transaction = True

    def verify(self, _attempt: Attempt, ack: Ack) -> None:
        self.verified.append(ack)

    def wake(self) -> None:
        self.woken += 1

    def start(self, id: int = 1, *, type: str = "wait", lane: str | None = None, **fields: Any) -> Attempt:
        assert self.coordinator.lanes[lane].slots.take(1)
        job = a_claimed(id=id, token=id, type=type, **fields)
        if job.losses:
            self.probation.claimed(job)
        self.coordinator.start(job, lane)
        return self.attempts.all[-1]

    @property
    def free(self) -> tuple[int, int]:
        return self.coordinator.lanes["fast"].slots.free, self.coordinator.general.slots.free

    @property
    def ids(self) -> list[int]:
        return [attempt.claimed.id for attempt in self.attempts.all]


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_slot_of_the_scan_is_taken_at_once_and_free_when_the_handler_has_ended(rig: Rig) -> None:
    rig.start(1)
    rig.start(2, lane="fast")
    assert (rig.free, sorted(rig.ids)) == ((0, 1), [1, 2])
    rig.go.set()
    assert await rig.attempts.wait_ended(5)
    assert (rig.free, rig.ids) == ((1, 2), [])
    assert [ack.id for ack in rig.put] == [1, 2]


async def test_handler_that_ignores_its_cancellation_keeps_its_slot(rig: Rig) -> None:
    attempt = rig.start(type="stubborn")
    await asyncio.sleep(0)
    rig.attempts.cancel_all("shutdown")
    assert not await rig.attempts.wait_ended(0.05)
    assert (rig.free, rig.ids, rig.put) == ((1, 1), [1], [])
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

    def is_reported() -> bool:
        rig.attempts.report_stuck()
        return bool(seen)

    await eventually(is_reported, description="it is reported")
    assert [event.reason for event in seen] == ["timeout"]
    rig.go.set()
    assert await rig.attempts.wait_ended(5)
    assert [ack.outcome.kind for ack in rig.put] == ["retry"]


async def test_job_that_its_handler_completed_is_settled_not_acked(rig: Rig) -> None:
    rig.start(type="complete")
    assert await rig.attempts.wait_ended(5)
    assert ([ack.id for ack in rig.verified], rig.put) == ([1], [])
    assert rig.free == (1, 2)


async def test_no_suspect_may_be_claimed_while_one_is_here_and_its_end_is_a_reason_to_look(rig: Rig) -> None:
    assert rig.probation.is_free
    rig.start(1, **SUSPECT)
    assert (rig.probation.is_free, rig.woken) == (False, 0)
    rig.go.set()
    assert await rig.attempts.wait_ended(5)
    assert (rig.probation.is_free, rig.woken) == (True, 1)


async def test_attempt_that_is_cancelled_before_its_first_step_frees_its_slot(rig: Rig) -> None:
    attempt = rig.start(1)
    assert attempt._task is not None
    attempt._task.cancel()
    assert await rig.attempts.wait_ended(5)
    assert (rig.free, [ack.outcome.kind for ack in rig.put], rig.ended) == ((1, 2), ["interrupted"], [1])


async def test_requests_are_for_a_claim_that_runs(rig: Rig) -> None:
    rig.start(1)
    await asyncio.sleep(0)
    assert not rig.attempts.obey(Request(1, 2, "cancel", None))
    assert not rig.attempts.obey(Request(2, 2, "cancel", None))
    assert rig.attempts.obey(Request(1, 1, "cancel", None))
    assert await rig.attempts.wait_ended(5)
    assert [ack.outcome.asked_for for ack in rig.put] == ["cancel"]


async def test_outcome_that_comes_after_the_stop_is_for_those_who_look_after_what_remains(rig: Rig) -> None:
    rest: list[int] = []
    rig.start(1, type="stubborn").hand_over(lambda _, ack: rest.append(ack.id))
    rig.go.set()
    await eventually(lambda: rest, description="it has ended")
    assert (rest, rig.put) == ([1], [])


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
