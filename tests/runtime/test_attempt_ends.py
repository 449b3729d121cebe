"""Attempts that are ended: from outside, by a stop, in the middle of cleaning up."""

import asyncio
import threading

import pytest

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
