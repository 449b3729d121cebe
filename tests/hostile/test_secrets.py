"""No payload, result or password is found where it does not belong: each holds a word that is then looked for everywhere.

What a handler's exception says is the application's: it is stored and logged as it is.
"""

import gc
import io
import logging
import traceback
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from asyncjobs import AsyncJobs, Backoff, DatabaseUnavailable, InvalidPayload, JobContext, PayloadTooLarge, SchemaError
from asyncjobs.integrations import opentelemetry, prometheus
from asyncjobs.store.database import Connection, quote_identifier
from asyncjobs.telemetry.logs import configure_logs, log_events
from asyncjobs.testing import Proxy, Recorder
from tests.support.cli import cli

PASSWORD = "pass-canary-4711"
PAYLOAD = "payload-canary-0815"
RESULT = "result-canary-2718"
WORDS = (PASSWORD, PAYLOAD, RESULT)


class Places:
    """Where a word could turn up."""

    def __init__(self) -> None:
        self.log = io.StringIO()
        self.found: list[str] = []
        self.looked = 0
        self.registry = CollectorRegistry()
        self.spans = InMemorySpanExporter()

    def look(self, place: str, text: str) -> None:
        self.found += [f"{word} in {place}: {text[max(text.index(word) - 150, 0) :][:300]}" for word in WORDS if word in text]

    def look_at_error(self, error: BaseException) -> None:
        self.look("an error", "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error)))

    def look_at_reprs(self) -> None:
        """Of every object of asyncjobs that there is now."""
        if self.looked < 3:  # while handlers run
            self.looked += 1
            objects = gc.get_objects()
            for one in objects:
                if str(type(one).__module__).startswith("asyncjobs."):
                    self.look(f"the repr of a {type(one).__name__}", repr(one))

    def look_at_metrics_and_spans(self) -> None:
        self.look("the metrics", generate_latest(self.registry).decode())
        for span in self.spans.get_finished_spans():
            self.look("a span", span.to_json())


@pytest.fixture
async def secret_dsn(dsn: str, connection: Connection) -> AsyncGenerator[str]:
    """The test's database for a role of its own, whose password is looked for."""
    parts = urlsplit(dsn)
    role = f"canary_{parts.path[1:]}"
    await connection.execute(f"CREATE ROLE {quote_identifier(role)} SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
    yield urlunsplit(parts._replace(netloc=f"{role}:{PASSWORD}@{parts.netloc.rsplit('@', 1)[-1]}"))
    await connection.execute(f"DROP ROLE {quote_identifier(role)}")


@pytest.fixture
def places() -> Places:
    made = Places()
    configure_logs("json", level="debug", file=made.log)
    return made


def an_app(dsn: str, places: Places) -> Any:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(places.spans))
    app = AsyncJobs(dsn, poll_interval=0.2, max_result_bytes=1000, max_payload_bytes=2000)
    prometheus.setup(app, registry=places.registry)
    opentelemetry.setup(app, tracer_provider=provider)
    log_events(app.events, level="debug")

    @app.job("login", max_attempts=1, backoff=Backoff(0))
    async def login(ctx: JobContext, password: str, how: str = "fine") -> Any:
        ctx.log.info("logging in")
        places.look_at_reprs()
        secret = password  # a local variable of the traceback
        if how == "fails":
            raise ValueError("not this time" + secret[:0])
        if how == "too large":
            return RESULT * 100
        if how == "unstorable":
            return [RESULT, object()]
        return RESULT

    app.schedule("often", login.new(PAYLOAD), every=3600)
    made: Any = app
    made.login = login
    return made


async def test_words_of_payloads_results_and_passwords_stay_where_they_belong(
    secret_dsn: str, connection: Connection, places: Places, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    heard: list[str] = []
    async with Proxy(secret_dsn) as proxy:
        jobs = an_app(proxy.dsn, places)
        await connection.add_listener("asyncjobs", lambda *args: heard.append(str(args)))
        async with jobs.runner():
            for how in ("fine", "fails", "too large", "unstorable"):
                new = jobs.login.new(PAYLOAD, how=how)
                keyed = jobs.login.using(serialization_key="k", correlation_id="c")
                places.look("the repr of a job to be", repr(new) + str(new))
                for handle in (await jobs.login.enqueue(PAYLOAD, how=how), await keyed.enqueue(PAYLOAD, how=how)):
                    job = await handle.wait(timeout=10)
                    places.look("a job", repr(job) + str(job) + repr(handle))
                    places.look("its errors", f"{job.error_message} {job.last_error} {job.errors}")
            for wrong in (
                {"password": [PAYLOAD]},
                {"password": PAYLOAD, "how": 5},
                {"password": PAYLOAD + "\0"},
                {PAYLOAD[:0]: 1},
            ):
                with pytest.raises(InvalidPayload) as refused:
                    await jobs.enqueue("login", wrong)
                places.look_at_error(refused.value)
            with pytest.raises(PayloadTooLarge) as large:
                await jobs.login.enqueue(PAYLOAD * 1000)
            places.look_at_error(large.value)
            proxy.reset("finish")
            proxy.reset("listener")
            await (await jobs.login.enqueue(PAYLOAD)).wait(timeout=10)
            places.look("the health", repr(jobs.health()) + repr(jobs) + repr(jobs.settings))
            for row in await connection.fetch("SELECT query, application_name FROM pg_stat_activity"):
                places.look("pg_stat_activity", str(row))
            for look in (
                jobs.admin.doctor,
                jobs.admin.dead_letters,
                jobs.admin.schedules,
                jobs.admin.runners,
            ):
                places.look(look.__name__, repr(await look()))
            proxy.refuse("enqueue plain")
            proxy.reset("enqueue plain")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("asyncjobs.runtime.sender.backoff_seconds", lambda *_: 60.0)  # longer than it tries: it gives up
                with pytest.raises((DatabaseUnavailable, OSError, TimeoutError, asyncpg.PostgresError)) as away:
                    await jobs.login.enqueue(PAYLOAD)
            places.look_at_error(away.value)
            proxy.heal()
    places.look("the log", places.log.getvalue())
    places.look("the standard library's log", caplog.text)
    places.look("notifications", str(heard))
    for entry in recorder.recorded:
        places.look("an event", repr(entry.event))
    places.look_at_metrics_and_spans()
    assert places.found == []
    assert "asyncjobs.job.completed" in places.log.getvalue()
    assert places.spans.get_finished_spans()


async def test_errors_about_a_dsn_do_not_show_its_password(secret_dsn: str, places: Places) -> None:
    parts = urlsplit(secret_dsn)
    wrong = [
        (secret_dsn.replace(f":{parts.port}", ":1"), "asyncjobs"),
        (urlunsplit(parts._replace(path="/no_such_database")), "asyncjobs"),
        (secret_dsn.replace(str(parts.username), "no_such_role"), "asyncjobs"),
        (secret_dsn, "no_such_schema"),
    ]
    for dsn, schema in wrong:
        app = AsyncJobs(dsn, schema=schema, connect_timeout=0.3, listen_dsn=dsn)
        with pytest.raises((DatabaseUnavailable, SchemaError)) as caught:
            async with app:
                pass
        places.look_at_error(caught.value)
        places.look("the repr of an app", repr(app) + repr(app.settings))
    for words in (("stats",), ("doctor",), ("jobs", "list"), ("migrate",)):
        said = await cli(*words, dsn=wrong[1][0])
        places.look(f"asyncjobs {words[0]}", said.out + said.err)
        assert said.code != 0
    assert places.found == []
