"""Fields that are redacted: in no page, no output of the command line, no line of the log, span, report or letter."""

import json
import logging
from collections.abc import Generator
from typing import Any

import asyncpg
import pytest
import sentry_sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.atexit import AtexitIntegration
from sentry_sdk.transport import Transport

from asyncjobs import AsyncJobs, ConfigurationError, InvalidHandler, JobRouter
from asyncjobs.dashboard import Dashboard, Tokens, Viewer
from asyncjobs.integrations import opentelemetry, prometheus, sentry
from asyncjobs.model.redaction import redacted, secrets_in
from tests.support.browser import Browser
from tests.support.cli import cli

CARD = "4111-1111-1111-1111"
IBAN = "DE02120300000000202051"
SECRETS = (CARD, IBAN)
PAYLOAD = {"card": CARD, "customer": {"name": "Ada", "accounts": [{"iban": IBAN}]}}


class Kept(Transport):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = ""

    def capture_envelope(self, envelope: Envelope) -> None:
        self.sent += "".join(json.dumps(item.payload.json) for item in envelope.items if item.type == "event")


@pytest.fixture
def reports() -> Generator[Kept]:
    transport = Kept()
    before = sentry_sdk.get_global_scope().client
    sentry_sdk.init("http://key@localhost/1", transport=transport, disabled_integrations=[AtexitIntegration()],
                    auto_enabling_integrations=False)  # fmt: skip
    yield transport
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(before)


def make(dsn: str, how: str = "raise") -> AsyncJobs:
    jobs = AsyncJobs(dsn)

    @jobs.job("charge", max_attempts=1, redact=("card", "customer.accounts.iban"))
    async def charge(card: str, customer: dict[str, Any]) -> dict[str, Any]:
        if how == "raise":
            try:
                _ = {}[customer["accounts"][0]["iban"]]
            except KeyError as error:
                raise ValueError(f"card {card} was refused for {customer['accounts'][0]['iban']}") from error
        return {"card": card, "receipt": 7}

    return jobs


async def died(dsn: str, jobs: AsyncJobs) -> int:
    async with jobs.runner():
        handle = await jobs.enqueue("charge", PAYLOAD, correlation_id="checkout-7")
        await handle.wait(timeout=20)
    return handle.id


async def test_the_handler_and_jobs_get_have_the_payload_and_operators_have_not(dsn: str) -> None:
    jobs = make(dsn, "complete")
    job_id = await died(dsn, jobs)
    async with jobs:
        job = await jobs.get(job_id)
        assert job is not None
        assert (job.status, job.payload, job.result) == ("completed", PAYLOAD, {"card": CARD, "receipt": 7})
        for shown in (await jobs.admin.get(job_id), (await jobs.admin.find(type="charge")).jobs[0],
                      (await jobs.admin.trace("checkout-7"))[0]):  # fmt: skip
            assert shown is not None
            assert shown.payload == {"card": "[redacted]", "customer": {"name": "Ada", "accounts": [{"iban": "[redacted]"}]}}
            assert shown.result == {"card": "[redacted]", "receipt": 7}
        [row] = (await jobs.admin.rows(type="charge")).jobs
        assert row.payload_start == '{"card": "[redacted]", "customer": "[redacted]"}'


async def test_nothing_that_is_told_of_a_failure_has_a_redacted_value(
    dsn: str, reports: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = make(dsn)
    spans = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    registry = CollectorRegistry()
    prometheus.setup(jobs, registry=registry)
    opentelemetry.setup(jobs, tracer_provider=provider)
    sentry.setup(jobs, retries=True, local_variables=True)
    with caplog.at_level(logging.DEBUG, "asyncjobs"):
        job_id = await died(dsn, jobs)
    told = {
        "log": caplog.text,
        "spans": "".join(span.to_json() for span in spans.get_finished_spans()),
        "sentry": reports.sent,
    }
    assert all("was refused" in text for text in told.values()), told.keys()
    connection = await asyncpg.connect(dsn)
    row = await connection.fetchrow("SELECT error_message, last_error, errors::text FROM asyncjobs.jobs WHERE id = $1", job_id)
    letter = await connection.fetchrow("SELECT error_message, error_details::text FROM asyncjobs.dead_letter_jobs")
    searched = (
        "jobs",
        "retry",
        "--type",
        "charge",
        "--payload",
        json.dumps({"card": CARD}),
        "--reason",
        "it was refused",
        "--yes",
    )
    assert (await cli(*searched, dsn=dsn)).code == 0
    told["audit"] = str(await connection.fetch("SELECT * FROM asyncjobs.audit"))
    assert "it was refused" in told["audit"]
    await connection.close()
    told |= {"row": str(row), "letter": str(letter), "metrics": generate_latest(registry).decode()}
    for where, text in told.items():
        assert where in {"audit", "metrics"} or "ValueError" in text, where
        for secret in SECRETS:
            assert secret not in text, where


async def test_no_page_and_no_output_shows_a_redacted_value_with_or_without_the_app(dsn: str) -> None:
    jobs = make(dsn)
    job_id = await died(dsn, jobs)
    paths = ["/", "/jobs", "/jobs?type=charge", f"/jobs/{job_id}", f"/jobs/{job_id}/data.json", "/dead", "/dead/1",
             "/dead/errors", "/trace?id=checkout-7", "/jobs/largest", "/audit", "/doctor"]  # fmt: skip
    async with AsyncJobs(dsn) as stranger, jobs:
        for app in (jobs, stranger):
            async with Browser(Dashboard(app, auth=lambda _: "ada")) as browser:
                for path in paths:
                    page = await browser.get(path)
                    assert page.status == 200, path
                    assert not any(secret in page.html for secret in SECRETS), path
                assert "[redacted]" in (await browser.get(f"/jobs/{job_id}")).html
    for words in (["jobs", "show", str(job_id)], ["jobs", "list"], ["jobs", "list", "--json"], ["jobs", "trace", "checkout-7"],
                  ["jobs", "explain", str(job_id)], ["dead", "show", "1"], ["dead", "show", "1", "--json"], ["dead", "list"],
                  ["dead", "errors"], ["audit"]):  # fmt: skip
        said = await cli(*words, dsn=dsn)
        assert not any(secret in said.out + said.err for secret in SECRETS), words


async def test_who_may_not_see_payloads_sees_none_and_shares_no_reading_of_one_who_may(dsn: str) -> None:
    jobs = make(dsn, "complete")
    plain = jobs.job("plain")(_plain)
    job_id = await died(dsn, jobs)
    async with jobs.runner():
        shown = await plain.enqueue("hidden text")
        await shown.wait(timeout=20)

        def who(request: Any) -> Viewer:
            name: str = request.headers["x-user"]
            return Viewer(name, sees_payloads=name == "ada")

        site = Dashboard(jobs, auth=who)
        async with Browser(site, headers={"x-user": "ada"}) as ada, Browser(site, headers={"x-user": "bob"}) as bob:
            for path in ("/jobs", "/jobs?type=plain", f"/jobs/{shown.id}"):
                assert "hidden text" in (await ada.get(path)).html, path
                page = await bob.get(path)
                assert page.status == 200
                assert "hidden text" not in page.html, path
            assert (await bob.get(f"/jobs/{shown.id}/data.json")).status == 403
            assert (await bob.get("/jobs?payload=text%3Dhidden")).status == 400
            assert "receipt" not in (await bob.get(f"/jobs/{job_id}")).html
            done = await bob.send("jobs/delete", {"id": str(shown.id), "sure": "yes"})
            assert "deleted" in done.text, "an operator who may act may still"


async def _plain(text: str) -> str:
    return text


async def test_token_of_an_observer_lets_look_at_all_but_payloads(dsn: str) -> None:
    async with make(dsn, "complete") as jobs:
        tokens = Tokens(operator="o" * 20, viewer="v" * 20, observer="b" * 20)
        handle = await jobs.enqueue("charge", PAYLOAD)
        site = Dashboard(jobs, auth=tokens)
        async with Browser(site, headers={"authorization": f"Bearer {'b' * 20}"}) as browser:
            page = await browser.get(f"/jobs/{handle.id}")
            assert "Payloads and results are not shown to you." in page.text
            assert "Ada" not in page.html
            assert (await browser.send("pause", {"queue": "default"})).status == 403
        async with Browser(site, headers={"authorization": f"Bearer {'v' * 20}"}) as browser:
            assert "Ada" in (await browser.get(f"/jobs/{handle.id}")).html


def test_names_lead_into_objects_and_lists_and_short_values_are_not_looked_for() -> None:
    value = {"a": [{"b": "long enough"}, {"b": 12345, "c": 1}, 7], "d": {"e": None}, "f": True, "g": "abc"}
    fields = ("a.b", "d", "f", "g", "nobody", "g.deeper")
    assert redacted(value, fields) == {
        "a": [{"b": "[redacted]"}, {"b": "[redacted]", "c": 1}, 7], "d": "[redacted]", "f": "[redacted]", "g": "[redacted]",
    }  # fmt: skip
    assert secrets_in(value, fields) == ["long enough", "12345"]
    assert redacted(None, fields) is None


@pytest.mark.parametrize("fields", ["card", ("",), ("a..b",), (7,)])
def test_what_is_no_name_of_a_field_is_refused(fields: Any) -> None:
    with pytest.raises(ConfigurationError, match=r'job "a": redact='):
        JobRouter().job("a", redact=fields)(_plain)


def test_field_that_the_handler_does_not_take_is_refused() -> None:
    with pytest.raises(InvalidHandler, match=r'redact= has "cart.number", and it takes no argument "cart", but text\.'):
        AsyncJobs().job("a", redact=("cart.number",))(_plain)
