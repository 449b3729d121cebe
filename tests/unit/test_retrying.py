"""Which failed attempts are tried again, and when: `retry_on`, `give_up_on`, and back-off by a function."""

import asyncio
import math
from typing import Any

import pytest

from asyncjobs import (
    AttemptTimeout,
    Backoff,
    Cancel,
    CircuitOpen,
    Dead,
    FailedByHand,
    HookFailed,
    NotCommitted,
    ResourceFailed,
    Retry,
    Snooze,
)
from asyncjobs.model.outcome import Outcome
from asyncjobs.model.retrying import Retrying, checked_retrying
from asyncjobs.model.transition import decide


def decided(ending: object, *, attempt: int = 1, **said: Any) -> Outcome:
    retrying = checked_retrying("", **({"backoff": None, "retry_on": None, "give_up_on": None} | said))
    return decide(ending, attempt=attempt, max_attempts=3, retrying=retrying, encode_result=str, random=lambda: 0.5)


def because_of(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def test_only_what_retry_on_names_is_tried_again() -> None:
    assert decided(ConnectionResetError(), retry_on=(ConnectionError, KeyError)).kind == "retry"
    assert decided(KeyError("x"), retry_on=(ConnectionError, KeyError)).kind == "retry"
    outcome = decided(ValueError("no"), retry_on=ConnectionError)
    assert (outcome.kind, outcome.message) == ("dead", "ValueError: (not tried again: retry_on does not name it) no")
    assert outcome.error is not None
    assert outcome.error["type"] == "ValueError"
    assert decided(ConnectionError(), retry_on=()).kind == "dead"


def test_give_up_on_beats_retry_on() -> None:
    said: dict[str, Any] = {"retry_on": OSError, "give_up_on": (FileNotFoundError, PermissionError)}
    assert decided(OSError(), **said).kind == "retry"
    assert decided(FileNotFoundError(), **said).kind == "dead"
    assert decided(PermissionError(), give_up_on=PermissionError).kind == "dead"
    assert decided(ValueError(), give_up_on=PermissionError).kind == "retry"


def test_a_time_out_is_judged_like_any_other_error() -> None:
    assert decided(AttemptTimeout("late"), retry_on=TimeoutError).kind == "retry"
    assert decided(AttemptTimeout("late"), retry_on=ConnectionError).kind == "dead"


def test_what_asyncjobs_raised_for_an_error_is_judged_by_that() -> None:
    for error in (ResourceFailed("pool", "it failed"), HookFailed("Audit", "before_attempt", "it failed", ValueError())):
        assert decided(because_of(error, ConnectionError()), retry_on=ConnectionError).kind == "retry"
        assert decided(because_of(error, ValueError()), give_up_on=ValueError).kind == "dead"


def test_one_error_of_a_group_is_enough_to_give_up() -> None:
    group = ExceptionGroup("two", [ConnectionError(), ExceptionGroup("one", [ValueError()])])
    assert decided(group, retry_on=(ConnectionError, ValueError)).kind == "retry"
    assert decided(group, retry_on=ConnectionError).kind == "dead"
    assert decided(group, give_up_on=ValueError).kind == "dead"


def test_requests_lost_completions_and_verdicts_are_not_judged() -> None:
    never: dict[str, Any] = {"retry_on": (), "give_up_on": Exception}
    assert decided(FailedByHand("by ada"), **never).kind == "retry"
    assert decided(NotCommitted("gone"), **never).kind == "retry"
    assert decided(Retry(5), **never).delay_seconds == 5
    assert decided(Snooze(5), **never).kind == "snooze"
    assert decided(CircuitOpen("api", retry_after=3.0), **never).kind == "snooze"


def test_a_function_says_when() -> None:
    asked: list[tuple[int, BaseException]] = []

    def backoff(attempt: int, error: BaseException) -> float:
        asked.append((attempt, error))
        return attempt * 10.0

    error = ConnectionError()
    assert decided(error, attempt=2, backoff=backoff).delay_seconds == 20
    assert decided(error, attempt=3, backoff=backoff).kind == "dead"
    retry = Retry()
    assert decided(retry, backoff=backoff).delay_seconds == 10
    assert decided(Retry(1), backoff=backoff).delay_seconds == 1
    assert asked == [(2, error), (3, error), (1, retry)]


def test_a_function_may_answer_or_raise_a_verdict() -> None:
    error = ConnectionError("down")
    for answer in (lambda verdict: verdict, _raise):
        snoozed = decided(error, attempt=3, backoff=lambda *_, answer=answer: answer(Snooze(7)))
        assert (snoozed.kind, snoozed.delay_seconds, snoozed.message) == ("snooze", 7, "ConnectionError: down")
        assert snoozed.error is not None
        assert snoozed.error["message"] == "down"
        cancelled = decided(error, backoff=lambda *_, answer=answer: answer(Cancel("closed")))
        assert (cancelled.kind, cancelled.message) == ("cancel", "closed")
        dead = decided(error, backoff=lambda *_, answer=answer: answer(Dead("gone")))
        assert (dead.kind, dead.message, dead.error and dead.error["type"]) == ("dead", "gone", "ConnectionError")
        assert decided(error, backoff=lambda *_, answer=answer: answer(Retry(4))).delay_seconds == 4
        assert decided(error, attempt=2, backoff=lambda *_, answer=answer: answer(Retry())).delay_seconds == 2


def _raise(verdict: BaseException) -> None:
    raise verdict


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Leaving(Exception):
    def __str__(self) -> str:
        raise SystemExit


async def _coroutine() -> float:
    return 1.0


@pytest.mark.parametrize(
    ("backoff", "said"),
    [
        (lambda *_: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda *_: _raise(Unspeakable()), "raised Unspeakable: <str() of Unspeakable failed: RuntimeError>"),
        (lambda *_: _raise(Leaving()), "raised Leaving: <str() of Leaving failed: SystemExit>"),
        (lambda *_: _raise(SystemExit(3)), "raised SystemExit: 3"),
        (lambda *_: _raise(asyncio.CancelledError("leaked")), "raised CancelledError: leaked"),
        (lambda *_: None, "answered nonsense: delay=None is None: give seconds or a timedelta."),
        (lambda *_: "soon", 'answered nonsense: delay="soon" is a str: give seconds or a timedelta.'),
        (lambda *_: -1, "answered nonsense: delay=-1 must be at least 0 seconds."),
        (lambda *_: math.nan, "answered nonsense: delay=nan is not a finite number of seconds."),
        (lambda *_: True, "answered nonsense: delay=True is a bool: give seconds or a timedelta."),
        (lambda *_: Snooze(-1), "answered nonsense: delay=-1 must be at least 0 seconds."),
        (lambda *_: _raise(Retry(-1)), "raised nonsense: delay=-1 must be at least 0 seconds."),
        (lambda *_: _coroutine(), "answered nonsense: delay=<coroutine object"),
    ],
)
def test_a_function_that_raises_or_answers_nonsense_changes_nothing_and_is_named(backoff: Any, said: str) -> None:
    outcome = decided(ConnectionError("down"), attempt=2, backoff=backoff)
    assert (outcome.kind, outcome.delay_seconds) == ("retry", 2)
    assert outcome.message is not None
    assert outcome.message.startswith(f"ConnectionError: (its back-off function {said}")
    assert outcome.message.endswith(") down")
    assert decided(ConnectionError("down"), attempt=3, backoff=backoff).kind == "dead"


def test_a_serializer_that_leaves_is_an_error_of_the_result() -> None:
    def leaves(_: object) -> str:
        raise SystemExit(3)

    outcome = decide("done", attempt=1, max_attempts=3, retrying=Retrying(), encode_result=leaves)
    assert (outcome.kind, outcome.message) == ("dead", "SystemExit: 3")


def test_what_is_nearer_is_heard_first() -> None:
    near, far = Retrying(retry_on=()), Retrying(retry_on=(OSError,), give_up_on=(KeyError,), backoff=Backoff(5))
    assert near.over(far) == Retrying(retry_on=(), give_up_on=(KeyError,), backoff=Backoff(5))
