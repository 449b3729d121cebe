"""One trace from a request over its enqueue to every attempt of the job, whatever process runs it.

Run it with `python examples/tracing.py`; it needs `opentelemetry-sdk`. Yours will have an OTLP exporter in place of the list.
"""

import asyncio

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from asyncjobs import AsyncJobs, Backoff, JobContext
from asyncjobs.integrations import opentelemetry

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))

jobs = AsyncJobs("embedded://")
opentelemetry.setup(jobs, tracer_provider=provider)  # leave the provider out for the global one


@jobs.job("tracing.charge", backoff=Backoff(0.05))
async def charge(ctx: JobContext, cents: int) -> int:
    """Gets no answer at first."""
    if ctx.attempt == 1:
        raise ConnectionError("no answer")
    with provider.get_tracer("shop").start_as_current_span("ask the bank"):
        return cents


def tree(spans: list[ReadableSpan], parent: int | None = None, depth: int = 0) -> None:
    """Print the spans below one."""
    for span in spans:
        if span.context and (span.parent.span_id if span.parent else None) == parent:
            outcome = (span.attributes or {}).get("asyncjobs.outcome", "")
            print(f"{'  ' * depth}{span.name} {outcome}".rstrip())
            tree(spans, span.context.span_id, depth + 1)


async def main() -> None:
    """Take a request, and look at its trace when all is done."""
    async with jobs.runner(), asyncio.timeout(20):
        with provider.get_tracer("shop").start_as_current_span("POST /orders") as request:
            handle = await charge.enqueue(1_500)
        await handle.wait()
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
    trace_id = request.get_span_context().trace_id
    tree([span for span in spans if span.context and span.context.trace_id == trace_id])
    print("linked by acks:", sum(len(span.links) for span in spans if span.name == "ack"))


if __name__ == "__main__":
    asyncio.run(main())
