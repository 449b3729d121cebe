"""The dashboard inside a FastAPI app, seen by those who are logged in there: who may look, who may act.

Serve it with `uvicorn examples.dashboard_in_fastapi:app` and open http://127.0.0.1:8000/ops/jobs/ (user ada, password lovelace);
`python examples/dashboard_in_fastapi.py` serves it, looks at it and cancels a job there.
"""

import asyncio
import re
import secrets
import socket

import httpx
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.security import HTTPBasic

from asyncjobs import AsyncJobs
from asyncjobs.dashboard import Dashboard, Viewer

jobs = AsyncJobs("embedded://")
app = FastAPI(lifespan=jobs.lifespan)
passwords = {"ada": "lovelace", "grace": "hopper"}
operators = {"ada"}
basic = HTTPBasic()


async def who(request: Request) -> Viewer:
    """What your app knows of the request: a session, a header of your proxy, or, as here, a password."""
    given = await basic(request)  # raises HTTPException: that is the answer
    password = passwords.get(given.username if given else "")
    if given is None or password is None or not secrets.compare_digest(given.password.encode(), password.encode()):
        raise HTTPException(401, "who are you?", headers={"www-authenticate": "Basic"})
    return Viewer(given.username, may_act=given.username in operators)


app.mount("/ops/jobs", Dashboard(jobs, auth=who, title="shop"))


@jobs.job("dashboard.remind")
async def remind(customer: str) -> str:
    """Something to look at."""
    return f"reminded {customer}"


async def main() -> None:
    """Be the server and two people with browsers."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/ops/jobs"
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    async with httpx.AsyncClient(timeout=30) as client:
        print("a stranger gets", (await client.get(f"{url}/")).status_code)
        reminder = await remind.using(delay=3600).enqueue("Kim")
        page = (await client.get(f"{url}/jobs/{reminder.id}", auth=("grace", "hopper"))).text
        print("grace reads:", *re.findall(r"it is due at", page)[:1], "… and may act:", 'formaction="' in page)

    async with httpx.AsyncClient(
        timeout=30, auth=("ada", "lovelace"), headers={"origin": url.removesuffix("/ops/jobs")}
    ) as client:
        page = (await client.get(f"{url}/jobs/{reminder.id}")).text
        found = re.search(r'name="csrf" value="(\w+)"', page)
        form = {"csrf": found[1] if found else "", "id": reminder.id, "message": "Kim called", "sure": "yes"}
        await client.post(f"{url}/do/jobs/cancel", data=form)
        job = await reminder.wait(timeout=10)
        print(job.status, "since", job.error_message)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
