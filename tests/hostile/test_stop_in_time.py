"""A stop takes its grace and a second at most, however many attempts run, and wherever the database is (P10)."""

import asyncio
from typing import Any

import pytest

from asyncjobs import AsyncJobs, AsyncJobsError, Queue
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import AttemptStarted, RunnerStopped
from asyncjobs.testing import Proxy, Recorder
from tests.support.eventually import Stopwatch, eventually

pytestmark = pytest.mark.hurried

GRACE_SECONDS = 0.3
MANY = 1000


async def stop_with(jobs: AsyncJobs, job: Any, count: int, recorder: Recorder, trouble: Any) -> float:
    """The seconds that a stop takes while so many attempts run and this happens."""
    async with jobs.runner(grace=GRACE_SECONDS):
        await jobs.enqueue_many([job.new() for _ in range(count)])
        await eventually(lambda: len(recorder.of(AttemptStarted)) == count, description="all run", timeout=60)
        trouble()
        watch = Stopwatch()
    return watch.stop()


def an_app(dsn: str, count: int) -> tuple[AsyncJobs, Any]:
    """An app, and a job that would go on for an hour."""
    jobs = AsyncJobs(dsn, queues=[Queue(concurrency=count)])

    @jobs.job("long")
    async def long() -> None:
        await asyncio.sleep(3600)

    return jobs, long


@pytest.mark.proof
async def test_thousand_attempts_are_given_back(proxy: Proxy, recorder: Recorder, connection: Connection) -> None:
    jobs, long = an_app(proxy.dsn, MANY)
    assert await stop_with(jobs, long, MANY, recorder, lambda: None) <= GRACE_SECONDS + 1
    rows = await connection.fetch("SELECT status, attempts, count(*) FROM asyncjobs.jobs GROUP BY 1, 2")
    assert [tuple(row) for row in rows] == [("pending", 0, MANY)]
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.runners") == 0


@pytest.mark.proof
@pytest.mark.parametrize("trouble", ["silent", "down"])
@pytest.mark.unaudited("the jobs are left to the rescue")
async def test_thousand_attempts_are_left_to_the_rescue(proxy: Proxy, recorder: Recorder, trouble: str) -> None:
    jobs, long = an_app(proxy.dsn, MANY)
    assert await stop_with(jobs, long, MANY, recorder, lambda: go_away(proxy, trouble)) <= GRACE_SECONDS + 1
    [stopped] = recorder.of(RunnerStopped)
    assert len(stopped.abandoned_job_ids) == MANY


@pytest.mark.parametrize("enqueues", [False, True], ids=["alone", "beside an enqueue"])
@pytest.mark.parametrize("trouble", ["silent", "down"])
@pytest.mark.unaudited("the job is left to the rescue")
async def test_handler_that_ignores_its_end_while_the_database_is_away(
    proxy: Proxy, recorder: Recorder, connection: Connection, trouble: str, *, enqueues: bool
) -> None:
    jobs = AsyncJobs(proxy.dsn)
    end = asyncio.Event()
    unanswered: list[asyncio.Task[Any]] = []

    def goes_away() -> None:
        go_away(proxy, trouble)
        if enqueues:
            unanswered.append(asyncio.create_task(stubborn.enqueue()))

    @jobs.job("stubborn")
    async def stubborn() -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    try:
        assert await stop_with(jobs, stubborn, 1, recorder, goes_away) <= GRACE_SECONDS + 1
    finally:
        end.set()
    assert all(isinstance(answer, AsyncJobsError) for answer in await asyncio.gather(*unanswered, return_exceptions=True))
    [stopped] = recorder.of(RunnerStopped)
    [row] = await connection.fetch("SELECT id, status, attempts FROM asyncjobs.jobs")
    assert stopped.abandoned_job_ids == [row["id"]]
    assert (row["status"], row["attempts"]) == ("processing", 1)


def go_away(proxy: Proxy, trouble: str) -> None:
    if trouble == "silent":
        proxy.black_hole()
    else:
        proxy.refuse()
        proxy.reset()
