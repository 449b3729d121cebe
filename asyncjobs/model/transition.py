"""From what a handler ended in to what becomes of its job. Pure: the clock of the database and the ack come later.

Every text that leaves here fits its column (`model/storable.py`). An exception whose `str()` fails, or runs to
megabytes, ends the attempt like any other.
"""

import traceback
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from asyncjobs.errors import CircuitOpen, ClaimLost, UndecodablePayload
from asyncjobs.model.breaker import come_back_seconds
from asyncjobs.model.chance import CHANCE
from asyncjobs.model.duration import duration_seconds
from asyncjobs.model.outcome import (
    Cancel,
    Dead,
    Duration,
    Outcome,
    OutcomeKind,
    Retry,
    Snooze,
    Throttled,
    Verdict,
    cause_of,
    verdict_in,
)
from asyncjobs.model.retrying import Retrying
from asyncjobs.model.storable import cut, cut_front, safe_str

_FRAMES: Final = 20
#: For how long, on average, a job of a newer program is given back: a tenth of the time it has waited, within these bounds.
_NEWER_SECONDS: Final = (10.0, 60.0)
_NEWER_SHARE: Final = 0.1


class Interrupted(msgspec.Struct, frozen=True):
    """The attempt was ended by its runner (shutdown, claim lost, cancel requested): it is given back, nothing is charged.

    `asked_for`: an operator asked for this end of the job, for this reason; then it counts.
    """

    reason: str = "interrupted"
    cause: BaseException | None = None  # what its handler raised as it was ended
    delay_seconds: float = 0.0
    asked_for: Literal["cancel", "dead"] | None = None


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What `decide` needs to know about the job."""

    attempt: int
    max_attempts: int
    retrying: Retrying
    max_error_bytes: int
    waited_seconds: float
    random: Callable[[], float]


def decide(
    ending: object,
    *,
    attempt: int,
    max_attempts: int,
    retrying: Retrying,
    encode_result: Callable[[Any], str | None],
    max_result_bytes: int = 1 << 20,
    max_error_bytes: int = 8192,
    waited_seconds: float = 0.0,
    random: Callable[[], float] = CHANCE.random,
) -> Outcome:
    """The outcome of an attempt that ended in `ending`: a value, a verdict, an exception of any kind, or Interrupted.

    An exception or Retry is a failed attempt: again after the back-off, or dead when it was the last, or at once where the type
    says so (`model/retrying.py`). Given back for some seconds, more of them the longer the job has waited, with its attempt: a
    payload of a newer program, which may run beside this one while it is deployed. Dead at once: another stored payload that does
    not fit, which no attempt changes; and a result that JSON cannot hold, since the handler has done its work, and doing it again
    would only repeat the effects. A result that is too large is dropped, and the job completes.

    A job that met an open circuit breaker is snoozed until that lets somebody through, and a moment longer: not all at once.
    """
    policy = Policy(
        attempt=attempt, max_attempts=max_attempts, retrying=retrying, max_error_bytes=max_error_bytes,
        waited_seconds=waited_seconds, random=random,
    )  # fmt: skip
    if isinstance(ending, (Interrupted, ClaimLost)):
        given = ending if isinstance(ending, Interrupted) else Interrupted(safe_str(ending))
        message = cut(_said_of(given), max_error_bytes)
        return Outcome(kind="interrupted", delay_seconds=given.delay_seconds, message=message, asked_for=given.asked_for)
    if isinstance(ending, UndecodablePayload):
        return _given_back(ending, policy) if ending.is_newer else _ended("dead", ending, policy)
    verdict = verdict_in(ending)
    if verdict is not None:
        return _obeyed(verdict, policy)
    if isinstance(ending, BaseException):
        return _raised(ending, policy)
    try:
        return _completed(encode_result(ending), max_result_bytes)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - UnstorableResult, or what the user's own serializer raised
        return _ended("dead", error, policy)


def _given_back(error: BaseException, policy: Policy) -> Outcome:
    # Spread out: all jobs of the newer program are met within moments of each other.
    least, most = _NEWER_SECONDS
    seconds = min(max(policy.waited_seconds * _NEWER_SHARE, least), most) * (0.5 + policy.random())
    message = cut(f"{_kind_of(error)}: {safe_str(error)}", policy.max_error_bytes)
    return Outcome(kind="interrupted", delay_seconds=seconds, message=message)


def _completed(result: str | None, max_bytes: int) -> Outcome:
    size = 0 if result is None else len(result.encode())
    if size > max_bytes:
        return Outcome(kind="completed", result_dropped=f"too large: {size} bytes")
    return Outcome(kind="completed", result=result)


def _obeyed(verdict: Verdict, policy: Policy) -> Outcome:
    limit = policy.max_error_bytes
    try:
        match verdict:
            case Snooze(delay):
                return Outcome(kind="snooze", delay_seconds=_seconds(delay, "Snooze"))
            case Throttled(retry_after):
                return Outcome(kind="snooze", delay_seconds=_seconds(retry_after, "Throttled"))
            case Retry(delay):
                seconds = None if delay is None else _seconds(delay, "Retry")
                cause = cause_of(verdict)
                text = "the handler asked for another attempt"
                told = text if cause is None else f"{text}: {_kind_of(cause)}: {safe_str(cause)}"
                trace = "" if cause is None else _traceback_of(cause)
                return _failed_because(verdict, "Retry", told, trace, policy, delay_seconds=seconds)
            case Cancel(reason):
                return Outcome(kind="cancel", message=cut(safe_str(reason), limit))
            case Dead(reason):
                text = cut(safe_str(reason), limit)
                return Outcome(kind="dead", message=text, error=_entry("Dead", text, "", policy))
    except ValueError as error:  # a delay that is none
        return _failed(error, policy)


def _raised(error: BaseException, policy: Policy) -> Outcome:
    refusal = _refusal_in(error)
    if refusal is not None:
        return _refused(refusal, policy)
    given_up = policy.retrying.given_up(error)
    return _failed(error, policy) if given_up is None else _ended("dead", error, policy, remark=given_up)


def _refusal_in(error: BaseException) -> CircuitOpen | None:
    """The CircuitOpen that an attempt ended in; of a task group's, the one that lasts longest, if there is nothing else in it."""
    if isinstance(error, CircuitOpen):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [_refusal_in(one) for one in error.exceptions]
    refusals = [one for one in found if one is not None]
    return max(refusals, key=_retry_after) if len(refusals) == len(found) else None


def _retry_after(refusal: CircuitOpen) -> float:
    return refusal.retry_after or 0.0


def _refused(refusal: CircuitOpen, policy: Policy) -> Outcome:
    if refusal.retry_after is None:  # raised by the user's own code
        after, _ = policy.retrying.after(policy.attempt, refusal, policy.random)
        return Outcome(kind="snooze", delay_seconds=after) if isinstance(after, (int, float)) else _obeyed(after, policy)
    delay_seconds = come_back_seconds(refusal.retry_after, policy.random())
    return Outcome(kind="snooze", delay_seconds=delay_seconds, message=cut(safe_str(refusal), policy.max_error_bytes))


def _seconds(delay: Duration, verdict: str) -> float:
    return duration_seconds(delay, name=f"{verdict}({'retry_after' if verdict == 'Throttled' else 'delay'})")


def _failed(error: BaseException, policy: Policy) -> Outcome:
    return _failed_because(error, _kind_of(error), safe_str(error), _traceback_of(error), policy)


def _failed_because(
    error: BaseException, kind: str, text: str, trace: str, policy: Policy, *, delay_seconds: float | None = None
) -> Outcome:
    after: float | Verdict
    after, remark = (
        (delay_seconds, "") if delay_seconds is not None else policy.retrying.after(policy.attempt, error, policy.random)
    )
    text = _remarked(text, remark)
    message = cut(f"{kind}: {text}" if text else kind, policy.max_error_bytes)
    entry = _entry(kind, text, trace, policy)
    if not isinstance(after, (int, float)):  # the back-off function's
        obeyed = _obeyed(after, policy)
        return msgspec.structs.replace(obeyed, message=obeyed.message or message, error=entry)
    if policy.attempt >= policy.max_attempts:
        return Outcome(kind="dead", message=message, error=entry)
    return Outcome(kind="retry", delay_seconds=after, message=message, error=entry)


def _remarked(text: str, remark: str) -> str:
    """What it says, and what is to be said of it: that comes first, since the end of a long text is cut off."""
    return f"({remark}) {text}" if remark else text


def _ended(kind: OutcomeKind, error: BaseException, policy: Policy, *, remark: str = "") -> Outcome:
    name, text = _kind_of(error), _remarked(safe_str(error), remark and f"not tried again: {remark}")
    entry = _entry(name, text, _traceback_of(error), policy)
    return Outcome(kind=kind, message=cut(f"{name}: {text}", policy.max_error_bytes), error=entry)


def _entry(kind: str, text: str, trace: str, policy: Policy) -> dict[str, Any]:
    """One entry of the job's history: at most `max_error_bytes` of text, the end of the traceback rather than its beginning."""
    kind = cut(kind, 200)
    message = cut(text, policy.max_error_bytes // 2)
    left = policy.max_error_bytes - len(kind.encode()) - len(message.encode())
    return {"type": kind, "message": message, "traceback": cut_front(trace, left), "attempt": policy.attempt}


def _kind_of(error: BaseException) -> str:
    cls = type(error)
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


def _said_of(ending: Interrupted) -> str:
    return ending.reason if ending.cause is None else f"{ending.reason}: {_kind_of(ending.cause)}: {safe_str(ending.cause)}"


def _traceback_of(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, limit=-_FRAMES))
    except BaseException as failure:  # noqa: BLE001 - it calls str() and repr() of the user's objects
        return f"<no traceback: {type(failure).__name__}>"
