"""A runner that stops while a claim is under way leaves none of its jobs behind."""

import asyncio

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.runtime import points
from asyncjobs.store.database import Connection, Database, quote_identifier


@pytest.mark.parametrize("point", ["finish.send", "finish.sent"])
async def test_jobs_claimed_while_the_runner_stops_are_given_back(database: Database, connection: Connection, point: str) -> None:
    jobs = AsyncJobs(database.dsn, schema=database.schema)
    claiming, stopping = asyncio.Event(), asyncio.Event()

    @jobs.job("any")
    async def work() -> None: ...

    async def wait_for_the_stop(name: str) -> None:
        if name == point and not stopping.is_set():
            claiming.set()
            await stopping.wait()

    async with jobs:
        handles = await jobs.enqueue_many([work.new() for _ in range(5)])
        with points.installed(wait_for_the_stop):
            async with jobs.runner() as runner:
                await claiming.wait()
                stop = asyncio.create_task(runner.stop())
                await asyncio.sleep(0)  # the stop has begun: it stops claiming before it first waits
                stopping.set()
                await stop
        rows = await connection.fetch(f"SELECT status, attempts, runner_id FROM {quote_identifier(database.schema)}.jobs")
    assert {tuple(row) for row in rows} == {("pending", 0, None)}
    assert len(rows) == len(handles)
