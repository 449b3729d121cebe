"""What a trace shows, in OpenTelemetry's own in-memory exporter: the sentences of asyncjobs/integrations/opentelemetry.py."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import structlog
from opentelemetry import baggage, propagate, trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from asyncjobs import AsyncJobs, Backoff, Cancel, Dead, Hook, JobContext, NewJob, Snooze, UsageError
from asyncjobs.integrations import opentelemetry
from asyncjobs.testing import run_until_idle
from tests.support.eventually import eventually


class Traced:
    """A process that traces what it does."""

    def __init__(self, dsn: str, **settings: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(resource=Resource({}), shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")
        self.jobs = AsyncJobs(dsn, **settings)
        opentelemetry.setup(self.jobs, tracer_provider=self.provider)

        @self.jobs.job("charge", max_attempts=2, backoff=Backoff(0.01))
        async def charge(ctx: JobContext, how: str = "well") -> Any:
            if how == "child":
                await charge.enqueue()
            if how == "later" and ctx.attempt == 1:
                raise ConnectionError("no answer")
            if how == "raise":
                raise ValueError("never")
            return {"snooze": Snooze(3600), "cancel": Cancel("no"), "die": Dead("enough")}.get(how)

        self.charge = charge

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """Those that have ended, in the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    async def acks(self, count: int) -> None:
        """Wait until so many outcomes were written and are linked."""
        await eventually(lambda: sum(len(span.links) for span in self.named("ack")) == count, description=f"{count} acks")


def context(span: ReadableSpan) -> SpanContext:
    found: SpanContext | None = span.context
    assert found is not None
    return found


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    return (
        child.parent is not None
        and child.parent.span_id == context(parent).span_id
        and context(child).trace_id == context(parent).trace_id
    )


async def test_one_trace_leads_from_the_enqueue_over_the_failed_attempt_to_the_completed_one(dsn: str) -> None:
    web, worker = Traced(dsn), Traced(dsn)  # stand for two processes: only the database is between them
    async with web.jobs:
        with web.tracer.start_as_current_span("POST /orders"):
            handle = await web.charge.using(correlation_id="order-7").enqueue("later")
    async with worker.jobs.runner():
        await worker.jobs.handle(handle.id).wait(timeout=30)
        await worker.acks(2)
    [enqueue], [request] = web.named("enqueue charge"), web.named("POST /orders")
    failed, completed = worker.named("attempt charge")
    assert is_child(enqueue, request)
    assert is_child(failed, enqueue)
    assert is_child(completed, enqueue)
    assert failed.parent is not None
    assert failed.parent.is_remote
    assert [span.kind for span in (enqueue, failed, completed)] == [SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.CONSUMER]
    assert [(span.attributes or {})["messaging.message.id"] for span in (enqueue, failed, completed)] == [str(handle.id)] * 3
    assert [(span.attributes or {})["asyncjobs.attempt"] for span in (failed, completed)] == [1, 2]
    assert [(span.attributes or {})["asyncjobs.outcome"] for span in (failed, completed)] == ["retry", "completed"]
    assert (failed.attributes or {})["asyncjobs.delay_seconds"] > 0  # type: ignore[operator]
    correlated = [(span.attributes or {})["messaging.message.conversation_id"] for span in (enqueue, failed, completed)]
    assert correlated == ["order-7"] * 3
    assert [span.status.status_code for span in (enqueue, failed, completed)] == [
        StatusCode.UNSET, StatusCode.ERROR, StatusCode.UNSET,
    ]  # fmt: skip
    [exception] = failed.events
    assert (exception.attributes or {})["exception.type"] == "ConnectionError"
    acks = worker.named("ack")
    assert all(ack.parent is None and ack.kind is SpanKind.CLIENT for ack in acks)
    assert {link.context.span_id for ack in acks for link in ack.links} == {context(failed).span_id, context(completed).span_id}


async def test_what_a_handler_does_and_enqueues_hangs_below_its_attempt(dsn: str) -> None:
    app = Traced(dsn)
    async with app.jobs:
        await app.charge.enqueue("child")
        await run_until_idle(app.jobs)
    parent, child = app.named("attempt charge")
    first, second = app.named("enqueue charge")
    assert first.parent is None
    assert is_child(parent, first)
    assert is_child(second, parent)
    assert is_child(child, second)


async def test_many_outcomes_that_one_call_writes_are_one_span_with_their_links(dsn: str) -> None:
    app = Traced(dsn)
    async with app.jobs:
        await app.jobs.enqueue_many([app.charge.new() for _ in range(20)])
        await run_until_idle(app.jobs)
    acks = app.named("ack")
    assert sum(len(ack.links) for ack in acks) == 20
    assert len(acks) < 20
    assert [(ack.attributes or {})["messaging.batch.message_count"] for ack in acks] == [len(ack.links) for ack in acks]
    assert len({context(span).trace_id for span in app.named("enqueue charge")}) == 20


@pytest.mark.parametrize(
    ("how", "outcomes", "code"),
    [
        ("snooze", ["snooze"], StatusCode.UNSET),
        ("cancel", ["cancel"], StatusCode.UNSET),
        ("die", ["dead"], StatusCode.ERROR),
        ("raise", ["retry", "dead"], StatusCode.ERROR),
    ],
)
async def test_status_of_an_attempt_tells_failures_from_verdicts(
    dsn: str, how: str, outcomes: list[str], code: StatusCode
) -> None:
    app = Traced(dsn)
    async with app.jobs.runner():
        await app.charge.enqueue(how)
        await app.acks(len(outcomes))
    attempts = app.named("attempt charge")
    assert [(span.attributes or {})["asyncjobs.outcome"] for span in attempts] == outcomes
    assert {span.status.status_code for span in attempts} == {code}
    assert sum(len(span.events) for span in attempts) == (2 if how == "raise" else 0)


async def test_enqueue_that_wrote_nothing_is_an_error_and_one_that_found_the_job_says_so(dsn: str) -> None:
    app = Traced(dsn)
    async with app.jobs:
        first = await app.charge.using(dedup_key="once").enqueue()
        again = await app.charge.using(dedup_key="once").enqueue()
        with pytest.raises(Exception, match="once"):
            await app.charge.using(dedup_key="once", on_duplicate="raise").enqueue()
        assert again.id == first.id
    found = [(span.attributes or {}).get("asyncjobs.created") for span in app.named("enqueue charge")]
    assert found == [True, False, None]
    assert [span.status.status_code for span in app.named("enqueue charge")] == [
        StatusCode.UNSET, StatusCode.UNSET, StatusCode.ERROR,
    ]  # fmt: skip


async def test_job_that_nobody_traced_begins_a_trace(dsn: str) -> None:
    untraced, worker = AsyncJobs(dsn), Traced(dsn)

    @untraced.stub("charge")
    async def charge(how: str) -> None: ...

    async with untraced, worker.jobs:
        await charge.enqueue(how="well")
        await run_until_idle(worker.jobs)
    [attempt] = worker.named("attempt charge")
    assert attempt.parent is None


class Renames(Hook):
    """A hook of the application's that answers another job."""

    async def before_enqueue(self, job: NewJob[Any], /) -> NewJob[Any]:
        return job.using(correlation_id="from a hook")


async def test_other_hooks_may_answer_other_jobs(dsn: str) -> None:
    app = Traced(dsn, hooks=[Renames()])
    async with app.jobs:
        await app.charge.enqueue()
        await run_until_idle(app.jobs)
    [enqueue], [attempt] = app.named("enqueue charge"), app.named("attempt charge")
    assert is_child(attempt, enqueue)
    assert (enqueue.attributes or {})["messaging.message.conversation_id"] == "from a hook"


async def test_baggage_goes_with_the_job(dsn: str) -> None:
    app = Traced(dsn)
    seen: list[object] = []

    @app.jobs.job("look")
    async def look() -> None:
        seen.append(baggage.get_baggage("tenant"))
        seen.append(structlog.contextvars.get_contextvars()["trace_id"])

    from opentelemetry import context as contexts

    async with app.jobs:
        token = contexts.attach(baggage.set_baggage("tenant", "acme"))
        await look.enqueue()
        contexts.detach(token)
        await run_until_idle(app.jobs)
    [attempt] = app.named("attempt look")
    assert seen == ["acme", trace.format_trace_id(context(attempt).trace_id)]


async def test_without_a_provider_nothing_is_recorded_and_nothing_breaks(dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    opentelemetry.setup(jobs, tracer_provider=trace.NoOpTracerProvider())

    @jobs.job("quiet")
    async def quiet() -> int:
        return 1

    async with jobs:
        handle = await quiet.enqueue()
        await run_until_idle(jobs)
        job = await jobs.get(handle.id)
    assert job is not None
    assert (job.status, job.trace_context) == ("completed", None)


@pytest.mark.parametrize("text", ["nonsense", "{", '{"traceparent": 7}', "00-0-0-00", ""])
async def test_what_is_no_trace_context_begins_a_trace(text: str) -> None:
    assert not trace.get_current_span(propagate.extract(opentelemetry._unpacked(text))).get_span_context().is_valid


def test_it_is_set_up_once() -> None:
    jobs = AsyncJobs()
    opentelemetry.setup(jobs)
    with pytest.raises(UsageError, match="already"):
        opentelemetry.setup(jobs)


async def test_attempts_that_run_at_once_have_spans_of_their_own(dsn: str) -> None:
    app = Traced(dsn)
    barrier = asyncio.Barrier(3)
    currents: dict[int, int] = {}

    @app.jobs.job("beside")
    async def beside(ctx: JobContext) -> None:
        async with asyncio.timeout(30):
            await barrier.wait()
        currents[ctx.job.id] = trace.get_current_span().get_span_context().span_id

    async with app.jobs:
        await app.jobs.enqueue_many([beside.new() for _ in range(3)])
        await run_until_idle(app.jobs)
    found = {int((span.attributes or {})["messaging.message.id"]): context(span).span_id for span in app.named("attempt beside")}  # type: ignore[arg-type]
    assert currents == found


async def test_a_workflow_is_one_trace_with_a_span_for_each_member_and_attempt(dsn: str) -> None:
    web = Traced(dsn)
    async with web.jobs:
        with web.tracer.start_as_current_span("POST /imports"):
            async with web.jobs.workflow("import") as flow:
                some = flow.add_many(web.charge.new() for _ in range(2))
                flow.add(web.charge.new(), after=some)
        await run_until_idle(web.jobs)
    [request] = web.named("POST /imports")
    enqueues, attempts = web.named("enqueue charge"), web.named("attempt charge")
    assert (len(enqueues), len(attempts)) == (3, 3)
    assert all(is_child(span, request) for span in enqueues)
    assert {context(span).trace_id for span in attempts} == {context(request).trace_id}
    assert [str((span.attributes or {})["messaging.message.id"]) for span in enqueues] == list(map(str, flow.ids))
    linked = {context(span).span_id: {link.context.span_id for link in span.links} for span in enqueues}
    first, second, last = (context(span).span_id for span in enqueues)
    assert linked == {first: set(), second: set(), last: {first, second}}


async def test_what_a_member_spawns_is_linked_to_it_and_made_once(dsn: str) -> None:
    web = Traced(dsn)

    @web.jobs.job("crawl", max_attempts=2, backoff=Backoff(0.01))
    async def crawl(ctx: JobContext) -> bool:
        [handle] = await ctx.spawn(web.charge.new())
        if ctx.attempt == 1:
            raise ConnectionError("no answer")
        return bool(handle.created)

    async with web.jobs:
        async with web.jobs.workflow("crawl") as flow:
            top = flow.add(crawl.new())
        await run_until_idle(web.jobs)
        assert await top.handle.result(timeout=5) is False
    [member] = web.named("enqueue crawl")
    first, second = web.named("enqueue charge")
    attempts = web.named("attempt crawl")
    assert [is_child(span, attempt) for span, attempt in zip((first, second), attempts, strict=True)] == [True, True]
    assert [[link.context.span_id for link in span.links] for span in (first, second)] == [[context(member).span_id]] * 2
    assert [(span.attributes or {})["asyncjobs.created"] for span in (first, second)] == [True, False]
    [charged] = web.named("attempt charge")
    assert is_child(charged, first)
