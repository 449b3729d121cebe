"""Jobs inside a FastAPI app: the runner starts and stops with the app, endpoints enqueue.

Serve it with `uvicorn examples.fastapi_app:app`; `python examples/fastapi_app.py` serves it, asks it and stops it.
"""

import asyncio
import socket
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from asyncjobs import AsyncJobs, JobContext

jobs = AsyncJobs("embedded://")
app = FastAPI(lifespan=jobs.lifespan)


class Order(BaseModel):
    """A job's parameters may be models: what does not fit is refused when it is enqueued."""

    customer: str
    amounts: list[int]


@jobs.job("fastapi.bill")
async def bill(ctx: JobContext, order: Order) -> int:
    """Runs in the background, up to ten at a time."""
    ctx.log.info("billing", customer=order.customer)
    return sum(order.amounts)


@app.post("/orders", status_code=202)
async def place(order: Order) -> dict[str, int]:
    """The job is in the database when this answers."""
    return {"job_id": (await bill.enqueue(order=order)).id}


@app.post("/orders/blocking", status_code=202)
def place_in_thread(order: Order) -> dict[str, int]:
    """FastAPI runs a plain `def` endpoint in a thread: there it is enqueue_sync."""
    return {"job_id": bill.enqueue_sync(order=order).id}


@app.get("/jobs/{job_id}")
async def show(job_id: int) -> dict[str, Any]:
    """How far a job got."""
    if (job := await jobs.get(job_id)) is None:
        raise HTTPException(404, f"job {job_id} is unknown")
    return {"status": job.status, "result": job.result}


async def main() -> None:
    """Be the server and its client."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        for path in ("/orders", "/orders/blocking"):
            job_id = (await client.post(path, json={"customer": "Ada", "amounts": [40, 2]})).json()["job_id"]
            await jobs.handle(job_id).wait(timeout=10)
            job = (await client.get(f"/jobs/{job_id}")).json()
            print(path, job)
            assert job == {"status": "completed", "result": 42}
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
