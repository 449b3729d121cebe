"""What a handler does through its context: resources, progress, completion in its own transaction."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from asyncjobs import Cancel, Dead, JobContext, Retry, Snooze
from asyncjobs.errors import ClaimLost
from asyncjobs.model.claim import Ack, progress_text
from asyncjobs.model.outcome import COMPLETED
from asyncjobs.runtime.attempt import Attempt
from tests.support.attempts import Runs


@pytest.fixture
def runs() -> Runs:
    return Runs()


def provider(name: str, happened: list[str]) -> Any:
    @asynccontextmanager
    async def provide(ctx: JobContext) -> AsyncGenerator[str]:
        happened.append(f"open {name}")
        try:
            yield name
        except BaseException as error:
            happened.append(f"undo {name}: {type(error).__name__}")
            raise
        happened.append(f"close {name}")

    return provide


async def test_what_was_opened_last_is_closed_first(runs: Runs) -> None:
    happened: list[str] = []

    async def handler(ctx: JobContext) -> None:
        assert await ctx.use(provider("a", happened)) == "a"
        await ctx.use(provider("b", happened))
        happened.append("work")

    assert (await runs.run(handler)).kind == "completed"
    assert happened == ["open a", "open b", "work", "close b", "close a"]


async def test_resources_are_told_of_the_error(runs: Runs) -> None:
    happened: list[str] = []

    async def handler(ctx: JobContext) -> None:
        await ctx.use(provider("transaction", happened))
        raise ValueError("half done")

    outcome = await runs.run(handler)
    assert happened == ["open transaction", "undo transaction: ValueError"]
    assert outcome.message == "ValueError: half done"


async def test_resources_are_told_of_the_timeout(runs: Runs) -> None:
    happened: list[str] = []

    async def handler(ctx: JobContext) -> None:
        await ctx.use(provider("transaction", happened))
        await asyncio.sleep(30)

    assert (await runs.run(handler, timeout=0.05)).kind == "retry"
    assert happened == ["open transaction", "undo transaction: CancelledError"]


async def test_resource_that_cannot_be_closed_fails_the_attempt_and_the_others_are_closed(runs: Runs) -> None:
    happened: list[str] = []

    @asynccontextmanager
    async def broken(ctx: JobContext) -> AsyncGenerator[None]:
        yield
        raise OSError("cannot commit")

    async def handler(ctx: JobContext) -> None:
        await ctx.use(provider("outer", happened))
        await ctx.use(broken)

    outcome = await runs.run(handler)
    assert (outcome.kind, outcome.message) == ("retry", "OSError: cannot commit")
    assert happened == ["open outer", "undo outer: OSError"]


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_progress_is_reported_from_the_handler_and_from_its_thread(runs: Runs, kind: str) -> None:
    async def handler(ctx: JobContext) -> None:
        ctx.progress(0.5, "half")
        await asyncio.sleep(0)

    def function(ctx: JobContext) -> None:
        ctx.progress(0.5, "half")

    await runs.run(handler if kind == "async" else function)
    assert runs.reports == [(0.5, "half")]
    assert runs.acks[0].progress == '{"done":0.5,"note":"half"}'


@pytest.mark.parametrize("ending", [None, Snooze(5), Retry(), Cancel("no"), Dead("no"), ValueError("x")], ids=repr)
async def test_last_progress_goes_with_the_outcome_whatever_that_is(runs: Runs, ending: Any) -> None:
    async def handler(ctx: JobContext) -> Any:
        ctx.progress(0.5)
        ctx.progress(0.9, "nearly")
        if isinstance(ending, ValueError):
            raise ending
        return ending

    await runs.run(handler)
    await asyncio.sleep(0)  # the reports come when the attempt has ended
    assert (runs.acks[0].progress, runs.reports[-1]) == ('{"done":0.9,"note":"nearly"}', None)


async def test_outcome_of_an_attempt_that_says_nothing_of_progress_has_none(runs: Runs) -> None:
    await runs.run(lambda: None)
    assert runs.acks[0] == Ack(runs.acks[0].id, runs.acks[0].token, COMPLETED)


async def test_progress_that_is_no_number_is_the_handlers_error(runs: Runs) -> None:
    async def handler(ctx: JobContext) -> None:
        ctx.progress("lots")  # type: ignore[arg-type]

    assert (await runs.run(handler)).kind == "retry"


@pytest.mark.parametrize(
    ("done", "note", "text"),
    [
        (0.5, "ok", '{"done":0.5,"note":"ok"}'),
        (float("nan"), "", '{"done":null,"note":""}'),
        (1.0, "a\0b \ud800", '{"done":1.0,"note":"a\\\\x00b \\\\ud800"}'),
    ],
)
def test_progress_is_text_that_the_database_takes(done: float, note: str, text: str) -> None:
    assert progress_text(done, note) == text


def test_long_note_is_cut_and_says_so() -> None:
    text = progress_text(0.1, "x" * 1_000_000)
    assert len(text) < 1100
    assert text.endswith('x…"}')


async def test_a_plain_function_uses_what_the_event_loop_opens_and_closes(runs: Runs) -> None:
    happened: list[str] = []

    def handler(ctx: JobContext) -> str:
        assert threading.current_thread() is not threading.main_thread()
        used: str = ctx.use_sync(provider("a", happened))
        happened.append(f"used {used}")
        return used

    assert (await runs.run(handler)).result == '"a"'
    assert happened == ["open a", "used a", "close a"]


async def test_use_in_a_plain_function_says_what_to_call_instead(runs: Runs) -> None:
    def handler(ctx: JobContext) -> None:
        ctx.use(provider("a", []))  # type: ignore[unused-coroutine]

    outcome = await runs.run(handler)
    assert str(outcome.message).endswith("which a plain def cannot do: call ctx.use_sync(...).")


async def test_use_sync_does_not_block_the_event_loop(runs: Runs) -> None:
    async def handler(ctx: JobContext) -> None:
        ctx.use_sync(provider("a", []))

    assert "WouldBlock" in str((await runs.run(handler)).message)


async def test_completion_goes_to_the_connection_with_its_result(runs: Runs) -> None:
    async def handler(ctx: JobContext) -> None:
        await ctx.complete("connection", {"n": 1})  # type: ignore[arg-type]

    attempt = runs.make(handler)
    await asyncio.wait([runs.start(attempt)])
    assert runs.completions == [("connection", '{"n":1}', None)]
    assert attempt.completed_in_transaction


async def test_completion_with_a_result_that_is_too_large_drops_it(runs: Runs) -> None:
    async def handler(ctx: JobContext) -> None:
        await ctx.complete("connection", "x" * 2000)  # type: ignore[arg-type]

    await runs.run(handler)
    assert runs.completions == [("connection", None, "too large: 2002 bytes")]


@pytest.mark.parametrize(("answer", "kind"), [(True, "completed"), (None, "completed"), (False, "retry")])
async def test_answer_of_a_handler_counts_unless_its_completion_was_rolled_back(*, answer: bool | None, kind: str) -> None:
    async def was_committed(_attempt: Attempt, /, *, is_patient: bool) -> bool | None:
        assert is_patient
        return answer

    async def handler(ctx: JobContext) -> str:
        await ctx.complete(cast("Any", "connection"))
        return "done"

    outcome = await Runs(was_committed=was_committed).run(handler)
    assert outcome.kind == kind
    assert (outcome.error or {}).get("type") == (None if answer is not False else "asyncjobs.errors.NotCommitted")


async def test_attempt_that_is_to_end_while_its_transaction_is_looked_at_has_ended_as_it_said() -> None:
    looking = asyncio.Event()

    async def was_committed(_attempt: Attempt, /, *, is_patient: bool) -> bool | None:
        looking.set()
        await asyncio.Event().wait()
        return None

    async def handler(ctx: JobContext) -> None:
        await ctx.complete(cast("Any", "connection"))

    runs = Runs(was_committed=was_committed)
    attempt = runs.make(handler)
    task = runs.start(attempt)
    await looking.wait()
    attempt.cancel("shutdown")
    await asyncio.wait([task])
    assert runs.acks[0].outcome.kind == "completed"


async def test_progress_after_the_completion_is_refused(runs: Runs) -> None:
    async def handler(ctx: JobContext) -> None:
        await ctx.complete("connection")  # type: ignore[arg-type]
        ctx.progress(1.0)

    outcome = await runs.run(handler)
    assert runs.reports == []
    assert outcome.kind == "interrupted"


async def test_completion_that_may_have_taken_effect_is_never_acked_in_a_batch() -> None:
    async def lose(*_: Any) -> None:
        raise ClaimLost("not this attempt's")

    runs = Runs(complete=lose)

    async def handler(ctx: JobContext) -> None:
        await ctx.complete("connection")  # type: ignore[arg-type]

    attempt = runs.make(handler)
    await asyncio.wait([runs.start(attempt)])
    assert attempt.completed_in_transaction
    assert runs.acks[0].outcome.kind == "interrupted"
