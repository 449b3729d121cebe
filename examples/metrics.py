"""Metrics for Prometheus: what a scrape gets, parsed and printed.

Run it with `python examples/metrics.py`. Serve them with `prometheus_client.start_http_server(9000)`, or mount
`prometheus_client.make_asgi_app()` in your app. Alert rules and a Grafana dashboard are in `examples/monitoring/`.
"""

import asyncio

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from asyncjobs import AsyncJobs, Dead, Queue
from asyncjobs.integrations import prometheus

jobs = AsyncJobs("embedded://", queues=[Queue("metrics", concurrency=4, lanes={"fast": 1})])
registry = CollectorRegistry()  # or the client's own: leave it out
prometheus.setup(jobs, registry=registry, sample_every=0.2)


@jobs.job("metrics.square", queue="metrics")
async def square(number: int) -> int | Dead:
    """Does not like negative numbers."""
    return number * number if number >= 0 else Dead("negative")


def scrape(name: str, **labels: str) -> float | None:
    """The sum of a metric's samples with these labels, None when there are none."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    found = [sample.value for sample in samples if labels.items() <= sample.labels.items()]
    return sum(found) if found else None


async def main() -> None:
    """Run ten jobs and look at what they did."""
    async with jobs.runner(), asyncio.timeout(20):
        handles = await jobs.enqueue_many([square.new(number) for number in range(-2, 8)])
        await asyncio.gather(*(handle.wait() for handle in handles))
        await square.using(delay=3600).enqueue(9)
        while scrape("asyncjobs_jobs", type="metrics.square", status="scheduled") != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # the database is sampled now and then
        print("completed:", scrape("asyncjobs_attempts_total", type="metrics.square", outcome="completed"))
        print("dead:", scrape("asyncjobs_attempts_total", type="metrics.square", outcome="dead"))
        print("run times:", scrape("asyncjobs_run_seconds_count", type="metrics.square"))
        print(
            "slots:",
            scrape("asyncjobs_slots", queue="metrics", lane="fast"),
            "fast,",
            scrape("asyncjobs_slots", lane=""),
            "general",
        )
        print("scheduled:", scrape("asyncjobs_jobs", type="metrics.square", status="scheduled"))
        await jobs.admin.cancel_all(type="metrics.square")


if __name__ == "__main__":
    asyncio.run(main())
