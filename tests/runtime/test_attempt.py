"""Whatever a handler ends in ends its attempt, and nothing else."""

import asyncio
import contextvars
import threading
import time
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from asyncjobs.context import JobContext, current
from asyncjobs.model.outcome import Cancel, Dead, Retry, Snooze
from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted
from tests.support.attempts import Runs

pytestmark = pytest.mark.matrix("loop")

_request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")


class OwnBase(BaseException):
    """As some libraries have one."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.fixture
def runs() -> Runs:
    return Runs()


async def test_value_completes_the_job(runs: Runs) -> None:
    async def handler(n: int) -> dict[str, int]:
        return {"n": n}

    outcome = await runs.run(handler, payload={"n": 3})
    assert (outcome.kind, outcome.result) == ("completed", '{"n":3}')


async def test_nothing_completes_the_job_without_a_result(runs: Runs) -> None:
    async def handler() -> None: ...

    outcome = await runs.run(handler)
    assert (outcome.kind, outcome.result, outcome.result_dropped) == ("completed", None, None)


@pytest.mark.parametrize(
    ("verdict", "kind", "delay", "message"),
    [
        (Snooze(5), "snooze", 5.0, None),
        (Retry(7), "retry", 7.0, "Retry: the handler asked for another attempt"),
        (Cancel("not wanted"), "cancel", 0.0, "not wanted"),
        (Dead("hopeless"), "dead", 0.0, "hopeless"),
    ],
)
async def test_verdict_is_obeyed(runs: Runs, verdict: Any, kind: str, delay: float, message: str | None) -> None:
    async def handler() -> Any:
        return verdict

    outcome = await runs.run(handler)
    assert (outcome.kind, outcome.delay_seconds, outcome.message) == (kind, delay, message)


ERRORS = [
    ValueError("no"), MemoryError(), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError("leaked"),
    StopAsyncIteration(), TimeoutError("its own"), OwnBase("odd"), BaseExceptionGroup("both", [SystemExit(2), ValueError("x")]),
    Unspeakable(),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_exception_of_any_kind_is_a_failed_attempt(runs: Runs, error: BaseException, kind: str) -> None:
    async def handler() -> None:
        raise error

    def function() -> None:
        raise error

    outcome = await runs.run(handler if kind == "async" else function)
    assert outcome.kind == "retry"
    assert outcome.error is not None
    assert str(outcome.error["type"]).endswith(type(error).__name__)
    assert (await runs.run(handler, attempt=3)).kind == "dead"


async def test_stop_iteration_is_a_failed_attempt(runs: Runs) -> None:
    def function() -> None:
        raise StopIteration

    async def handler() -> None:
        raise StopIteration

    assert [(await runs.run(each)).kind for each in (function, handler)] == ["retry", "retry"]


async def test_error_keeps_its_message_and_the_end_of_its_traceback(runs: Runs) -> None:
    async def handler() -> None:
        raise ValueError("the disk is full")

    outcome = await runs.run(handler)
    assert outcome.message == "ValueError: the disk is full"
    assert outcome.error is not None
    assert "in handler" in str(outcome.error["traceback"])


@pytest.mark.parametrize("text", ["x" * 10_000_000, "ä" * 2000, "nul \0 inside", "lone \ud800 surrogate"])
async def test_message_fits_its_column(runs: Runs, text: str) -> None:
    async def handler() -> None:
        raise ValueError(text)

    outcome = await runs.run(handler)
    assert outcome.message is not None
    assert len(outcome.message.encode()) <= 1000
    assert "\0" not in outcome.message
    assert len(msgspec.json.encode(outcome.error)) < 4000


async def test_error_whose_str_fails_is_named(runs: Runs) -> None:
    async def handler() -> None:
        raise Unspeakable

    outcome = await runs.run(handler)
    assert outcome.message is not None
    assert "str() of Unspeakable failed" in outcome.message


@pytest.mark.parametrize("payload", ['{"n": "three"}', "[]", "{}", '{"n": 1e999}'])
async def test_payload_that_does_not_fit_is_the_end_of_the_job_and_no_call(runs: Runs, payload: str) -> None:
    called: list[int] = []

    async def handler(n: int) -> None:
        called.append(n)

    outcome = await runs.run(handler, payload=payload)
    assert (outcome.kind, called) == ("dead", [])
    assert outcome.message is not None
    assert "UndecodablePayload" in outcome.message


async def test_payload_of_a_newer_program_is_given_back(runs: Runs) -> None:
    async def handler() -> None: ...

    assert (await runs.run(handler, version=2)).kind == "interrupted"
    yesterday = datetime(2025, 12, 31, tzinfo=UTC).timestamp()
    assert (await runs.run(handler, version=2, scheduled_epoch=yesterday)).delay_seconds >= 30


async def test_unstorable_result_is_the_end_of_the_job(runs: Runs) -> None:
    async def handler() -> Any:
        return float("nan")

    outcome = await runs.run(handler)
    assert outcome.kind == "dead"
    assert outcome.message is not None
    assert "UnstorableResult" in outcome.message


async def test_result_that_raises_anything_when_it_is_encoded_ends_only_its_attempt(runs: Runs) -> None:
    async def handler() -> int:
        return 1

    attempt = runs.make(handler, attempt=3)
    attempt.definition.encode_result = Mock(side_effect=KeyboardInterrupt)  # type: ignore[method-assign]
    await asyncio.wait([runs.start(attempt)])
    assert [ack.outcome.kind for ack in runs.acks] == ["dead"]


async def test_result_that_is_too_large_is_dropped_and_the_job_completes(runs: Runs) -> None:
    async def handler() -> str:
        return "x" * 2000

    outcome = await runs.run(handler)
    assert (outcome.kind, outcome.result, outcome.result_dropped) == ("completed", None, "too large: 2002 bytes")


async def test_attempt_that_takes_too_long_is_cancelled_and_has_failed(runs: Runs) -> None:
    cancelled: list[bool] = []

    async def handler() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    outcome = await runs.run(handler, timeout=0.05)
    assert (outcome.kind, cancelled) == ("retry", [True])
    assert outcome.error is not None
    assert str(outcome.error["type"]).endswith("AttemptTimeout")
    assert outcome.message is not None
    assert "0.05 s" in outcome.message


async def test_value_that_comes_after_the_time_was_over_does_not_count(runs: Runs) -> None:
    async def handler() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "done all the same"
        return "unreached"

    outcome = await runs.run(handler, timeout=0.05)
    assert outcome.kind == "retry"
    assert outcome.message is not None
    assert "AttemptTimeout" in outcome.message


async def test_plain_function_that_takes_too_long_is_waited_for_and_has_failed(runs: Runs) -> None:
    ended = threading.Event()

    def function() -> str:
        time.sleep(0.2)
        ended.set()
        return "late"

    outcome = await runs.run(function, timeout=0.05)
    assert ended.is_set()
    assert outcome.kind == "retry"
    assert outcome.message is not None
    assert "AttemptTimeout" in outcome.message


async def test_error_of_a_plain_function_that_took_too_long_is_what_failed_it(runs: Runs) -> None:
    def function() -> None:
        time.sleep(0.1)
        raise ValueError("late")

    outcome = await runs.run(function, timeout=0.02)
    assert outcome.kind == "retry"


async def test_time_counts_from_the_start_of_the_handler(runs: Runs) -> None:
    async def handler() -> str:
        await asyncio.sleep(0.1)
        return "in time"

    attempt = runs.make(handler, timeout=0.2)
    await asyncio.sleep(0.15)
    await asyncio.wait([runs.start(attempt)])
    assert runs.acks[0].outcome.kind == "completed"


async def test_handlers_own_timeout_is_not_the_attempts(runs: Runs) -> None:
    async def handler() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(30)

    outcome = await runs.run(handler, timeout=5)
    assert outcome.error is not None
    assert outcome.error["type"] == "TimeoutError"


async def test_cancelled_attempt_is_interrupted_not_failed(runs: Runs) -> None:
    started = asyncio.Event()

    async def handler() -> None:
        started.set()
        await asyncio.sleep(30)

    attempt = runs.make(handler, attempt=3)
    task = runs.start(attempt)
    await started.wait()
    before = attempt.cancelled
    attempt.cancel("shutdown")
    assert (before, attempt.cancelled) == (False, True)
    await asyncio.wait([task])
    assert [ack.outcome.kind for ack in runs.acks] == ["interrupted"]


async def test_value_of_a_handler_that_finishes_although_it_was_cancelled_counts(runs: Runs) -> None:
    started = asyncio.Event()

    async def handler() -> str:
        started.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "tidied up"
        return "unreached"

    attempt = runs.make(handler)
    task = runs.start(attempt)
    await started.wait()
    attempt.cancel("shutdown")
    await asyncio.wait([task])
    assert [ack.outcome.result for ack in runs.acks] == ['"tidied up"']


async def test_plain_function_that_was_asked_to_end_is_interrupted_when_it_has_ended(runs: Runs) -> None:
    started, go = threading.Event(), threading.Event()

    def function(ctx: JobContext[Any]) -> None:
        started.set()
        while not ctx.cancelled:
            go.wait(0.005)

    attempt = runs.make(function)
    task = runs.start(attempt)
    await asyncio.to_thread(started.wait)
    attempt.cancel("shutdown")
    attempt.cancel("claim lost")
    await asyncio.wait([task])
    assert attempt.cancel_reason == "shutdown"
    assert [ack.outcome.kind for ack in runs.acks] == ["interrupted"]


async def test_attempt_that_is_cancelled_before_its_first_step_still_ends(runs: Runs) -> None:
    async def handler() -> None: ...

    attempt = runs.make(handler)
    task = runs.start(attempt)
    attempt.cancel("shutdown")
    await asyncio.wait([task])
    await asyncio.sleep(0)  # its callback
    assert [ack.outcome.kind for ack in runs.acks] == ["interrupted"]


async def test_cancellation_at_the_very_end_of_a_handler_ends_it_once(runs: Runs) -> None:
    for turns in range(12):

        async def handler() -> None:
            await asyncio.sleep(0)

        attempt = runs.make(handler, id=turns)
        task = runs.start(attempt)
        for _ in range(turns):
            await asyncio.sleep(0)
        attempt.cancel("shutdown")
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert [ack.id for ack in runs.acks] == list(range(12))


async def test_handler_sees_nothing_of_the_context_that_started_it(runs: Runs) -> None:
    async def handler() -> str:
        return _request.get()

    _request.set("GET /")
    assert (await runs.run(handler)).result == '"none"'


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_attempt_is_known_to_code_that_its_handler_calls(runs: Runs, kind: str) -> None:
    def look() -> int:
        context = current.get()
        assert context is not None
        return context.job.id

    async def handler() -> int:
        return await asyncio.create_task(asyncio.to_thread(look))

    assert (await runs.run(handler if kind == "async" else look, id=42)).result == "42"


async def test_is_current_in_the_handler_and_in_tasks_that_it_started(runs: Runs) -> None:
    async def ask() -> bool:
        return attempt.is_current

    async def handler() -> list[bool]:
        return [await ask(), await asyncio.create_task(ask())]

    attempt = runs.make(handler)
    assert not attempt.is_current
    await asyncio.wait([runs.start(attempt)])
    assert runs.acks[0].outcome.result == "[true,true]"


async def test_events_tell_of_the_attempt(runs: Runs) -> None:
    seen: list[Any] = []
    runs.events.subscribe(seen.append)

    async def handler() -> None:
        raise ValueError("x")

    await runs.run(handler, id=5, token=9, serialization_key="k")
    started, ended = seen
    assert isinstance(started, AttemptStarted)
    assert (started.job_id, started.token, started.runner_id, started.serialization_key) == (5, 9, 7, "k")
    assert started.queued_seconds == 1.0
    assert isinstance(ended, AttemptEnded)
    assert (ended.outcome, str(ended.error), ended.serialization_key) == ("retry", "x", "k")


async def test_sink_that_fails_does_not_reach_the_attempt(runs: Runs) -> None:
    def sink(event: Any) -> None:
        raise RuntimeError("no disk")

    runs.events.subscribe(sink, AttemptStarted, AttemptEnded)

    async def handler() -> int:
        return 1

    assert (await runs.run(handler)).result == "1"
