"""Whatever is decoded or read from words is taken or refused with an error of ours, and never anything else."""

import contextlib
import io
import json
import re
import string
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asyncjobs import AsyncJobs, AsyncJobsError, JobContext, Queue
from asyncjobs.cli.failures import BadInput
from asyncjobs.cli.queue_words import queues_of
from asyncjobs.dsn import masked
from asyncjobs.errors import ConfigurationError, UndecodablePayload
from asyncjobs.model.schedule import Timing, check_timing
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store.jobs import to_job
from asyncjobs.telemetry.events import AttemptEnded, Events
from asyncjobs.telemetry.logs import configure_logs, log_events
from tests.support.cli import call
from tests.support.services import Woken

BOUNDED = settings(max_examples=60)
NOW = datetime(2026, 1, 1, tzinfo=UTC)

texts = st.text(st.characters() | st.sampled_from(list("\0\ud800\n\x1b;'\"\\$%{}:/@ ")), max_size=40)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6
)


def an_app() -> Any:
    jobs = AsyncJobs("postgresql://user:pass@db/x")

    @jobs.job("email", version=3, upgrades={1: lambda fields: {**fields, "n": int(fields["n"])}, 2: lambda fields: fields})
    async def email(ctx: JobContext, to: str, n: int = 0, more: Any = None) -> int:
        return n

    made: Any = jobs
    made.email = email
    return made


APP = an_app()


@given(
    stored=texts | st.builds(json.dumps, values) | st.binary().map(lambda data: data.decode("latin-1")),
    version=st.integers(-9, 9),
)
@example(stored='{"to": "a", "n": 1e999}', version=3)
@example(stored="[" * 100_000, version=1)
@BOUNDED
def test_stored_payloads_are_arguments_or_undecodable(stored: str, version: int) -> None:
    with contextlib.suppress(UndecodablePayload):
        assert set(APP.handlers["email"].decode_payload(stored, version)) <= {"to", "n", "more"}


OPTIONS = [
    "queue", "lane", "priority", "delay", "run_at", "max_attempts", "timeout", "dedup_key", "dedup_for", "on_duplicate",
    "serialization_key", "correlation_id", "parent_job_id", "created_by", "notify", "nonsense",
]  # fmt: skip
some_options = st.dictionaries(st.sampled_from(OPTIONS), values, max_size=3)


@given(payload=st.dictionaries(texts, values, max_size=3), options=some_options)
@BOUNDED
def test_payloads_and_options_are_checked_before_anything_is_sent(payload: Any, options: dict[str, Any]) -> None:
    with contextlib.suppress(AsyncJobsError):
        json.loads(APP.email.using(**options).new(**payload).row.payload)
    with contextlib.suppress(AsyncJobsError):
        json.loads(APP.email.using(**options).new("ada", more=payload).row.payload)


FIELDS = st.text(string.digits + "*/-,#LWSUNMON@? ", max_size=9)


@given(
    cron=texts | st.lists(FIELDS, min_size=4, max_size=6).map(" ".join),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "../../etc/passwd", "\0", "x" * 999]),
)
@example(cron="0 0 31 2 *", zone="UTC")
@example(cron="* * * * * * *" * 999, zone="UTC")
@BOUNDED
def test_cron_expressions_are_refused_or_have_a_next_tick(cron: str, zone: str) -> None:
    with contextlib.suppress(ValueError):
        check_timing(cron=cron, every=None, timezone=zone)
        tick = Timing(cron=cron, timezone=zone).following(NOW)
        assert tick is None or tick > NOW


SETTINGS = st.sampled_from(sorted(set(AsyncJobs("postgresql://db/x").settings.__struct_fields__) - {"connect_kwargs"}))


@given(given_=st.dictionaries(SETTINGS, values, max_size=3), name=texts, slots=values)
@BOUNDED
def test_settings_and_queues_are_taken_or_refused(given_: dict[str, Any], name: str, slots: Any) -> None:
    with contextlib.suppress(AsyncJobsError):
        AsyncJobs("postgresql://db/x", **given_)
    with contextlib.suppress(AsyncJobsError):
        Queue(name, concurrency=slots, lanes={name: slots})


@given(dsn=texts | st.builds("postgresql://{}:{}@{}/{}?{}".format, texts, texts, texts, texts, texts))
@BOUNDED
def test_dsns_are_taken_or_refused_without_their_password(dsn: str) -> None:
    masked(dsn)
    with contextlib.suppress(ConfigurationError):
        repr(AsyncJobs(dsn))


@given(text=texts | st.text("default=,:/0123456789mail ", max_size=30))
@BOUNDED
def test_words_for_queues_are_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadInput, AsyncJobsError):
        queues_of(text, {"default": Queue(), "mail": Queue("mail")})


VERBS = [
    "jobs",
    "list",
    "show",
    "cancel",
    "retry",
    "queues",
    "keys",
    "dead",
    "stats",
    "schedules",
    "--json",
    "--type",
    "--help",
    "--x",
]


@given(words=st.lists(st.sampled_from(VERBS) | texts.filter(lambda text: "\0" not in text), max_size=5))
@settings(max_examples=40)
def test_words_of_the_command_line_end_in_a_code_of_ours(words: list[str]) -> None:
    said = call(*words, env={"ASYNCJOBS_DSN": "", "ASYNCJOBS_APP": ""})
    assert said.code in {0, 2, 3, 4}, said
    assert "Traceback" not in said.err


@given(payload=texts | st.builds("{}:{}".format, st.sampled_from("qfdkslpr"), texts))
@BOUNDED
def test_notifications_of_strangers_wake_somebody_or_nobody(payload: str) -> None:
    wakes = Wakes(lambda _: None)
    wakes.add(Woken())
    wakes.heard(payload)


#: What jsonb can hold.
jsons = values.map(partial(json.dumps, ensure_ascii=False)).filter(
    lambda text: not re.search("NaN|Infinity|\\\\u0000|[\ud800-\udfff]", text)
)


@given(columns=st.dictionaries(st.sampled_from(["payload", "errors", "result", "progress"]), jsons, max_size=4))
@BOUNDED
def test_rows_with_any_json_are_jobs(columns: dict[str, str]) -> None:
    instants = dict.fromkeys(("scheduled_at", "run_at", "created_at", "updated_at"), NOW)
    none = dict.fromkeys(("payload", "errors", "result", "progress", "correlation_id"))
    row: Any = {"id": 1, "type": "email", "status": "pending", "queue": "default", **instants, **none}
    assert repr(to_job(row | columns))


@given(text=texts)
@BOUNDED
@pytest.mark.parametrize("style", ["json", "console"])
def test_an_event_is_one_line_of_the_log_whatever_it_quotes(style: Any, text: str) -> None:
    file, events = io.StringIO(), Events()
    configure_logs(style, level="debug", file=file)
    log_events(events, level="debug")
    told: dict[str, Any] = dict.fromkeys(("type", "queue", "message", "serialization_key"), text)
    event = AttemptEnded(job_id=1, attempt=1, token=1, runner_id=1, outcome="cancel", run_seconds=0.0, **told)
    events.emit(event)
    written = file.getvalue()
    assert written.count("\n") == 1
    assert not set(written.rstrip("\n")) & set("\r\x0b\x0c\x85\u2028\u2029")
    assert "\x1b" not in text or text not in written, "other escapes are colours"
