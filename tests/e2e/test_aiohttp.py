"""Jobs in an aiohttp app: opened with it, closed with it, in the order that handlers need."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web

from asyncjobs import AsyncJobs, DatabaseUnavailable, NotOpen, UsageError
from asyncjobs.integrations.aiohttp import JOBS, setup


@asynccontextmanager
async def served(app: web.Application) -> AsyncGenerator[ClientSession]:
    runner = web.AppRunner(app)
    try:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:
            yield session
    finally:
        await runner.cleanup()


async def test_request_handler_enqueues_and_the_runner_runs_it(dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)
    app = web.Application()
    setup(app, jobs)

    @jobs.job("double")
    async def double(n: int) -> int:
        return 2 * n

    async def index(request: web.Request) -> web.Response:
        handle = await request.app[JOBS].enqueue(double.new(21))
        return web.json_response(await handle.result(timeout=10))

    app.router.add_get("/", index)
    async with served(app) as session, session.get("/") as answer:
        assert await answer.json() == 42


async def test_runner_stops_before_what_was_registered_before_it_is_cleaned_up(dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)
    happened: list[str] = []
    started = asyncio.Event()

    @jobs.job("slow")
    async def slow() -> None:
        started.set()
        await asyncio.sleep(0.2)
        happened.append("job ended")

    async def pool(app: web.Application) -> AsyncIterator[None]:
        yield
        happened.append("pool closed")

    app = web.Application()
    app.cleanup_ctx.append(pool)
    setup(app, jobs)
    async with served(app):
        await slow.enqueue()
        await started.wait()
    assert happened == ["job ended", "pool closed"]


async def test_runner_stops_although_a_later_cleanup_fails(dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)

    @jobs.job("any")
    async def work() -> None: ...

    async def failing(app: web.Application) -> AsyncIterator[None]:
        yield
        raise asyncio.CancelledError

    app = web.Application()
    setup(app, jobs)
    app.cleanup_ctx.append(failing)
    with pytest.raises(asyncio.CancelledError):
        async with served(app):
            pass
    with pytest.raises(NotOpen):
        await work.enqueue()


async def test_app_with_run_false_only_enqueues(dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)

    @jobs.job("any")
    async def work() -> str:
        return "ran"

    app = web.Application()
    setup(app, jobs, run=False)
    async with served(app):
        handle = await work.enqueue()
        job = await jobs.get(handle.id)
        assert job is not None
        assert job.status == "pending"
        async with jobs.runner():
            assert await handle.result(timeout=10) == "ran"


async def test_app_does_not_start_without_its_database() -> None:
    app = web.Application()
    setup(app, AsyncJobs("postgresql://nobody@127.0.0.1:1/nothing", connect_timeout=0.2))
    with pytest.raises(DatabaseUnavailable):
        async with served(app):
            pass


async def test_second_setup_of_an_app_is_refused() -> None:
    app = web.Application()
    setup(app, AsyncJobs("embedded://"))
    with pytest.raises(UsageError, match="already"):
        setup(app, AsyncJobs("embedded://"))


async def test_app_can_be_started_again(dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)

    @jobs.job("any")
    async def work() -> str:
        return "ran"

    for _ in range(2):
        app = web.Application()
        setup(app, jobs)
        async with served(app):
            assert await (await work.enqueue()).result(timeout=10) == "ran"
