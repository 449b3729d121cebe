"""What reaches Sentry, taken from the SDK's transport."""

import json
import logging
from collections.abc import Generator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.atexit import AtexitIntegration
from sentry_sdk.transport import Transport

from asyncjobs import AsyncJobs, Backoff, Dead, InvalidPayload, Queue
from asyncjobs.integrations import sentry


class Kept(Transport):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.events += [item.payload.json for item in envelope.items if item.type == "event"]


@pytest.fixture
def sent() -> Generator[list[Any]]:
    transport = Kept()
    before = sentry_sdk.get_global_scope().client
    sentry_sdk.init(
        "http://key@localhost/1", transport=transport, default_integrations=True, auto_enabling_integrations=False,
        disabled_integrations=[AtexitIntegration()],
    )  # fmt: skip
    yield transport.events
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(before)


def make(dsn: str, **options: Any) -> AsyncJobs:
    jobs = AsyncJobs(dsn, queues=[Queue("default"), Queue("mail")])
    sentry.setup(jobs, **options)

    @jobs.job("fail", queue="mail", max_attempts=2, backoff=Backoff(0.01))
    async def fail(how: str) -> Any:
        if how == "give up":
            return Dead("no such mailbox")
        if how == "log":
            logging.getLogger("app").error("odd")
            return None
        raise ValueError(how)

    return jobs


async def run(jobs: AsyncJobs, *hows: str) -> list[int]:
    async with jobs.runner():
        handles = [await jobs.enqueue("fail", {"how": how}, correlation_id=f"c-{how}") for how in hows]
        for handle in handles:
            await handle.wait(timeout=30)
    return [handle.id for handle in handles]


async def test_exception_that_made_a_job_dead_is_reported_once_with_the_job(dsn: str, sent: list[Any]) -> None:
    [job_id] = await run(make(dsn), "raise")
    [event] = [event for event in sent if "exception" in event]
    assert [one["type"] for one in event["exception"]["values"]] == ["ValueError"]
    assert (event["level"], event["transaction"]) == ("error", "job fail")
    assert event["tags"] == {"job_type": "fail", "queue": "mail", "outcome": "dead"}
    assert event["contexts"]["job"] == {"id": job_id, "attempt": 2, "correlation_id": "c-raise"}


async def test_attempts_that_are_tried_again_are_warnings_for_those_who_ask(dsn: str, sent: list[Any]) -> None:
    await run(make(dsn, retries=True), "raise")
    assert [(event["level"], event["tags"]["outcome"]) for event in sent if "exception" in event] == [
        ("warning", "retry"),
        ("error", "dead"),
    ]


async def test_verdict_is_no_exception(dsn: str, sent: list[Any]) -> None:
    await run(make(dsn), "give up")
    assert [event for event in sent if "exception" in event] == []


async def test_what_a_handler_reports_itself_carries_its_own_job(dsn: str, sent: list[Any]) -> None:
    ids = await run(make(dsn), "log", "log")
    found = [event for event in sent if event.get("logentry", {}).get("message") == "odd"]
    assert {event["contexts"]["job"]["id"] for event in found} == set(ids)
    assert {event["tags"]["job_type"] for event in found} == {"fail"}


def with_secrets(dsn: str, **options: Any) -> AsyncJobs:
    jobs = AsyncJobs(dsn)
    sentry.setup(jobs, **options)

    @jobs.job("charge", max_attempts=1)
    async def charge(card: str) -> None:
        number = card + "-in-a-local"
        if number:
            logging.getLogger("app").error("odd", exc_info=ValueError("of its own"))
            raise ExceptionGroup("all", [ValueError("refused")])

    return jobs


@pytest.mark.parametrize("asked", [False, True])
async def test_neither_payloads_nor_local_variables_leave_the_process(dsn: str, sent: list[Any], *, asked: bool) -> None:
    jobs = with_secrets(dsn, local_variables=asked)
    async with jobs.runner():
        await (await jobs.enqueue("charge", {"card": "canary-4711"})).wait(timeout=30)
    said = json.dumps(sent)
    assert "refused" in said
    assert "of its own" in said
    assert ("canary-4711" in said) == asked


async def test_arguments_of_an_enqueue_that_fails_are_left_out_of_our_frames(dsn: str, sent: list[Any]) -> None:
    jobs = with_secrets(dsn)
    async with jobs:
        try:
            await jobs.enqueue("charge", {"card": "canary-4711", "note": "canary-0815"})
        except InvalidPayload:
            sentry_sdk.capture_exception()
    [event] = [event for event in sent if "exception" in event]
    frames = [frame for one in event["exception"]["values"] for frame in one["stacktrace"]["frames"]]
    assert [frame["module"] for frame in frames if "canary" in json.dumps(frame.get("vars"))] == []
    assert any("vars" in frame for frame in frames if not frame["module"].startswith("asyncjobs")), "yours are yours"


async def test_without_init_nothing_is_sent_and_nothing_breaks(dsn: str) -> None:
    jobs = make(dsn)
    [job_id] = await run(jobs, "raise")
    async with jobs:
        job = await jobs.get(job_id)
    assert job is not None
    assert job.status == "dead"
