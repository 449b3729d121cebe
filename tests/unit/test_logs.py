import logging
import re
from typing import Any

import asyncpg
import pytest
import structlog
from structlog.testing import CapturingLogger

from asyncjobs.errors import AttemptTimeout, UndecodablePayload
from asyncjobs.telemetry import events as e
from asyncjobs.telemetry.logs import line, log_events


def ended(outcome: str, **fields: Any) -> e.AttemptEnded:
    return e.AttemptEnded(job_id=1, type="email", queue="mail", attempt=2, token=3, runner_id=4, outcome=outcome, **fields)


def test_every_event_has_a_dotted_name_and_snake_case_keys() -> None:
    values: dict[str, Any] = {"error": ValueError("x"), "outcome": "completed"}
    for kind in e.Event.__subclasses__():
        _, name, fields = line(kind(**{field: values.get(field, 1) for field in kind.__struct_fields__}))
        assert re.fullmatch(r"asyncjobs\.[a-z_]+\.[a-z_]+", name), name
        assert all(key == key.lower() and key.isidentifier() and key != "event" for key in fields), name


@pytest.mark.parametrize(
    ("outcome", "level", "name"),
    [
        ("completed", "info", "asyncjobs.job.completed"),
        ("retry", "warning", "asyncjobs.job.failed"),
        ("snooze", "info", "asyncjobs.job.snoozed"),
        ("cancel", "info", "asyncjobs.job.cancelled"),
        ("dead", "error", "asyncjobs.job.died"),
        ("interrupted", "info", "asyncjobs.job.interrupted"),
    ],
)
def test_line_of_an_attempt_goes_by_its_outcome(outcome: str, level: str, name: str) -> None:
    assert line(ended(outcome))[:2] == (level, name)


@pytest.mark.parametrize(("abandoned", "level"), [([], "info"), ([7], "warning")])
def test_stop_that_left_jobs_running_is_a_warning(abandoned: list[int], level: str) -> None:
    event = e.RunnerStopped(runner_id=1, abandoned_job_ids=abandoned, seconds=1)
    assert line(event)[:2] == (level, "asyncjobs.runner.stopped")


def test_keys_without_a_value_are_left_out() -> None:
    _, _, fields = line(ended("completed"))
    assert "message" not in fields
    assert fields["job_id"] == 1


@pytest.mark.parametrize(
    "error", [ValueError("bad"), FileNotFoundError("bad"), TimeoutError("bad"), asyncpg.InterfaceError("bad")]
)
def test_error_of_an_attempt_comes_with_its_traceback(error: Exception) -> None:
    _, _, fields = line(ended("retry", error=error, message="bad"))
    assert (fields["exc_info"], fields["error_type"], fields["message"]) == (error, type(error).__name__, "bad")


def test_attempt_that_took_too_long_comes_without_a_traceback() -> None:
    _, _, fields = line(ended("retry", error=AttemptTimeout("after 3 s"), message="after 3 s"))
    assert "exc_info" not in fields


def test_error_of_the_network_is_a_warning_without_traceback() -> None:
    level, _, fields = line(e.ServicePassFailed(service="notifier", error=ConnectionResetError("gone"), failures=1))
    assert level == "warning"
    assert "exc_info" not in fields
    assert (fields["error_type"], fields["error_message"]) == ("ConnectionResetError", "gone")


def test_error_of_a_service_has_its_traceback_once() -> None:
    first, again = (line(e.ServicePassFailed(service="x", error=KeyError(1), failures=n)) for n in (1, 2))
    assert (first[0], "exc_info" in first[2]) == ("error", True)
    assert (again[0], "exc_info" in again[2]) == ("error", False)


def test_of_a_row_of_failures_ever_fewer_are_told() -> None:
    told = [n for n in range(1, 40) if line(e.ServicePassFailed(service="x", error=OSError(), failures=n))[0] == "warning"]
    assert told == [1, 2, 4, 8, 16, 32]


def test_error_that_cannot_say_what_it_is_does_not_break_the_log() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert line(e.DatabaseFailed(during="claim", error=Mute()))[2]["error_message"] == "<str() of Mute failed: RuntimeError>"


def test_sink_that_leaves_on_its_own_failure_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    class Leaving(Exception):
        def __str__(self) -> str:
            raise SystemExit

        __repr__ = __str__

    def sink(_: e.Event) -> None:
        raise Leaving

    events = e.Events()
    events.subscribe(sink, e.RunnerDied, e.SinkFailed)
    events.emit(e.RunnerDied(runner_id=1, unchanged_seconds=1))
    assert "a sink failed on its own failure: Leaving: <str() of Leaving failed: SystemExit>" in capsys.readouterr().err


def test_events_below_the_level_are_not_asked_for() -> None:
    events = e.Events()
    end = log_events(events, logger=CapturingLogger(), level="info")
    assert events.wants(e.RunnerStarted)
    assert events.wants(e.AttemptEnded)
    assert not events.wants(e.OutcomeWritten)
    end()
    assert not events.wants(e.RunnerStarted)


def test_completions_are_not_asked_for_where_their_line_is_not_written(caplog: pytest.LogCaptureFixture) -> None:
    events = e.Events()
    end = log_events(events)
    with caplog.at_level(logging.INFO, logger="asyncjobs"):
        assert events.wants(e.AttemptEnded)
    with caplog.at_level(logging.WARNING, logger="asyncjobs"):
        assert not events.wants(e.AttemptEnded)
        forget = events.subscribe(lambda _: None, e.AttemptEnded)
        assert events.wants(e.AttemptEnded)  # somebody else wants to see them
        forget()
    end()
    with caplog.at_level(logging.INFO, logger="asyncjobs"):
        assert not events.wants(e.AttemptEnded)


def test_app_that_configured_no_logging_gets_lines_through_the_standard_library(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structlog, "is_configured", lambda: False)
    events = e.Events()
    log_events(events)
    with caplog.at_level(logging.INFO, logger="asyncjobs"):
        events.emit(e.ListenerFellBack(reason="100 % lost"))
        events.emit(e.SinkFailed(event="RunnerDied", error=ValueError("x")))
    first, second = caplog.records
    assert (first.name, first.levelname) == ("asyncjobs", "WARNING")
    assert first.getMessage() == "asyncjobs.listener.fell_back reason='100 % lost'"
    assert second.exc_info is not None


def test_app_that_configured_structlog_gets_lines_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structlog, "is_configured", lambda: True)
    events = e.Events()
    log_events(events)
    with structlog.testing.capture_logs() as lines:
        events.emit(e.ListenerFellBack(reason="x"))
    assert lines == [{"event": "asyncjobs.listener.fell_back", "reason": "x", "log_level": "warning"}]


def test_a_job_that_is_too_new_is_a_warning_without_a_traceback() -> None:
    error = UndecodablePayload("email", "it has version 2", is_newer=True)
    level, name, fields = line(ended("interrupted", error=error, message="it has version 2"))
    assert (level, name, fields["message"]) == ("warning", "asyncjobs.job.too_new", "it has version 2")
    assert "exc_info" not in fields
