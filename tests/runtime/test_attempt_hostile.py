"""Handlers that meddle with their own cancellation, and errors that are more than text: the attempt ends as it should."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from asyncjobs.model.request import Request
from tests.support.attempts import Runs
from tests.support.eventually import eventually

pytestmark = pytest.mark.matrix("loop")

JobDefinition = Callable[[], Awaitable[None]]


@pytest.fixture
def runs() -> Runs:
    return Runs()


async def forever() -> None:
    await asyncio.Event().wait()


async def a_scope() -> None:
    with anyio.move_on_after(60):
        await forever()


async def a_shielded_scope_with_an_end() -> None:
    with anyio.fail_after(0.2, shield=True):  # takes native cancellation all the same
        await forever()


async def a_task_group() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(forever)
        group.start_soon(forever)


async def scopes_in_scopes() -> None:
    with anyio.move_on_after(60), anyio.CancelScope():
        async with anyio.create_task_group() as group:
            group.start_soon(a_scope)
            await forever()


async def tasks_and_scopes() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(a_task_group())
        group.create_task(a_scope())


SCOPES = [a_scope, a_shielded_scope_with_an_end, a_task_group, scopes_in_scopes, tasks_and_scopes]


@pytest.mark.parametrize("handler", SCOPES, ids=lambda handler: handler.__name__)
async def test_handlers_with_scopes_of_anyio_end_when_they_are_told(runs: Runs, handler: JobDefinition) -> None:
    async def job() -> None:
        await handler()

    timed_out = await runs.run(job, timeout=0.05)
    assert (timed_out.kind, (timed_out.error or {}).get("type")) == ("retry", "asyncjobs.errors.AttemptTimeout")
    attempt = runs.make(job)
    task = runs.start(attempt)
    await asyncio.sleep(0.01)
    attempt.cancel("shutdown")
    await asyncio.wait([task], timeout=10)
    assert [ack.outcome.kind for ack in runs.acks[1:]] == ["interrupted"]


async def test_scope_that_a_handler_ended_itself_is_its_own_affair(runs: Runs) -> None:
    async def job() -> str:
        with anyio.move_on_after(0.01):
            await forever()
        with suppress(TimeoutError), anyio.fail_after(0.01):
            await forever()
        return "went on"

    assert (await runs.run(job, timeout=60)).result == '"went on"'


async def test_what_a_handler_shields_does_not_hold_up_the_end_of_its_attempt(runs: Runs) -> None:
    go, shielded = asyncio.Event(), set[asyncio.Task[Any]]()

    async def job() -> None:
        shielded.add(asyncio.create_task(go.wait()))
        await asyncio.shield(*shielded)

    outcome = await runs.run(job, timeout=0.05)
    assert (outcome.error or {}).get("type") == "asyncjobs.errors.AttemptTimeout"
    (task,) = shielded
    assert not task.done()
    go.set()
    assert await task


async def test_plain_functions_do_not_wait_for_each_others_threads(runs: Runs) -> None:
    """Each has a thread from its start: a timeout counts no wait for one, and those that hang take none from the others."""
    end = threading.Event()

    def hang() -> None:
        end.wait()

    def quick() -> int:
        return 1

    attempts = [runs.make(hang, timeout=0.01, id=number) for number in range(4)]
    hanging = [runs.start(attempt) for attempt in attempts]
    try:
        for _ in range(10):
            assert (await runs.run(quick, timeout=60)).kind == "completed"
        await eventually(lambda: all(attempt.overdue_seconds > 0 for attempt in attempts), description="their time is over")
        assert not any(task.done() for task in hanging)
    finally:
        end.set()
    await asyncio.wait(hanging)
    assert [ack.outcome.kind for ack in runs.acks[10:]] == ["retry"] * 4


class TwoArguments(Exception):
    """Cannot be unpickled: it wants what `args` does not have."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class Locked(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("has a lock")
        self.lock = threading.Lock()


def a_local_one() -> Exception:
    class Local(Exception):
        pass

    return Local("of a function")


@pytest.mark.parametrize(
    ("error", "message"),
    [(TwoArguments("a", "b"), "a and b"), (Locked(), "has a lock"), (a_local_one(), "of a function")],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_exceptions_that_cannot_be_pickled_are_stored_as_text(
    runs: Runs, error: Exception, message: str, kind: str
) -> None:
    async def handler() -> None:
        raise error

    def function() -> None:
        raise error

    outcome = await runs.run(handler if kind == "async" else function)
    assert outcome.kind == "retry"
    entry = outcome.error or {}
    assert (str(entry["type"]).rsplit(".", 1)[-1], entry["message"]) == (type(error).__name__, message)
    assert all(isinstance(value, str | int) for value in entry.values())


class Faceless(Exception):
    """Does not say of which class it is, as a proxy whose object is gone does."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("no object")


@pytest.mark.parametrize("asked_to_fail", [False, True])
@pytest.mark.parametrize("returned", [False, True])
async def test_error_or_answer_that_may_not_be_looked_at_ends_its_attempt(
    runs: Runs, *, returned: bool, asked_to_fail: bool
) -> None:
    """Not even isinstance() may look at it."""

    async def handler() -> Any:
        if asked_to_fail:
            attempt.obey(Request(attempt.claimed.id, attempt.claimed.token, "fail", "by hand"))
            with suppress(asyncio.CancelledError):
                await forever()
        if returned:
            return Faceless()
        raise Faceless

    attempt = runs.make(handler)
    await asyncio.wait({runs.start(attempt)})
    assert [ack.outcome.kind for ack in runs.acks] == ["retry"]


@pytest.mark.parametrize(
    ("text", "shown"), [("nul \0 inside", r"nul \x00 inside"), ("lone \ud800 surrogate", r"lone \ud800 surrogate")]
)
async def test_message_shows_what_its_column_cannot_hold(runs: Runs, text: str, shown: str) -> None:
    async def handler() -> None:
        raise ValueError(text)

    outcome = await runs.run(handler)
    assert outcome.message == f"ValueError: {shown}"
    assert outcome.error is not None
    assert outcome.error["message"] == shown
    assert shown in str(outcome.error["traceback"])
