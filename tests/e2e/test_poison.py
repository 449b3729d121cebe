"""A hundred jobs that were lost with their process: they come back at once, and one of them that kills does so three times."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asyncjobs.model.job import Job
from asyncjobs.store.database import Connection
from tests.programs import worker
from tests.support.eventually import Stopwatch, eventually
from tests.support.program import Program

MANY = 100
PACE_SECONDS = 15.0


def a_worker(dsn: str, slots: int) -> Program:
    return Program.python("-m", "tests.programs.worker", env={"ASYNCJOBS_DSN": dsn, "CONCURRENCY": str(slots)})


@asynccontextmanager
async def a_fleet(dsn: str, *slots: int) -> AsyncGenerator[list[int]]:
    """Workers of which each is started anew when it has ended; their ends."""
    ends: list[int] = []

    async def keep(count: int) -> None:
        while True:
            async with a_worker(dsn, count) as program:
                ends.append(await program.process.wait())

    tasks = [asyncio.create_task(keep(count)) for count in slots]
    try:
        yield ends
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def ended(worker_app: Any, handles: list[Any], seconds: float) -> list[Job]:
    async with asyncio.timeout(seconds):
        return [await handle.wait(timeout=seconds) for handle in handles]


@pytest.mark.proof
async def test_what_a_killed_runner_had_is_done_within_15_seconds_of_its_rescue(
    worker_app: Any, dsn: str, connection: Connection
) -> None:
    handles = await worker_app.enqueue_many([worker.nap.new(seconds=1.0) for _ in range(MANY)])
    async with a_worker(dsn, 200) as first:
        await eventually(lambda: first.said.count("attempt 1") == MANY, description="all run")
        first.kill()
    async with a_fleet(dsn, 100, 100):
        await eventually(lambda: rescued(connection), description="they are taken back", timeout=20)
        watch = Stopwatch()
        jobs = await ended(worker_app, handles, 60)
    assert watch.stop() < PACE_SECONDS
    assert {(job.status, job.attempts, job.rescues) for job in jobs} == {("completed", 2, 1)}


async def rescued(connection: Connection) -> bool:
    return bool(await connection.fetchval("SELECT min(rescues) > 0 FROM asyncjobs.jobs"))


@pytest.mark.proof
async def test_job_that_kills_its_process_kills_three_and_its_neighbours_lose_one_attempt(worker_app: Any, dsn: str) -> None:
    calls = [worker.nap.new(seconds=1.0) for _ in range(MANY)]
    *handles, poison = await worker_app.enqueue_many([*calls, worker.die.new()])
    async with a_worker(dsn, 200) as first:
        assert await first.wait() == 1
    async with a_fleet(dsn, 100, 100) as ends:
        [killer] = await ended(worker_app, [poison], 300)
        jobs = await ended(worker_app, handles, 60)
        assert ends == [1, 1]
    assert (killer.status, killer.attempts, killer.error_message) == ("dead", 3, killer.last_error)
    assert {job.status for job in jobs} == {"completed"}
    assert max(job.attempts for job in jobs) == 2
