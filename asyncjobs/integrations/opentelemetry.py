"""Traces for OpenTelemetry: one trace from the request that enqueued a job to the last of its attempts, across processes.

1. `enqueue TYPE` (producer) begins before the job is written and ends when it is, a child of whatever span is current there. Its
   context is written into the job's row by the propagators that the app has set (W3C trace context by default), so it is there
   with the job: for every process, through retries, restarts and requeues from the dead letters. That of a workflow's member is
   linked to those of the members that it waits for; that of one that a member spawns, to that member's: what waits for the one
   waits for the other, too.
2. `attempt TYPE` (consumer) is a child of that enqueue, however many attempts there are. It is current while the handler runs, so
   what the handler does, and what it enqueues, hangs below it. A job that nobody traced (a tick of a schedule) begins a trace.
3. An attempt that failed has the exception and the status ERROR; `asyncjobs.outcome` tells a retry (and its delay) from the end.
   A snooze, a cancellation or an interruption is no error.
4. `ack` (client) is one call that wrote outcomes, linked to the attempts whose outcomes these are: many share one call.

An attempt that dies with its process leaves no span. Ids in the logs of a traced attempt: `trace_id`, `span_id`.
"""

import time
from collections.abc import Mapping
from importlib.metadata import version
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
import structlog
from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

from asyncjobs.app import AsyncJobs
from asyncjobs.declare.definition import NewJob
from asyncjobs.declare.hooks import Hook
from asyncjobs.declare.upstream import MemberPlace, Spawner
from asyncjobs.errors import UsageError
from asyncjobs.telemetry.events import AcksWritten, AttemptEnded, AttemptStarted

if TYPE_CHECKING:
    from asyncjobs.handles import JobHandle

_FAILED: Final = frozenset({"retry", "dead"})
#: Attempts that ended and whose ack is awaited. More than a runner can have: what is acked otherwise must not gather here.
_MOST_UNACKED: Final = 10_000
_MOST_LINKS: Final = 100


def setup(jobs: AsyncJobs, /, *, tracer_provider: TracerProvider | None = None) -> None:
    """Trace what `jobs` enqueues from now on, and what its runners run that start after this.

    Without a provider spans go to the global one, once that is set; until then contexts are passed on and nothing is recorded.
    UsageError when it is traced already.
    """
    if any(isinstance(hook, _Enqueues) for hook in jobs.hooks.enqueue):
        raise UsageError("setup() was called for this AsyncJobs already: its spans would be there twice.")
    tracer = trace.get_tracer("asyncjobs", version("asyncjobs"), tracer_provider)
    jobs.hooks = jobs.hooks.with_innermost(_Enqueues(tracer))
    attempts = _Attempts(tracer)
    jobs.events.subscribe(attempts.started, AttemptStarted)
    jobs.events.subscribe(attempts.ended, AttemptEnded)
    jobs.events.subscribe(attempts.acked, AcksWritten)


@final
class _Enqueues(Hook):
    """Spans of enqueues. The innermost hook: the job that it answers is the one that is written, the very object."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer
        self._spans: dict[int, Span] = {}  # by the identity of that job, which lives until it is written
        self._members: dict[tuple[int, int], Span] = {}  # by the identity of their workflow, and by their numbers

    async def before_enqueue(self, job: NewJob[Any], /) -> NewJob[Any]:
        """Begin a span, and give its context to the row."""
        row = job.row
        place = _place_of(job)
        span = self._tracer.start_span(
            f"enqueue {row.type}", kind=SpanKind.PRODUCER, links=_links_of_spawned(job) if place is None else self._links(place),
            attributes=_attributes("send", row.type, row.queue, row.correlation_id),
        )  # fmt: skip
        if place is not None:
            self._members[id(place.flow), place.number] = span
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        traced: NewJob[Any] = NewJob(job.handler, msgspec.structs.replace(row, trace_context=_packed(carrier)), job.connection)
        self._spans[id(traced)] = span
        return traced

    def _links(self, place: MemberPlace) -> list[Link]:
        """To the members that it waits for, the first hundred: spans drop what is more."""
        numbers = islice((number for first, last in place.waits for number in range(first, last + 1)), _MOST_LINKS)
        spans = [self._members.get((id(place.flow), number)) for number in numbers]
        return [Link(span.get_span_context()) for span in spans if span is not None and span.get_span_context().is_valid]

    async def after_enqueue(self, job: NewJob[Any], /, handle: "JobHandle[Any] | None", error: BaseException | None) -> None:
        """End it."""
        span = self._spans.pop(id(job))
        if (place := _place_of(job)) is not None:
            del self._members[id(place.flow), place.number]
        if handle is not None:
            span.set_attributes({"messaging.message.id": str(handle.id), "asyncjobs.created": handle.created})
        _end(span, error, None if handle is not None else "nothing was written")


def _links_of_spawned(job: NewJob[Any]) -> list[Link]:
    found = [
        trace.get_current_span(propagate.extract(_unpacked(one.trace_context), Context())).get_span_context()
        for one in job.row.takes
        if isinstance(one, Spawner)
    ]
    return [Link(one) for one in found if one.is_valid]


def _place_of(job: NewJob[Any]) -> MemberPlace | None:
    return next((one for one in job.row.takes if isinstance(one, MemberPlace)), None)


@final
class _Attempts:
    """Spans of attempts and of the calls that write their outcomes."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer
        self._running: dict[int, Span] = {}  # by token, as all below
        self._unacked: dict[int, SpanContext] = {}

    def started(self, event: AttemptStarted) -> None:
        """Begin a span, current from now on in the attempt's task, in which this is called."""
        parent = propagate.extract(_unpacked(event.trace_context), Context())
        attributes = _attributes("process", event.type, event.queue, event.correlation_id) | {
            "messaging.message.id": str(event.job_id),
            "asyncjobs.attempt": event.attempt,
            "asyncjobs.queued_seconds": event.queued_seconds,
        }
        if event.serialization_key is not None:
            attributes["asyncjobs.serialization_key"] = event.serialization_key
        span = self._tracer.start_span(f"attempt {event.type}", parent, SpanKind.CONSUMER, attributes)
        self._running[event.token] = span
        contexts.attach(trace.set_span_in_context(span, parent))
        found = span.get_span_context()
        if found.is_valid:
            ids = {"trace_id": trace.format_trace_id(found.trace_id), "span_id": trace.format_span_id(found.span_id)}
            structlog.contextvars.bind_contextvars(**ids)

    def ended(self, event: AttemptEnded) -> None:
        """End it. One whose task was cancelled before its first step has none."""
        span = self._running.pop(event.token, None)
        if span is None:
            return
        self._unacked[event.token] = span.get_span_context()
        if len(self._unacked) > _MOST_UNACKED:
            del self._unacked[next(iter(self._unacked))]
        span.set_attribute("asyncjobs.outcome", event.outcome)
        if event.outcome in {"retry", "snooze"}:
            span.set_attribute("asyncjobs.delay_seconds", event.delay_seconds)
        is_failed = event.outcome in _FAILED
        _end(span, event.error if is_failed else None, (event.message or event.outcome) if is_failed else None)

    def acked(self, event: AcksWritten) -> None:
        """A span of a call that has just ended."""
        found = (self._unacked.pop(token, None) for token in event.tokens)
        links = [Link(one) for one in found if one is not None and one.is_valid]
        if links:
            began_ns = time.time_ns() - int(event.seconds * 1e9)
            attributes: dict[str, AttributeValue] = {
                "messaging.system": "asyncjobs",
                "messaging.batch.message_count": len(event.tokens),
            }
            self._tracer.start_span("ack", Context(), SpanKind.CLIENT, attributes, links, began_ns).end()


def _attributes(operation: str, type: str, queue: str, correlation_id: str | None) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        "messaging.system": "asyncjobs",
        "messaging.operation.type": operation,
        "messaging.destination.name": queue,
        "asyncjobs.type": type,
    }
    if correlation_id is not None:
        attributes["messaging.message.conversation_id"] = correlation_id
    return attributes


def _end(span: Span, error: BaseException | None, failure: str | None) -> None:
    try:
        if error is not None:
            span.record_exception(error)
        if failure is not None:
            span.set_status(Status(StatusCode.ERROR, failure))
    finally:  # an exception whose str() fails
        span.end()


def _packed(carrier: Mapping[str, str]) -> str | None:
    """What goes into the row: the traceparent as it is, if there is nothing else; None, if there is nothing at all."""
    if list(carrier) == ["traceparent"]:
        return carrier["traceparent"]
    return msgspec.json.encode(carrier).decode() if carrier else None


def _unpacked(trace_context: str | None) -> Mapping[str, str]:
    """The carrier again. What something else wrote there is no context."""
    if trace_context is None or not trace_context.startswith("{"):
        return {} if trace_context is None else {"traceparent": trace_context}
    try:
        return msgspec.json.decode(trace_context, type=dict[str, str])
    except (msgspec.DecodeError, RecursionError):
        return {}
