"""Attempts that are ended: from outside, by a stop, in the middle of cleaning up."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from asyncjobs import Hook, JobContext
from asyncjobs.model.outcome import Outcome
from asyncjobs.runtime.threads import Threads
from asyncjobs.telemetry.events import AttemptStarted
from tests.support.attempts import Runs

pytestmark = pytest.mark.matrix("loop")


@pytest.fixture
def runs() -> Runs:
    return Runs()


async def test_attempt_whose_task_is_cancelled_from_outside_is_interrupted_and_comes_back_a_moment_later(runs: Runs) -> None:
    started = asyncio.Event()

    async def handler() -> None:
        started.set()
        await asyncio.sleep(30)

    task = runs.start(runs.make(handler, attempt=1, max_attempts=1))
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    [ack] = runs.acks
    assert (ack.outcome.kind, ack.outcome.delay_seconds) == ("interrupted", 1.0)


async def test_attempt_that_ends_with_its_loop_is_interrupted_whatever_its_cleaning_up_raises() -> None:
    runs = Runs(loop_ends=lambda: True)
    started = asyncio.Event()

    async def handler() -> None:
        started.set()
        try:
            await asyncio.sleep(30)
        finally:
            raise ValueError("half closed")

    task = runs.start(runs.make(handler, attempt=1, max_attempts=1))
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    [ack] = runs.acks
    assert (ack.outcome.kind, ack.outcome.delay_seconds) == ("interrupted", 0.0)
    assert ack.outcome.message == "interrupted: ValueError: half closed"


@pytest.mark.parametrize("error", [ValueError("x"), ExceptionGroup("both", [OSError("y")])], ids=repr)
async def test_error_of_a_handler_that_was_told_to_stop_is_its_cleaning_up_and_charges_nothing(
    runs: Runs, error: Exception
) -> None:
    started = asyncio.Event()

    async def handler() -> None:
        started.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise error from None

    attempt = runs.make(handler, attempt=1, max_attempts=1)
    task = runs.start(attempt)
    await started.wait()
    attempt.cancel("shutdown")
    await asyncio.wait([task])
    assert [ack.outcome.kind for ack in runs.acks] == ["interrupted"]


async def test_handler_that_ends_the_program_as_it_is_cancelled_has_failed(runs: Runs) -> None:
    started = asyncio.Event()

    async def handler() -> None:
        started.set()
        try:
            await asyncio.sleep(30)
        finally:
            raise SystemExit(3)

    task = runs.start(runs.make(handler, attempt=1, max_attempts=1))
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    assert [ack.outcome.kind for ack in runs.acks] == ["dead"]


async def test_answer_of_a_plain_function_that_never_saw_that_it_was_asked_to_end_counts(runs: Runs) -> None:
    started, go = threading.Event(), threading.Event()

    def function() -> str:
        started.set()
        go.wait()
        return "done"

    attempt = runs.make(function, max_attempts=1)
    task = runs.start(attempt)
    await asyncio.to_thread(started.wait)
    attempt.cancel("shutdown")
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait([task])
    assert [(ack.outcome.kind, ack.outcome.result) for ack in runs.acks] == [("completed", '"done"')]


class Trust:
    """Whether a runner may begin anything, by turns."""

    def __init__(self, *, answers: list[bool]) -> None:
        self.answers = answers

    def __call__(self) -> bool:
        return self.answers.pop(0)


class Noting(Hook):
    """Notes what it saw."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def before_attempt(self, _ctx: JobContext, /) -> None:
        await asyncio.sleep(0)
        self.seen.append("before")

    async def after_attempt(self, _ctx: JobContext, /, outcome: Outcome) -> None:
        self.seen.append(outcome.kind)


async def test_attempt_whose_runner_may_not_begin_it_neither_starts_nor_counts() -> None:
    noting, ran = Noting(), []
    runs = Runs(may_begin=Trust(answers=[False]), hooks=[noting])
    seen: list[object] = []
    runs.events.subscribe(seen.append, AttemptStarted)
    outcome = await runs.run(lambda: ran.append(1), attempt=1, max_attempts=1)
    assert (outcome.kind, outcome.delay_seconds, ran, seen, noting.seen) == ("interrupted", 0.0, [], [], [])


@pytest.mark.parametrize("is_async", [True, False])
async def test_handler_is_not_called_when_the_trust_was_lost_while_a_hook_waited(*, is_async: bool) -> None:
    ran: list[int] = []

    async def handler() -> None:
        ran.append(1)

    noting = Noting()
    runs = Runs(may_begin=Trust(answers=[True, False]), hooks=[noting])
    outcome = await runs.run(handler if is_async else lambda: ran.append(1), attempt=1, max_attempts=1)
    assert (outcome.kind, ran, noting.seen) == ("interrupted", [], ["before", "interrupted"])


async def test_plain_function_is_not_called_when_the_trust_was_lost_before_its_thread_had_its_turn() -> None:
    ran: list[int] = []
    runs = Runs(may_begin=Trust(answers=[True, False]))
    outcome = await runs.run(lambda: ran.append(1), attempt=1, max_attempts=1)
    assert (outcome.kind, ran) == ("interrupted", [])


async def test_plain_function_is_not_called_when_it_was_to_end_before_its_thread_had_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs, ran = Runs(), list[int]()
    attempt = runs.make(lambda: ran.append(1), attempt=1, max_attempts=1)
    run = Threads.run

    def late(self: Threads, function: Callable[[], object]) -> "asyncio.Future[object]":
        attempt.cancel("claim lost")
        return run(self, function)

    monkeypatch.setattr(Threads, "run", late)
    await asyncio.wait([runs.start(attempt)])
    assert (runs.acks[0].outcome.kind, ran) == ("interrupted", [])
