"""The app: accepts events over HTTP and delivers each in a background job, all in one uvicorn process.

A 202 means that the event is in the database: it will be delivered, or end in the dead letters, whatever happens to this process.
An event that is posted twice is delivered once: its id is the job's dedup key. Each destination gets its events one at a time
and in order: its name is the jobs' serialization key.

On its own: `ASYNCJOBS_DSN=embedded:// WEBHOOKS_RECEIVER=http://127.0.0.1:9000 uvicorn examples.webhooks.app:app`.
"""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import uvicorn
from aiohttp import ClientSession, ClientTimeout
from fastapi import FastAPI
from pydantic import BaseModel

from asyncjobs import AsyncJobs, Backoff, Dead, JobContext, Queue
from examples.webhooks.children import end_with_parent, listening_socket

RECEIVER = os.environ.get("WEBHOOKS_RECEIVER", "http://127.0.0.1:9000")


class Event(BaseModel):
    """Something that happened in the shop, and where it is to be reported."""

    id: str
    type: str
    destination: str
    happened_at: str
    data: dict[str, Any]


class Accepted(BaseModel):
    """The answer to a posted event. `created` is False when the event was known already."""

    job_id: int
    created: bool


# The database is named by $ASYNCJOBS_DSN. A runner that is silent for 5 s counts as dead: short, so that the demo's kill -9 is
# made good within seconds.
jobs = AsyncJobs(queues=[Queue("webhooks", concurrency=32)], heartbeat=1, runner_timeout=5, rescue_interval=1)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Open the HTTP client before the runner starts and close it after the runner stopped: deliveries need it."""
    async with ClientSession(timeout=ClientTimeout(total=5)) as app.state.http, jobs.lifespan(app):
        yield


app = FastAPI(lifespan=lifespan)


@jobs.job("deliver", queue="webhooks", timeout=10, max_attempts=4, backoff=Backoff(0.1, maximum=1))
async def deliver(ctx: JobContext, event: Event) -> int | Dead:
    """Report the event to its destination. Whatever is not a success is tried again, but not at an address that is gone."""
    http: ClientSession = app.state.http
    headers = {"Idempotency-Key": event.id, "X-Job": str(ctx.job.id), "X-Attempt": str(ctx.attempt)}
    async with http.post(f"{RECEIVER}/{event.destination}", json=event.model_dump(), headers=headers) as answer:
        if answer.status == HTTPStatus.GONE:
            return Dead(f"{event.destination} is gone")
        answer.raise_for_status()
        return answer.status


@deliver.serialize_by
def destination_of(event: Event) -> str:
    """What deliveries must not do at the same time, or out of order: report to one destination."""
    return event.destination


@app.post("/events", status_code=HTTPStatus.ACCEPTED)
async def accept(event: Event) -> Accepted:
    """Take an event. Its id stays taken for an hour, so posting it again does no harm."""
    once = deliver.using(dedup_key=event.id, dedup_for=timedelta(hours=1), correlation_id=event.id)
    handle = await once.enqueue(event=event)
    return Accepted(job_id=handle.id, created=handle.created)


@app.get("/health")
async def health() -> dict[str, bool]:
    """Whether deliveries are being made."""
    return {"ready": jobs.health().is_ready}


def main() -> None:
    """Serve on the socket that the demo hands down; end when the demo does."""
    end_with_parent()
    server = uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning", timeout_graceful_shutdown=5))
    server.run(sockets=[listening_socket(*map(int, sys.argv[1:]))])


if __name__ == "__main__":
    main()
