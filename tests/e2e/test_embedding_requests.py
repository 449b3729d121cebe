"""Requests that enqueue: in a FastAPI app under uvicorn, in test clients, and with clients that go away in the middle."""

import asyncio
import socket
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import asyncpg
import httpx
import pytest
import uvicorn
from aiohttp import web
from fastapi import FastAPI

from asyncjobs import AsyncJobs, NotOpen, Queue, WouldBlock
from asyncjobs.integrations.aiohttp import setup
from asyncjobs.runtime import points
from asyncjobs.store.database import Connection, quote_identifier
from asyncjobs.testing import run_until_idle
from tests.support.eventually import eventually, patience
from tests.support.steps import cancelled_at

with warnings.catch_warnings():  # it would rather have the successor of httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient


@asynccontextmanager
async def served(app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    """The app under uvicorn, in this process, and a client of it."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=20) as client:
            yield client
    finally:
        server.should_exit = True
        await serving


def fastapi_app(jobs: AsyncJobs) -> FastAPI:
    """An app with endpoints of both kinds."""
    app = FastAPI(lifespan=jobs.lifespan)

    @jobs.job("double")
    async def double(n: int) -> int:
        return 2 * n

    @app.get("/async/{n}")
    async def in_loop(n: int) -> int:
        return await (await double.enqueue(n)).result(timeout=10)

    @app.get("/sync/{n}")
    def in_thread(n: int) -> int:
        return double.enqueue_sync(n).id

    @app.get("/blocking")
    async def blocking() -> str:
        with pytest.raises(WouldBlock, match=r"await double\.enqueue"):
            double.enqueue_sync(1)
        return "refused"

    return app


async def test_endpoints_enqueue_from_the_loop_and_from_threads(dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)
    async with served(fastapi_app(jobs)) as client:
        assert (await client.get("/async/21")).json() == 42
        ids = [answer.json() for answer in await asyncio.gather(*(client.get(f"/sync/{n}") for n in range(20)))]
        results = [await jobs.handle(job_id).result(timeout=10) for job_id in ids]
        assert results == [2 * n for n in range(20)]
        assert (await client.get("/blocking")).json() == "refused"


async def test_lifespan_is_composed_with_the_apps_own(dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)
    happened: list[str] = []
    started = asyncio.Event()

    @jobs.job("needs the pool")
    async def work() -> None:
        started.set()
        await asyncio.sleep(0.1)
        happened.append("job ended")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[dict[str, Any]]:
        happened.append("pool opened")
        async with jobs.lifespan(app):
            happened.append("runner started")
            yield {"pool": "the pool"}
        happened.append("pool closed")

    app = FastAPI(lifespan=lifespan)

    @app.get("/")
    async def index() -> int:
        return (await work.enqueue()).id

    async with served(app) as client:
        assert (await client.get("/")).status_code == 200
        await started.wait()
    assert happened == ["pool opened", "runner started", "job ended", "pool closed"]


async def test_test_client_runs_the_lifespan_in_a_loop_of_its_own_each_time(dsn: str, schema: str) -> None:
    app = fastapi_app(AsyncJobs(dsn, schema=schema))

    def ask() -> list[int]:
        with TestClient(app) as client:
            return [client.get("/async/1").json(), client.get("/async/2").json()]

    assert await asyncio.to_thread(ask) == [2, 4]
    assert await asyncio.to_thread(ask) == [2, 4]


async def test_a_lifespan_may_leave_the_jobs_to_other_processes(dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)
    fastapi_app(jobs)  # declares
    for app in (FastAPI(lifespan=jobs.lifespan(run=False)), FastAPI(lifespan=lambda app: jobs.lifespan(app, run=False))):
        async with app.router.lifespan_context(app):
            handle = await jobs.enqueue("double", {"n": 4})
            assert jobs.runners == []
            assert not jobs.health(runs=True).is_ready
            await run_until_idle(jobs)
            assert await handle.result(timeout=5) == 8
    async with jobs.lifespan(None, run=True):
        assert len(jobs.runners) == 1


async def test_without_its_lifespan_the_app_says_what_is_missing(dsn: str, schema: str) -> None:
    app = fastapi_app(AsyncJobs(dsn, schema=schema))
    words = r'"double" was enqueued before AsyncJobs was opened\. .*Lifespans do not run for mounted .* httpx\.ASGITransport'
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        for path in ("/async/1", "/sync/1"):
            with pytest.raises(NotOpen, match=words):
                await client.get(path)
    with pytest.raises(NotOpen, match=words):
        await asyncio.to_thread(TestClient(app).get, "/async/1")  # not entered


async def test_mounted_app_says_that_its_lifespan_does_not_run(dsn: str, schema: str) -> None:
    outer = FastAPI()
    outer.mount("/inner", fastapi_app(AsyncJobs(dsn, schema=schema)))
    async with served(outer) as client:
        assert (await client.get("/inner/async/1")).status_code == 500
        with pytest.raises(NotOpen, match="Lifespans do not run for mounted"):
            await asyncio.to_thread(TestClient(outer).get, "/inner/async/1")


class Leaving:
    """An aiohttp app that ends a request's handler when its client goes away, and a client that goes at a named point."""

    def __init__(self, jobs: AsyncJobs, point: str) -> None:
        self.jobs = jobs
        self.point = point
        self.reached = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.is_leaving = False

        @jobs.job("work")
        async def work(n: int) -> int:
            return n

        self.work = work
        self.app = web.Application()
        setup(self.app, jobs)
        self.app.router.add_post("/{n}", self.post)

    async def post(self, request: web.Request) -> web.Response:
        """Enqueue, and answer with the id."""
        try:
            await self.reach("request")
            handle = await self.work.enqueue(int(request.match_info["n"]))
            await self.reach("enqueued")
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return web.json_response(handle.id)

    async def reach(self, name: str) -> None:
        """Wait at the point where the client goes away, until the handler was told."""
        if self.is_leaving and name == self.point:
            self.reached.set()
            await self.cancelled.wait()

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[str]:
        """Its address."""
        runner = web.AppRunner(self.app, handler_cancellation=True)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def leave(self, url: str) -> None:
        """Post, and go away at the point."""
        self.is_leaving = True
        async with aiohttp.ClientSession(url) as session:
            posting = asyncio.create_task(session.post("/1"))
            await self.reached.wait()
            posting.cancel()
            await asyncio.gather(posting, return_exceptions=True)
        async with patience(10):
            await self.cancelled.wait()
        self.is_leaving = False


async def payloads(connection: Connection, schema: str) -> list[int]:
    """Of all jobs, those that wait for another of their key included."""
    name = quote_identifier(schema)
    rows = await connection.fetch(f"""
        SELECT (payload ->> 'n')::int AS n FROM {name}.jobs
        ORDER BY 1
    """)
    return [row["n"] for row in rows]


async def check_no_transaction_is_open(connection: Connection) -> None:
    """Of any connection to this database but the one that asks."""

    async def none_is_open() -> bool:
        query = """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'
        """
        return not await connection.fetchval(query)

    await eventually(none_is_open, description="no transaction is open")


@pytest.mark.parametrize(
    ("point", "written"), [("request", [2]), ("enqueue.send", [1, 2]), ("enqueue.sent", [1, 2]), ("enqueued", [1, 2])]
)
async def test_client_that_goes_away_leaves_a_job_or_none(
    point: str, written: list[int], dsn: str, schema: str, connection: Connection
) -> None:
    leaving = Leaving(AsyncJobs(dsn, schema=schema), point)
    async with leaving.served() as url:
        with points.installed(leaving.reach):
            await leaving.leave(url)
        async with aiohttp.ClientSession(url) as session, session.post("/2") as answer:
            job_id = await answer.json()
        assert await leaving.work.handle(job_id).result(timeout=10) == 2  # the runner goes on
        assert await payloads(connection, schema) == written
        await check_no_transaction_is_open(connection)


@pytest.mark.parametrize("kind", ["plain", "keyed", "dedup", "many", "connection"])
async def test_enqueue_that_is_cancelled_at_any_of_its_awaits_leaves_all_or_nothing(
    kind: str, dsn: str, schema: str, connection: Connection
) -> None:
    jobs = AsyncJobs(dsn, schema=schema, queues=[Queue(concurrency=5)])

    @jobs.job("work")
    async def work(n: int) -> int:
        return n

    async def enqueue(n: int, caller: Connection) -> None:
        if kind == "many":
            await jobs.enqueue_many([work.new(n), work.new(n)])
        elif kind == "connection":
            async with caller.transaction():
                await work.using(connection=caller).enqueue(n)
        else:
            options: dict[str, Any] = {"keyed": {"serialization_key": "k"}, "dedup": {"dedup_key": str(n)}}.get(kind, {})
            await work.using(**options).enqueue(n)

    steps = 1
    async with jobs.runner():
        while True:
            caller = await asyncpg.connect(dsn)  # a new one: before its next use one that was cancelled may wait once more
            try:
                if not await cancelled_at(steps, partial(enqueue, steps, caller)):
                    break
            finally:
                caller.terminate()
            steps += 1
        await check_no_transaction_is_open(connection)
        there = await payloads(connection, schema)
    each = 2 if kind == "many" else 1
    assert {n: there.count(n) for n in there} == dict.fromkeys(there, each)
    assert steps in there
    assert steps > 1
