"""Hooks round attempts, without a database: the sentences of asyncjobs/hooks.py."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any

import pytest

from asyncjobs import Hook, HookFailed, JobContext, Outcome, Snooze
from asyncjobs.runtime import attempts as attempts_module
from asyncjobs.runtime.attempts import Attempts
from asyncjobs.telemetry.events import AttemptEnded, HandlerStuck, HookRaised
from tests.support.attempts import Runs
from tests.support.eventually import eventually

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


class Noting(Hook):
    """Notes what it sees; raises where it is told to."""

    def __init__(self, name: str, seen: list[str], *, raises: str = "") -> None:
        self.name, self.seen, self.raises = name, seen, raises
        self.outcomes: list[Outcome] = []

    def _note(self, method: str) -> None:
        self.seen.append(f"{method} {self.name}")
        if method == self.raises:
            raise KeyError(self.name)

    async def before_attempt(self, ctx: JobContext, /) -> None:
        self._note("before")

    async def after_attempt(self, ctx: JobContext, /, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._note("after")


class Made:
    def __init__(self, *raises: str) -> None:
        self.seen: list[str] = []
        self.hooks = [Noting(name, self.seen, raises=method) for name, method in zip("ab", (*raises, "", ""), strict=False)]
        self.runs = Runs(hooks=self.hooks)
        self.events: list[Any] = []
        self.runs.events.subscribe(self.events.append, AttemptEnded, HookRaised)

    async def handler(self, ctx: JobContext) -> str:
        self.seen.append("handler")
        return "done"


async def test_are_entered_in_order_and_left_in_reverse() -> None:
    made = Made()
    outcome = await made.runs.run(made.handler)
    assert made.seen == ["before a", "before b", "handler", "after b", "after a"]
    assert made.hooks[0].outcomes == made.hooks[1].outcomes == [outcome]
    assert (outcome.kind, outcome.result) == ("completed", '"done"')


@pytest.mark.parametrize(("ending", "kind"), [(ValueError("x"), "retry"), (Snooze(5), "snooze")], ids=["retry", "snooze"])
async def test_see_the_very_outcome_that_is_written(ending: Any, kind: str) -> None:
    made = Made()

    async def handler(ctx: JobContext) -> Any:
        if isinstance(ending, BaseException):
            raise ending
        return ending

    outcome = await made.runs.run(handler)
    assert outcome.kind == kind
    assert made.hooks[0].outcomes == [outcome]


async def test_a_before_that_raises_fails_the_attempt_and_the_handler_is_not_called() -> None:
    made = Made("", "before")
    outcome = await made.runs.run(made.handler)
    assert made.seen == ["before a", "before b", "after a"]  # b was not entered, so it is not left
    assert outcome.kind == "retry"
    assert outcome.message == (
        "asyncjobs.errors.HookFailed: the handler was not called: hook Noting.before_attempt raised KeyError: 'b'"
    )
    assert isinstance(made.events[-1].error, HookFailed)


async def test_an_after_that_raises_fails_the_attempt_and_the_hooks_outside_see_that() -> None:
    made = Made("", "after")
    outcome = await made.runs.run(made.handler)
    assert made.seen == ["before a", "before b", "handler", "after b", "after a"]
    assert [hook.outcomes[0].kind for hook in made.hooks] == ["retry", "completed"]
    assert outcome.kind == "retry"
    assert "hook Noting.after_attempt raised KeyError: 'b'" in (outcome.message or "")


async def test_an_after_that_raises_charges_no_attempt_that_was_interrupted() -> None:
    made = Made("after")
    started = asyncio.Event()

    async def handler(ctx: JobContext) -> None:
        started.set()
        await asyncio.Event().wait()

    attempt = made.runs.make(handler)
    task = made.runs.start(attempt)
    await started.wait()
    attempt.cancel("shutdown")
    await task
    assert made.runs.acks[-1].outcome.kind == "interrupted"
    assert made.hooks[1].outcomes[0].kind == "interrupted"
    assert [(event.hook, event.method) for event in made.events if isinstance(event, HookRaised)] == [("Noting", "after_attempt")]


async def test_a_cancelled_after_gives_the_attempt_back() -> None:
    seen: list[str] = []
    waiting = asyncio.Event()

    class Slow(Hook):
        async def after_attempt(self, ctx: JobContext, /, outcome: Outcome) -> None:
            waiting.set()
            await asyncio.Event().wait()

    runs = Runs(hooks=[Noting("a", seen), Slow()])

    async def handler() -> None: ...

    attempt = runs.make(handler)
    task = runs.start(attempt)
    await waiting.wait()
    attempt.cancel("shutdown")
    await task
    assert runs.acks[-1].outcome.kind == "interrupted"
    assert seen == ["before a", "after a"]


async def test_an_after_gets_the_timeout_anew() -> None:
    class Endless(Hook):
        async def after_attempt(self, ctx: JobContext, /, outcome: Outcome) -> None:
            await asyncio.Event().wait()

    async def handler() -> None: ...

    outcome = await Runs(hooks=[Endless()]).run(handler, timeout=0.02)
    assert outcome.kind == "retry"
    assert "hook Endless.after_attempt raised TimeoutError" in (outcome.message or "")


async def test_a_timeout_is_seen_by_the_hooks() -> None:
    made = Made()

    async def handler(ctx: JobContext) -> None:
        await asyncio.Event().wait()

    outcome = await made.runs.run(handler, timeout=0.02)
    assert "AttemptTimeout" in (outcome.message or "")
    assert made.hooks[0].outcomes == [outcome]


async def test_context_variables_and_what_a_hook_uses_reach_the_handler() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def session(ctx: JobContext) -> AsyncGenerator[str]:
        seen.append("open")
        yield "session"
        seen.append("closed")

    class Tenant(Hook):
        async def before_attempt(self, ctx: JobContext, /) -> None:
            tenant.set(await ctx.use(session))

        async def after_attempt(self, ctx: JobContext, /, outcome: Outcome) -> None:
            seen.append(f"after {tenant.get()}")
            await ctx.use(session)

    async def handler() -> str:
        return tenant.get()

    outcome = await Runs(hooks=[Tenant()]).run(handler)
    assert outcome.result == '"session"'
    assert seen == ["open", "closed", "after session", "open", "closed"]


@pytest.mark.parametrize("method", ["before", "after"])
async def test_a_system_exit_of_a_hook_is_the_attempts(method: str) -> None:
    class Exits(Hook):
        async def before_attempt(self, ctx: JobContext, /) -> None:
            if method == "before":
                raise SystemExit(3)

        async def after_attempt(self, ctx: JobContext, /, outcome: Outcome) -> None:
            if method == "after":
                raise SystemExit(3)

    async def handler() -> None: ...

    outcome = await Runs(hooks=[Exits()]).run(handler)
    assert outcome.kind == "retry"
    assert "SystemExit" in (outcome.message or "")


@pytest.mark.parametrize("method", ["before_attempt", "after_attempt"])
async def test_hook_that_hangs_fails_an_attempt_without_a_timeout_and_frees_its_slot(method: str) -> None:
    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    async def handler() -> None: ...

    hook = type("Hanging", (Hook,), {method: hangs})()
    outcome = await Runs(hooks=[hook], hook_seconds=0.05).run(handler)
    assert outcome.kind == "retry"
    assert "HookFailed" in (outcome.message or "")
    assert method in (outcome.message or "")


@pytest.mark.parametrize("timeout", [None, 0.5], ids=["without a timeout", "with a timeout"])
@pytest.mark.parametrize("method", ["before_attempt", "after_attempt"])
async def test_hook_that_hangs_and_swallows_its_cancellation_is_reported_by_its_name(
    monkeypatch: pytest.MonkeyPatch, method: str, timeout: float | None
) -> None:
    """Its slot is not free before it ends: health counts it, and the event says which hook it is."""
    monkeypatch.setattr(attempts_module, "STUCK_SECONDS", 0.05)
    go = asyncio.Event()

    async def hangs(*_: object) -> None:
        while not go.is_set():
            with suppress(asyncio.CancelledError):
                await go.wait()

    async def handler() -> None: ...

    runs = Runs(hooks=[type("Deaf", (Hook,), {method: hangs})()], hook_seconds=0.05)
    seen: list[HandlerStuck] = []
    runs.events.subscribe(seen.append, HandlerStuck)
    attempts = Attempts(events=runs.events)
    attempt = runs.make(handler, timeout=timeout)
    attempts.add(attempt)
    task = runs.start(attempt)
    try:
        await eventually(lambda: attempts.stuck == 1, description="health counts it", timeout=2)
        attempts.report_stuck()
    finally:
        go.set()
        await asyncio.wait({task})
    assert [(event.hook, event.reason) for event in seen] == [(f"Deaf.{method}", "timeout")]
