"""A worker for containers: runs jobs, answers probes, serves metrics, logs JSON lines, and ends within its grace when it is told.

`docker-compose.yml` and `kubernetes/` start it, after `asyncjobs migrate`, which brings the schema up to date.
"""

import asyncio
import os

from prometheus_client import start_http_server

from asyncjobs import AsyncJobs, Queue
from asyncjobs.integrations import prometheus
from asyncjobs.integrations.probes import serve_probes
from asyncjobs.telemetry.logs import configure_logs

PROBES_PORT = int(os.environ.get("PROBES_PORT", "8080"))
METRICS_PORT = int(os.environ.get("METRICS_PORT", "9000"))

jobs = AsyncJobs(queues=[Queue("default", concurrency=10)], connect_timeout=None)  # where: $ASYNCJOBS_DSN, however late it is
prometheus.setup(jobs)


@jobs.job("worker.greet")
async def greet(name: str) -> str:
    """Stands for your handlers."""
    return f"Hello, {name}!"


async def main() -> None:
    """Run until SIGTERM."""
    metrics, _ = start_http_server(METRICS_PORT)
    try:
        with serve_probes(jobs, port=PROBES_PORT):
            await jobs.run()
    finally:
        metrics.shutdown()
        metrics.server_close()


if __name__ == "__main__":
    configure_logs("json")
    asyncio.run(main())
