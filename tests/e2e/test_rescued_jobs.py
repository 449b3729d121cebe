"""Jobs that were taken back from a dead runner: one at a time, and nothing waits longer for it than it must."""

import asyncio

from asyncjobs import AsyncJobs
from asyncjobs.store.database import Connection, Database, quote_identifier


async def test_rescued_jobs_follow_each_other_without_a_poll(database: Database, connection: Connection) -> None:
    jobs = AsyncJobs(database.dsn, schema=database.schema, poll_interval=300)
    running = most = 0

    @jobs.job("any")
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)  # long enough for another to be seen beside it
        running -= 1

    async with jobs:
        handles = await jobs.enqueue_many([work.new() for _ in range(20)])
        await connection.execute(f"UPDATE {quote_identifier(database.schema)}.jobs SET rescues = 1")
        async with jobs.runner():
            ended = [await handle.wait(timeout=10) for handle in handles]
    assert {job.status for job in ended} == {"completed"}
    assert most == 1
