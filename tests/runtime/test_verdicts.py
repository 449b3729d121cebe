"""What a handler says by raising, by the `await` that it forgot, and by the decorator that is round it."""

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from asyncjobs.model.outcome import Cancel, Dead, Retry, Snooze, Verdict
from asyncjobs.telemetry.events import AttemptEnded
from tests.support.attempts import Runs

pytestmark = pytest.mark.matrix("loop")


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.mark.parametrize("kind", ["async", "thread", "task group"])
@pytest.mark.parametrize("verdict", [Snooze(5), Retry(7), Retry(), Cancel("closed"), Dead("gone")], ids=repr)
async def test_a_verdict_that_is_raised_is_obeyed_like_one_that_is_returned(runs: Runs, verdict: Verdict, kind: str) -> None:
    ended: list[AttemptEnded] = []
    runs.events.subscribe(ended.append, AttemptEnded)

    async def returns() -> Any:
        return verdict

    async def raises() -> None:
        raise verdict

    def function() -> None:
        raise verdict

    async def in_a_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(raises())

    handlers: dict[str, Any] = {"async": raises, "thread": function, "task group": in_a_group}
    returned, raised = await runs.run(returns), await runs.run(handlers[kind])
    assert (raised.kind, raised.message) == (returned.kind, returned.message)
    assert raised.delay_seconds == pytest.approx(returned.delay_seconds, rel=0.25)
    assert [event.error for event in ended] == [None, None]


async def test_what_a_verdict_was_raised_for_is_told(runs: Runs) -> None:
    async def handler() -> None:
        def fails() -> None:
            raise ConnectionError("the gateway is away")

        try:
            fails()
        except OSError as error:
            raise Retry(5) from error

    outcome = await runs.run(handler)
    assert str(outcome.message).endswith("another attempt: ConnectionError: the gateway is away")
    assert outcome.error is not None
    assert "in handler" in str(outcome.error["traceback"])


async def test_a_verdict_beside_other_errors_is_a_failed_attempt(runs: Runs) -> None:
    async def handler() -> None:
        raise ExceptionGroup("both", [Cancel("closed"), ValueError("no")])

    assert (await runs.run(handler)).kind == "retry"


async def test_a_verdict_that_comes_after_the_timeout_does_not_undo_it(runs: Runs) -> None:
    async def handler() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Snooze(5) from None

    outcome = await runs.run(handler, timeout=0.01)
    assert (outcome.kind, (outcome.message or "").split(":")[0]) == ("retry", "asyncjobs.errors.AttemptTimeout")


def plain_wrapper(function: Callable[..., Any], *, runs_it: bool) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.current_thread())
        made = function(*args, **kwargs)
        return asyncio.run(made) if runs_it else made

    threads: list[threading.Thread] = []
    inner.__dict__["threads"] = threads
    return inner


@pytest.mark.parametrize("runs_it", [True, False])
async def test_a_plain_wrapper_of_an_async_handler_never_runs_in_the_event_loop(runs: Runs, *, runs_it: bool) -> None:
    async def handler(n: int) -> int:
        await asyncio.sleep(0)
        return n + 1

    wrapped = plain_wrapper(handler, runs_it=runs_it)
    outcome = await runs.run(wrapped, payload={"n": 1})
    assert (outcome.kind, outcome.result, outcome.message) == ("completed", "2", None)
    assert threading.main_thread() not in wrapped.__dict__["threads"]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_an_await_that_is_missing_is_named(runs: Runs, kind: str) -> None:
    async def send() -> None: ...

    def function() -> Any:
        return send()

    async def handler() -> Any:
        return {"sent": send()}

    outcome = await runs.run(function if kind == "plain" else handler)
    assert outcome.kind == "dead"
    assert "a coroutine, not what it would give: an `await` is missing" in str(outcome.message)
