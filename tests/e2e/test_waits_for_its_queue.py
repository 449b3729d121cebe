"""Handlers that wait for jobs of their own queue: told at once, or refused, and seen by the doctor."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from asyncjobs import AsyncJobs, JobDied, JobRouter, Lane, Queue
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import HandlerWaitsForItsQueue
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually, patience

ROUTER = JobRouter()
STARTED: list[None] = []


@ROUTER.job("child", max_attempts=1)
async def child() -> int:
    STARTED.append(None)
    await asyncio.sleep(0.2)  # it still runs when its parent begins to wait
    return 7


@ROUTER.job("parent", max_attempts=1)
async def parent(queue: str, lane: str | None, key: str | None) -> int:
    return await (await child.using(queue=queue, lane=lane, serialization_key=key).enqueue()).result()


@ROUTER.job("late", max_attempts=1)
async def late() -> int:
    """Begins to wait when the other job runs."""
    STARTED.clear()
    handle = await child.enqueue()
    await eventually(lambda: STARTED, description="the child runs", interval=0.001)
    return await handle.result()


def an_app(dsn: str, concurrency: int) -> AsyncJobs:
    queues = [Queue("default", concurrency=concurrency, lanes={"kept": Lane(1)}), Queue("other")]
    return AsyncJobs(dsn, queues=queues, routers=[ROUTER], grace=0)


@pytest.fixture
async def app(dsn: str) -> AsyncGenerator[AsyncJobs]:
    async with an_app(dsn, 4) as jobs, jobs.runner():
        yield jobs


async def test_a_wait_for_a_job_of_the_same_queue_is_told_once(app: AsyncJobs, recorder: Recorder) -> None:
    for _ in range(2):
        async with patience(5):
            assert await (await parent.enqueue("default", None, None)).result() == 7
    (event,) = recorder.of(HandlerWaitsForItsQueue)
    assert (event.type, event.queue, event.awaited_type) == ("parent", "default", "child")


async def test_a_wait_for_a_job_of_the_same_queue_is_told_although_that_runs_already(app: AsyncJobs, recorder: Recorder) -> None:
    """It had a slot this time; and it would need one again for its next attempt."""
    async with patience(5):
        assert await (await late.enqueue()).result() == 7
    (event,) = recorder.of(HandlerWaitsForItsQueue)
    assert (event.type, event.awaited_type) == ("late", "child")


@pytest.mark.parametrize(("queue", "lane"), [("other", None), ("default", "kept")])
async def test_a_wait_for_a_job_with_slots_of_its_own_is_not_told(
    app: AsyncJobs, recorder: Recorder, queue: str, lane: str | None
) -> None:
    async with patience(5):
        assert await (await parent.enqueue(queue, lane, None)).result() == 7
    assert not recorder.of(HandlerWaitsForItsQueue)


async def test_a_wait_for_a_job_behind_the_own_key_is_refused(app: AsyncJobs) -> None:
    handle = await parent.using(serialization_key="k").enqueue("default", None, "k")
    async with patience(5):
        with pytest.raises(JobDied, match="starts only when it has ended"):
            await handle.result()


@pytest.mark.unaudited("its jobs wait for ever")
async def test_the_doctor_names_a_queue_all_of_whose_slots_wait_for_it(dsn: str, connection: Connection) -> None:
    async with an_app(dsn, 3) as jobs, jobs.runner():
        await jobs.enqueue_many([parent.new("default", None, None)] * 2)
        children = "SELECT count(*) FROM asyncjobs.jobs WHERE type = 'child' AND status = 'pending'"

        async def starved() -> bool:
            return bool(await connection.fetchval(children) == 2)

        await eventually(starved, description="both slots wait")
        assert "a queue waits for itself" not in {one.what for one in await jobs.admin.doctor()}, "it may be a moment"
        await connection.execute("UPDATE asyncjobs.jobs SET started_at = now() - interval '31 s' WHERE type = 'parent'")
        (symptom,) = [one for one in await jobs.admin.doctor() if one.what == "a queue waits for itself"]
        assert symptom.evidence.startswith("default: 2 jobs hold its 2 slots")
