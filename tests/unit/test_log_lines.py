"""Lines as `configure_logs` has them written."""

import io
import json
import logging
from typing import Any

import pytest
import structlog

from asyncjobs import JobContext
from asyncjobs.telemetry import events as e
from asyncjobs.telemetry.logs import configure_logs, log_events
from tests.support.attempts import Runs


def written(style: Any, *, level: Any = "info") -> tuple[io.StringIO, e.Events]:
    file, events = io.StringIO(), e.Events()
    configure_logs(style, level=level, file=file)
    log_events(events, level=level)
    return file, events


def ended(**fields: Any) -> e.AttemptEnded:
    return e.AttemptEnded(job_id=1, type="email", queue="mail", attempt=2, token=3, runner_id=4, **fields)


def raised(error: Exception) -> Exception:
    _secret = "payload"  # must not be found in a line
    try:
        raise error  # noqa: TRY301 - for its traceback
    except Exception as caught:  # noqa: BLE001 - the same
        return caught


def test_json_lines_are_objects_with_level_time_and_name() -> None:
    file, events = written("json")
    events.emit(ended(outcome="completed", run_seconds=0.5))
    [line] = map(json.loads, file.getvalue().splitlines())
    assert (line["event"], line["level"], line["job_id"], line["run_seconds"]) == ("asyncjobs.job.completed", "info", 1, 0.5)
    assert line["timestamp"].endswith("Z")


def test_json_lines_hold_tracebacks_as_data_without_local_variables() -> None:
    file, events = written("json")
    events.emit(ended(outcome="dead", message="ValueError: odd", error=raised(ValueError("odd"))))
    [line] = map(json.loads, file.getvalue().splitlines())
    [error] = line["exception"]
    assert (error["exc_type"], error["exc_value"], error["frames"][0]["name"]) == ("ValueError", "odd", "raised")
    assert "payload" not in file.getvalue()


def test_console_lines_are_for_eyes() -> None:
    file, events = written("console")
    events.emit(ended(outcome="dead", message="odd", error=raised(ValueError("odd"))))
    assert "asyncjobs.job.died" in file.getvalue()
    assert "Traceback (most recent call last)" in file.getvalue()
    assert "payload" not in file.getvalue()


@pytest.mark.parametrize(("level", "lines"), [("debug", 2), ("info", 1), ("warning", 0)])
def test_lines_below_the_level_are_not_written(level: str, lines: int) -> None:
    file, events = written("json", level=level)
    events.emit(e.JobsPromoted(count=1))
    events.emit(ended(outcome="completed"))
    assert len(file.getvalue().splitlines()) == lines


async def test_lines_of_a_handler_say_which_job_it_is() -> None:
    file, _ = written("json")

    async def handler(ctx: JobContext) -> None:
        structlog.get_logger("shop").info("asked")
        ctx.log.info("answered")

    await Runs().run(handler)
    asked, answered = map(json.loads, file.getvalue().splitlines())
    assert asked.keys() >= {"job_id", "job_type"}
    assert answered.keys() >= {"job_id", "job_type", "attempt"}


def test_logging_is_left_alone() -> None:
    before = logging.getLogger().handlers[:]
    configure_logs()
    assert logging.getLogger().handlers == before
