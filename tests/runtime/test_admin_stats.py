"""How things are, in one look: counts, the oldest pending job, and slots in use."""

import asyncio

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.store.database import Connection
from asyncjobs.store.overview import LaneUse
from asyncjobs.telemetry.events import AttemptStarted
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually, patience
from tests.support.factories import insert_job, insert_runner, insert_waiting


async def test_stats_say_how_much_there_is_and_how_far_lanes_are_used(
    dsn: str, connection: Connection, recorder: Recorder
) -> None:
    app = AsyncJobs(dsn, queues=[Queue("default", concurrency=3, lanes={"fast": 1})])
    go = asyncio.Event()

    @app.job("wait", lane="fast")
    async def wait(number: int) -> None:
        await go.wait()

    async with app.runner() as runner:
        nothing = await app.admin.stats()
        assert (nothing.pending, nothing.oldest_pending_age, nothing.dead_letters) == (0, None, 0)
        assert nothing.lanes == [LaneUse("default", None, runner.id, 2, 0), LaneUse("default", "fast", runner.id, 1, 0)]
        handles = [await wait.enqueue(number) for number in range(4)]
        await wait.using(delay=3600).enqueue(4)
        async with patience(20):
            while len(recorder.of(AttemptStarted)) < 3:
                await asyncio.sleep(0.01)
        busy = await app.admin.stats()
        assert (busy.pending, busy.processing, busy.scheduled, busy.failed, busy.waiting) == (1, 3, 1, 0, 0)
        assert busy.oldest_pending_age is not None
        assert [lane.utilisation for lane in busy.lanes] == [0.0, 3.0]
        assert busy.lanes == [LaneUse("default", None, runner.id, 2, 0), LaneUse("default", "fast", runner.id, 1, 3)]
        await app.admin.pause(type="wait")

        async def held() -> bool:  # rows that the runner's own duty is moving are left to it
            now = await app.admin.stats()
            return (now.pending, now.paused, now.processing) == (0, 1, 3)

        await eventually(held, description="the job that waits is held back")
        assert [(one.status, one.count) for one in (await app.admin.stats()).counts if one.status == "paused"] == [("paused", 1)]
        await app.admin.resume(type="wait")
        go.set()
        for handle in handles:
            await handle.result(timeout=20)


@pytest.mark.unaudited("a head that was not dispatched")
async def test_what_no_living_runner_would_take_is_counted(dsn: str, connection: Connection) -> None:
    await insert_runner(connection, id=1, queues=["default"], types=["email"], versions='{"email": 2}')
    await insert_runner(connection, id=2, queues=["mail"], types=["email", "fax"], versions='{"email": 3}')
    for queue, type, version in (
        ("default", "email", 1), ("default", "email", 2), ("default", "email", 3),
        ("default", "fax", 1), ("mail", "fax", 1), ("nobodys", "email", 1),
    ):  # fmt: skip
        await insert_job(connection, queue=queue, type=type, version=version)
    await insert_job(connection, status="paused", version=3)
    await insert_waiting(connection, "k", version=3)
    async with AsyncJobs(dsn) as app:
        counts = (await app.admin.stats()).counts
    assert {(one.queue, one.type, one.status): (one.count, one.unserved, one.served) for one in counts} == {
        ("default", "email", "pending"): (3, 1, False),
        ("default", "email", "paused"): (1, 1, False),
        ("default", "email", "waiting"): (1, 1, False),
        ("default", "fax", "pending"): (1, 1, False),
        ("mail", "fax", "pending"): (1, 0, True),
        ("nobodys", "email", "pending"): (1, 1, False),
    }


async def test_runners_show_the_versions_of_payloads_that_they_can_run(dsn: str) -> None:
    app = AsyncJobs(dsn)

    @app.job("email", version=2, upgrades={1: dict}, aliases=["mail"])
    async def email() -> None: ...

    @app.job("fax")
    async def fax() -> None: ...

    async with app:
        async with app.runner():
            [living] = await app.admin.runners()
        [former] = await app.admin.runners()
    for shown in (living, former):
        assert shown.versions == {"email": 2, "mail": 2}
        assert shown.can_run() == ["email (version 2)", "fax", "mail (version 2)"]
