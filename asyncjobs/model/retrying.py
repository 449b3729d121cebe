"""Whether a failed attempt is tried again, and when: what a type, its router or its app says of errors, and what holds then.

1. An exception is tried again. With `retry_on` only one of these types is; one of `give_up_on` never is, whatever `retry_on`
   says. What is not tried again is dead at once, with its traceback, whatever attempts are left.
2. A time-out (AttemptTimeout, a TimeoutError) is judged like any other error. An error that was raised for another by asyncjobs
   (ResourceFailed, HookFailed) is judged by what it was raised for. Of a task group's errors one to give up on is enough; it is
   tried again if all of them are.
3. Not judged, and tried again: what an operator asked for (`fail`), a completion that was not committed, a handler's own Retry,
   a crash. Nor are other verdicts and an open circuit breaker, which fail nothing.
4. `backoff` says when. A function is asked with the number of the attempt and the error (of a Retry without a delay: the Retry),
   also after the last attempt. It answers seconds or a timedelta, for the next attempt if there is one; or a verdict, which is
   obeyed: Snooze spends no attempt, Cancel and Dead end the job, Retry without a delay waits as `Backoff()` does.
5. A function that raises anything (SystemExit and a CancelledError, too), or answers anything else, changes nothing of what the
   attempt has come to: the job is tried again as after `Backoff()`, or is dead after the last attempt, and its error says what
   was wrong with the function.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from asyncjobs.errors import ConfigurationError, FailedByHand, HookFailed, NotCommitted, ResourceFailed
from asyncjobs.model.backoff import Backoff
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.names import kind_of, shown
from asyncjobs.model.outcome import VERDICTS, Duration, Retry, Snooze, Verdict, verdict_in
from asyncjobs.model.storable import safe_str

#: When a failed attempt is tried again: of its number (the first is 1) and its error.
BackoffFunction: TypeAlias = Callable[[int, BaseException], Duration | Verdict]
#: As in `except`.
Errors: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]

_ORDINARY: Final = Backoff()


class Retrying(msgspec.Struct, frozen=True, kw_only=True):
    """What was said of failed attempts. None: nothing, so that the router, the app or the default says it."""

    backoff: Backoff | BackoffFunction | None = None
    retry_on: tuple[type[BaseException], ...] | None = None
    give_up_on: tuple[type[BaseException], ...] | None = None

    def over(self, other: "Retrying") -> "Retrying":
        """This, and what it does not say as the other has it."""
        return Retrying(
            backoff=other.backoff if self.backoff is None else self.backoff,
            retry_on=other.retry_on if self.retry_on is None else self.retry_on,
            give_up_on=other.give_up_on if self.give_up_on is None else self.give_up_on,
        )

    def given_up(self, error: BaseException) -> str | None:
        """Why this error is not tried again, or None."""
        judged = _judged(error)
        if any(isinstance(one, self.give_up_on or ()) for one in judged):
            return "give_up_on names it"
        if self.retry_on is not None and not all(isinstance(one, self.retry_on) for one in judged):
            return "retry_on does not name it"
        return None

    def after(self, attempt: int, error: BaseException, random: Callable[[], float]) -> tuple[float | Verdict, str]:
        """How long to wait after this attempt, or a verdict; and, if there is, what is wrong with the function that was asked."""
        if self.backoff is None or isinstance(self.backoff, Backoff):
            return (self.backoff or _ORDINARY).delay_seconds(attempt, random), ""
        try:
            return _answered(self.backoff(attempt, error), lambda: _ORDINARY.delay_seconds(attempt, random)), ""
        except KeyboardInterrupt:
            raise
        except BaseException as wrong:  # noqa: BLE001 - the application's function: SystemExit ends no runner
            verdict = verdict_in(wrong)
            if verdict is not None:  # raised, as a handler may
                return self._obeyed(verdict, attempt, random)
            what = (
                f"answered nonsense: {wrong}" if type(wrong) is _Nonsense else f"raised {type(wrong).__name__}: {safe_str(wrong)}"
            )
            return _ORDINARY.delay_seconds(attempt, random), f"its back-off function {what}"

    def _obeyed(self, verdict: Verdict, attempt: int, random: Callable[[], float]) -> tuple[float | Verdict, str]:
        try:
            return _answered(verdict, lambda: _ORDINARY.delay_seconds(attempt, random)), ""
        except _Nonsense as wrong:
            return _ORDINARY.delay_seconds(attempt, random), f"its back-off function raised nonsense: {wrong}"


class _Nonsense(ValueError):
    """What a back-off function answered cannot be meant."""


def _answered(answer: object, ordinary: Callable[[], float]) -> float | Verdict:
    match answer:
        case Retry(None):
            return ordinary()
        case Retry(delay):
            return _seconds(delay)
        case Snooze(delay):
            return Snooze(_seconds(delay))
        case _ if isinstance(answer, VERDICTS):
            return answer
        case _:
            if inspect.iscoroutine(answer):
                answer.close()
            return _seconds(answer)


def _seconds(delay: Any) -> float:
    try:
        return duration_seconds(delay, name="delay")
    except ValueError as error:
        raise _Nonsense(str(error)) from None


def _judged(error: BaseException) -> list[BaseException]:
    """The errors that decide: none of what is tried again in any case."""
    if isinstance(error, BaseExceptionGroup):
        return [one for inner in error.exceptions for one in _judged(inner)]
    if isinstance(error, (FailedByHand, NotCommitted)) or verdict_in(error) is not None:
        return []
    if isinstance(error, (ResourceFailed, HookFailed)) and error.__cause__ is not None:
        return _judged(error.__cause__)
    return [error]


def check_backoff(of: str, backoff: object) -> None:
    """ConfigurationError for what is neither a Backoff nor a plain function of an attempt's number and its error."""
    if backoff is None or isinstance(backoff, Backoff):
        return
    if not callable(backoff) or isinstance(backoff, type):
        raise ConfigurationError(
            f"{of}backoff={shown(backoff)} is no Backoff: write Backoff(base, maximum=…), or give a function of (attempt, error)."
        )
    if inspect.iscoroutinefunction(backoff):
        raise ConfigurationError(
            f"{of}backoff= is an `async def`: give a plain function of (attempt, error), which must not wait."
        )
    try:
        inspect.signature(backoff).bind(1, Exception())
    except TypeError as error:
        raise ConfigurationError(f"{of}backoff= is called with (attempt, error): {error}.") from None
    except ValueError:  # a function without a signature
        return


def check_errors(of: str, name: str, errors: object) -> tuple[type[BaseException], ...] | None:
    """The types of exceptions as a tuple. ConfigurationError for anything else."""
    if errors is None:
        return None
    types: tuple[Any, ...] = errors if isinstance(errors, tuple) else (errors,)
    for one in types:
        if not isinstance(one, type) or not issubclass(one, BaseException):
            raise ConfigurationError(
                f"{of}{name}= has {shown(one)}, {kind_of(one)}: give types of exceptions, "
                f"as in {name}=(ConnectionError, TimeoutError)."
            )
        if issubclass(one, VERDICTS):
            raise ConfigurationError(f"{of}{name}= has {one.__name__}: a verdict says by itself what becomes of the job.")
    return types


def checked_retrying(of: str, *, backoff: Any, retry_on: object, give_up_on: object) -> Retrying:
    """What was said of failed attempts, or ConfigurationError in words that begin with `of`."""
    check_backoff(of, backoff)
    retried, given_up = check_errors(of, "retry_on", retry_on), check_errors(of, "give_up_on", give_up_on)
    both = next((one for one in retried or () if one in (given_up or ())), None)
    if both is not None:
        raise ConfigurationError(f"{of}{both.__name__} is in retry_on= and in give_up_on=: keep it in one.")
    return Retrying(backoff=backoff, retry_on=retried, give_up_on=given_up)
