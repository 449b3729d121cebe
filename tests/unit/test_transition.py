"""What becomes of a job, by what its handler ended in."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncjobs import AttemptTimeout, Backoff, Cancel, ClaimLost, Dead, Retry, Snooze, UndecodablePayload, UnstorableResult
from asyncjobs.declare.payload import ResultCodec
from asyncjobs.model.outcome import Outcome
from asyncjobs.model.retrying import Retrying
from asyncjobs.model.transition import Interrupted, decide

LIMIT = 1024


def decided(ending: object, *, attempt: int = 1, **options: Any) -> Outcome:
    codec = ResultCodec("email", Any)
    settings: dict[str, Any] = {"max_attempts": 3, "max_error_bytes": LIMIT, "random": lambda: 0.5}
    settings["retrying"] = Retrying(backoff=options.pop("backoff", Backoff(10)))
    return decide(ending, attempt=attempt, encode_result=codec.encode, **(settings | options))


def raised(error: BaseException) -> BaseException:
    """The error with a traceback."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def circular() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


class Failing(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize(("value", "result"), [(None, None), ({"a": [1]}, '{"a":[1]}'), (0, "0"), ("", '""'), (False, "false")])
def test_a_value_completes_the_job(value: object, result: str | None) -> None:
    assert decided(value) == Outcome(kind="completed", result=result)


def test_a_value_of_too_many_bytes_is_dropped_and_the_job_completes() -> None:
    outcome = decided("ü" * 10, max_result_bytes=21)
    assert outcome == Outcome(kind="completed", result_dropped="too large: 22 bytes")
    assert decided("ü" * 10, max_result_bytes=22).result == '"üüüüüüüüüü"'


@pytest.mark.parametrize("value", [float("nan"), "\x00", "\ud800", {(1, 2): 3}, object(), [[float("inf")]], circular()])
def test_a_value_that_json_cannot_hold_makes_the_job_dead_since_its_work_is_done(value: object) -> None:
    outcome = decided(value)
    assert (outcome.kind, outcome.result) == ("dead", None)
    assert outcome.error
    assert outcome.error["type"] == "asyncjobs.errors.UnstorableResult"
    assert outcome.message
    assert outcome.message.startswith("asyncjobs.errors.UnstorableResult: email: result: ")


def test_a_failing_serializer_of_the_users_is_no_danger_to_the_runner() -> None:
    def encode(_: object) -> str:
        raise KeyError("boom")

    outcome = decide(1, attempt=1, max_attempts=3, retrying=Retrying(), encode_result=encode)
    assert (outcome.kind, outcome.message) == ("dead", "KeyError: 'boom'")


def test_verdicts_are_obeyed() -> None:
    assert decided(Snooze(5)) == Outcome(kind="snooze", delay_seconds=5)
    assert decided(Cancel("no need")) == Outcome(kind="cancel", message="no need")
    dead = decided(Dead("never"))
    assert (dead.kind, dead.message) == ("dead", "never")
    assert dead.error == {"type": "Dead", "message": "never", "traceback": "", "attempt": 1}


def test_retry_is_a_failed_attempt_with_a_delay_of_ones_own() -> None:
    assert (decided(Retry(7)).kind, decided(Retry(7)).delay_seconds) == ("retry", 7)
    assert decided(Retry(), attempt=2).delay_seconds == 20
    assert decided(Retry(7), attempt=3).kind == "dead"


@pytest.mark.parametrize("verdict", [Snooze(-1), Snooze(float("nan")), Retry(float("inf")), Snooze("5m")])  # type: ignore[arg-type]
def test_a_verdict_with_a_delay_that_is_none_is_a_failed_attempt(verdict: object) -> None:
    outcome = decided(verdict)
    assert outcome.kind == "retry"
    assert outcome.message
    assert outcome.message.startswith("ValueError: ")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(1),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        GeneratorExit(),
        AttemptTimeout("5 s"),
        Failing(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_of_any_kind_is_a_failed_attempt_and_the_last_one_is_dead(error: BaseException) -> None:
    first, last = decided(raised(error)), decided(raised(error), attempt=3)
    assert (first.kind, first.delay_seconds, last.kind) == ("retry", 10, "dead")
    assert first.error
    assert first.error["attempt"] == 1
    assert type(error).__name__ in first.error["type"]
    assert "raised" in first.error["traceback"] or type(error) is Failing


def test_a_stored_payload_that_does_not_fit_is_dead_at_once_unless_a_newer_program_made_it() -> None:
    assert decided(raised(UndecodablePayload("email", 'missing field "to"'))).kind == "dead"
    given_back = decided(raised(UndecodablePayload("email", "it has version 4", is_newer=True)))
    assert given_back.kind == "interrupted"
    assert 5 <= given_back.delay_seconds <= 15
    assert given_back.message == "asyncjobs.errors.UndecodablePayload: email: stored payload: it has version 4"


@pytest.mark.parametrize(("waited", "delay"), [(0, 10), (100, 10), (300, 30), (600, 60), (864_000, 60)])
def test_a_job_of_a_newer_program_is_given_back_for_longer_the_longer_it_has_waited(waited: float, delay: float) -> None:
    newer = UndecodablePayload("email", "it has version 4", is_newer=True)
    for random, factor in ((0.0, 0.5), (0.5, 1.0), (0.99, 1.49)):
        given_back = decided(raised(newer), waited_seconds=waited, random=lambda random=random: random)
        assert given_back.delay_seconds == pytest.approx(delay * factor)


def test_what_the_runner_ended_is_given_back() -> None:
    assert decided(Interrupted("shutdown")) == Outcome(kind="interrupted", message="shutdown")
    assert decided(ClaimLost("job 5 is not ours")).kind == "interrupted"


def test_an_exception_whose_text_cannot_be_had_says_so() -> None:
    assert decided(raised(Failing())).message == "test_transition.Failing: <str() of Failing failed: SystemExit>".replace(
        "test_transition", Failing.__module__
    )


@given(text=st.text(st.characters() | st.sampled_from(["\x00", "\ud800", "ü", "\U0001f600"]), max_size=3 * LIMIT))
def test_whatever_an_exception_says_fits_its_column(text: str) -> None:
    for ending in (raised(ValueError(text)), Dead(text), Cancel(text), UnstorableResult("email", text)):
        outcome = decided(ending)
        message = outcome.message or ""
        assert len(message.encode()) <= LIMIT
        assert "\x00" not in message
        entry = outcome.error or {}
        texts = [str(entry.get(name, "")) for name in ("type", "message", "traceback")]
        assert sum(len(part.encode()) for part in texts) <= LIMIT
        assert not any("\x00" in part for part in texts)


def test_a_long_text_is_cut_between_characters_and_a_long_traceback_keeps_its_end() -> None:
    def recurse(n: int) -> None:
        if n == 0:
            raise ValueError("ü" * 5000)
        recurse(n - 1)

    with pytest.raises(ValueError, match="ü") as caught:
        recurse(15)
    outcome = decided(caught.value, max_error_bytes=2001)
    assert outcome.message
    assert (len(outcome.message.encode()), outcome.message[-2:]) in {(2001, "ü…"), (2000, "ü…")}
    assert outcome.error
    assert outcome.error["traceback"].startswith("…")
    assert outcome.error["traceback"].endswith("ü\n")
