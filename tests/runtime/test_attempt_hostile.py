"""Handlers that meddle with their own cancellation, and errors that are more than text: the attempt ends as it should."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from asyncjobs import Hook, JobContext, resource
from asyncjobs.declare.definition import JobDefinition, TypeOptions
from asyncjobs.model.request import Request
from asyncjobs.model.retrying import Retrying
from tests.support.attempts import Runs
from tests.support.eventually import eventually

pytestmark = pytest.mark.matrix("loop")

Handler = Callable[[], Awaitable[None]]


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
async def test_handlers_with_scopes_of_anyio_end_when_they_are_told(runs: Runs, handler: Handler) -> None:
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


class _Judging(type):
    """Says nothing of what is its instance, and leaves."""

    def __instancecheck__(cls, instance: object) -> bool:
        raise SystemExit(3)


class Judging(Exception, metaclass=_Judging): ...


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize("leaked", [SystemExit(3), asyncio.CancelledError(), Unspeakable(), KeyboardInterrupt()])
async def test_back_off_function_that_leaks_ends_its_attempt_and_nothing_else(leaked: BaseException) -> None:
    asked = 0

    def backoff(_attempt: int, _error: BaseException) -> float:
        nonlocal asked
        asked += 1
        raise leaked

    async def handler() -> None:
        raise ConnectionError("down")

    runs = Runs(retrying=Retrying(backoff=backoff))
    outcome = await runs.run(handler)
    assert (outcome.kind, len(runs.acks), asked) == ("retry", 1, 1)


async def test_types_of_errors_that_leak_when_they_are_asked_end_the_attempt_and_nothing_else() -> None:
    async def handler() -> None:
        raise ConnectionError("down")

    runs = Runs(retrying=Retrying(give_up_on=(Judging,)))
    outcome = await runs.run(handler)
    assert (outcome.kind, len(runs.acks)) == ("retry", 1)
    assert outcome.message == "RuntimeError: what it ended in, a ConnectionError, cannot be judged: SystemExit: 3"


@pytest.mark.parametrize("method", ["before_attempt", "after_attempt"])
async def test_hook_whose_error_has_no_text_fails_its_attempt(method: str) -> None:
    async def raises(*_: object) -> None:
        raise Unspeakable

    async def handler() -> None: ...

    outcome = await Runs(hooks=[type("Mute", (Hook,), {method: raises})()]).run(handler)
    assert outcome.kind == "retry"
    assert f"hook Mute.{method} raised Unspeakable: <str() of Unspeakable failed: SystemExit>" in (outcome.message or "")


@pytest.mark.parametrize(
    "error", [SystemExit(3), Unspeakable(), asyncio.CancelledError("leaked")], ids=["exit", "mute", "cancelled"]
)
async def test_resource_that_leaks_fails_its_attempts_and_nothing_else(runs: Runs, error: BaseException) -> None:
    @resource
    @asynccontextmanager
    async def pool() -> AsyncGenerator[None]:
        for one in (error,):
            raise one
        yield

    async def handler(ctx: JobContext) -> None:
        await ctx.use(pool)

    for _ in range(2):
        outcome = await runs.run(handler)
        assert outcome.kind == "retry"
        assert f'" did not open: {type(error).__name__}' in (outcome.message or "")


@pytest.mark.parametrize("leaked", [SystemExit(3), asyncio.CancelledError(), Unspeakable()], ids=["exit", "cancelled", "mute"])
async def test_upgrade_that_leaks_is_a_payload_that_does_not_fit(runs: Runs, leaked: BaseException) -> None:
    def upgrade(_: dict[str, Any]) -> dict[str, Any]:
        raise leaked

    async def handler() -> None: ...

    attempt = runs.make(handler, version=1)
    attempt.definition = JobDefinition("email", handler, TypeOptions(version=2, upgrades={1: upgrade}), declared_at="test")
    await asyncio.wait({runs.start(attempt)})
    [ack] = runs.acks
    assert ack.outcome.kind == "dead"
    assert f"its upgrade from version 1 raised {type(leaked).__name__}" in (ack.outcome.message or "")


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
