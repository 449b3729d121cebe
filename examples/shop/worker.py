"""A worker: `python -m shop.worker` runs the shop's jobs until SIGTERM, and answers `/live` and `/ready` on port 8080."""

import asyncio
import os

from asyncjobs.integrations.probes import serve_probes
from asyncjobs.telemetry.logs import configure_logs

from .jobs import jobs

if __name__ == "__main__":
    configure_logs("json")
    with serve_probes(jobs, port=int(os.environ.get("PROBES_PORT", "8080"))):
        asyncio.run(jobs.run())
