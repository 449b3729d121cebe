"""Hooks: an application's own code round every enqueue and every attempt.

    jobs = AsyncJobs(…, hooks=[Tenant(), Tracing()])

1. Hooks are entered in their order and left in reverse: before_ of the first, before_ of the second, the work, after_ of the
   second, after_ of the first. A hook whose before_ did not return is not left; every other one is, whatever happened.
2. What a hook raises ends that enqueue or that attempt, and nothing else: HookFailed, which names the hook. Nothing was written;
   the handler was not called. An after_attempt that raises fails the attempt, so a hook may commit there, and the hooks outside
   of it see that outcome. An after_enqueue comes too late for that: what it raises is reported (`HookRaised`), and the
   enqueue stands. So is what an after_attempt raises whose attempt was interrupted: it is given back all the same. SystemExit
   and a CancelledError that a hook leaks are no different: they end neither the caller nor its loop. What is meant for the caller
   itself, its cancellation or KeyboardInterrupt, goes through, after the other hooks have been left.
3. Hooks cannot change the claim: they see context and outcome, which are values. before_enqueue may answer another job of the
   same type (`job.using(created_by=…)`), which is checked as if it had been given.
4. before_attempt spends the attempt's timeout, after_attempt gets it anew. Each of them has `hook_timeout` at most, also where
   the attempt has no timeout: a hook that hangs fails the attempt, and does not hold its slot for ever; one that swallows its
   cancellation, too, is reported by its name (`HandlerStuck.hook`), and counts in health. A hook may `ctx.use`;
   what it opened afterwards is closed after all hooks.
5. Only methods that a hook overrides are called: hooks that are not there cost nothing.

Jobs that the database makes by itself (ticks of schedules, requeued jobs) pass no enqueue hooks.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from asyncjobs.context import JobContext
from asyncjobs.declare.definition import NewJob
from asyncjobs.errors import ConfigurationError, HookFailed, is_meant
from asyncjobs.model.outcome import Outcome
from asyncjobs.telemetry.events import Events, HookRaised

if TYPE_CHECKING:
    from asyncjobs.handles import JobHandle

#: Round each call of a hook, by its method's name: TimeoutError when its time is over.
Limit: TypeAlias = Callable[["Hook", str], AbstractAsyncContextManager[None]]


class Hook:
    """Base of hooks: override what you need. One object serves all enqueues and attempts of its app, many at a time."""

    async def before_enqueue(self, job: NewJob[Any], /) -> NewJob[Any] | None:
        """Before a job is written: let it pass (None), answer another in its place, or raise to refuse it."""

    async def after_enqueue(self, job: NewJob[Any], /, handle: "JobHandle[Any] | None", error: BaseException | None) -> None:
        """After the job was written, if `handle` is there (with a `connection`: it waits for the commit), or not: `error`."""

    async def before_attempt(self, ctx: JobContext[Any], /) -> None:
        """Before the handler is called, in the attempt's task: context variables that are set here are seen by the handler."""

    async def after_attempt(self, ctx: JobContext[Any], /, outcome: Outcome) -> None:
        """After the handler has ended and what it used is closed: in `outcome`, also when it was cancelled."""


class Hooks(msgspec.Struct, frozen=True):
    """An app's hooks, by what they do."""

    enqueue: tuple[Hook, ...] = ()
    attempt: tuple[Hook, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.enqueue or self.attempt)

    def with_innermost(self, hook: Hook) -> "Hooks":
        """These and one more, entered last and left first."""
        more = check_hooks([hook])
        return Hooks(self.enqueue + more.enqueue, self.attempt + more.attempt)


NO_HOOKS: Final = Hooks()


def check_hooks(given: object) -> Hooks:
    """The hooks, in order; ConfigurationError for what is none."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ConfigurationError(f"hooks={given!r} is not a list: write hooks=[...].")
    hooks = [_check(one) for one in given]
    return Hooks(
        tuple(hook for hook in hooks if _overrides(hook, "before_enqueue", "after_enqueue")),
        tuple(hook for hook in hooks if _overrides(hook, "before_attempt", "after_attempt")),
    )


def _check(hook: object) -> Hook:
    if not isinstance(hook, Hook):
        kind = f"the class {hook.__name__}, not an object of it" if isinstance(hook, type) else repr(hook)
        raise ConfigurationError(
            f"hooks= has {kind}: give objects of classes derived from asyncjobs.Hook. Events go to jobs.events.subscribe(...)."
        )
    return hook


def _overrides(hook: Hook, *names: str) -> bool:
    return any(getattr(type(hook), name) is not getattr(Hook, name) for name in names)


async def enqueue_through(
    hooks: Sequence[Hook],
    jobs: Sequence[NewJob[Any]],
    write: Callable[[list[NewJob[Any]]], Awaitable[list[Any]]],
    *,
    events: Events,
) -> list[Any]:
    """Write the jobs with these hooks round each of them; the handles. HookFailed: nothing was written."""
    news = list(jobs)
    entered: list[tuple[int, Hook]] = []
    handles: list[Any] = []
    failure: BaseException | None = None
    try:
        for at in range(len(news)):
            for hook in hooks:
                news[at] = await _entered(hook, news[at])
                entered.append((at, hook))
        handles = await write(news)
    except BaseException as error:
        failure = error
        raise
    finally:
        if not isinstance(failure, GeneratorExit):
            await _leave(entered, news, handles, failure, events)
    return handles


async def _leave(
    entered: Sequence[tuple[int, Hook]],
    news: Sequence[NewJob[Any]],
    handles: Sequence[Any],
    failure: BaseException | None,
    events: Events,
) -> None:
    meant: BaseException | None = None
    for at, hook in reversed(entered):
        try:
            await hook.after_enqueue(news[at], handles[at] if handles else None, failure)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - it is the application's code, and the job is written or is not
            if is_meant(error):
                meant = error
            else:
                events.emit(HookRaised(hook=type(hook).__name__, method="after_enqueue", type=news[at].type, error=error))
    if meant is not None:
        raise meant


async def _entered(hook: Hook, new: NewJob[Any]) -> NewJob[Any]:
    try:
        answer = await hook.before_enqueue(new)
    except GeneratorExit:
        raise
    except BaseException as error:
        if is_meant(error):
            raise
        raise HookFailed(type(hook).__name__, "before_enqueue", f'job "{new.type}" was not enqueued', error) from error
    if answer is not None and getattr(answer, "handler", None) is not new.handler:
        wrong = TypeError(f"it answered {answer!r}, not a job of the same type")
        raise HookFailed(type(hook).__name__, "before_enqueue", f'job "{new.type}" was not enqueued', wrong)
    return answer or new


async def enter_attempt(hooks: Sequence[Hook], ctx: Any, entered: list[Hook], *, limit: Limit) -> None:
    """Enter the hooks, noting which were. HookFailed: the handler is not called."""
    for hook in hooks:
        try:
            async with limit(hook, "before_attempt"):
                await hook.before_attempt(ctx)
        except BaseException as error:
            if is_meant(error):
                raise
            raise HookFailed(type(hook).__name__, "before_attempt", "the handler was not called", error) from error
        entered.append(hook)


def after_failed(hook: Hook, error: BaseException) -> HookFailed:
    """What an attempt ends in whose hook could not be left."""
    failure = HookFailed(type(hook).__name__, "after_attempt", "the attempt does not count as done", error)
    failure.__cause__ = error
    return failure
