"""How things are, in one look: counts, the oldest pending job, and slots in use."""

import asyncio

from asyncjobs import AsyncJobs, Queue
from asyncjobs.store.database import Connection
from asyncjobs.store.overview import LaneUse
from asyncjobs.telemetry.events import AttemptStarted
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually, patience


async def test_summary(dsn: str, connection: Connection, recorder: Recorder) -> None:
    app = AsyncJobs(dsn, queues=[Queue("default", concurrency=3, lanes={"fast": 1})])
    go = asyncio.Event()

    @app.job("wait", lane="fast")
    async def wait(number: int) -> None:
        await go.wait()

    async with app.runner() as runner:
        nothing = await app.admin.summary()
        assert (nothing.pending, nothing.oldest_pending_age, nothing.dead_letters) == (0, None, 0)
        assert nothing.lanes == [LaneUse("default", None, runner.id, 2, 0), LaneUse("default", "fast", runner.id, 1, 0)]
        handles = [await wait.enqueue(number) for number in range(4)]
        await wait.using(delay=3600).enqueue(4)
        async with patience(20):
            while len(recorder.of(AttemptStarted)) < 3:
                await asyncio.sleep(0.01)
        busy = await app.admin.summary()
        assert (busy.pending, busy.processing, busy.scheduled, busy.failed, busy.waiting) == (1, 3, 1, 0, 0)
        assert busy.oldest_pending_age is not None
        assert [lane.utilisation for lane in busy.lanes] == [0.0, 3.0]
        assert busy.lanes == [LaneUse("default", None, runner.id, 2, 0), LaneUse("default", "fast", runner.id, 1, 3)]
        await app.admin.pause(type="wait")

        async def held() -> bool:  # rows that the runner's own duty is moving are left to it
            now = await app.admin.summary()
            return (now.pending, now.paused, now.processing) == (0, 1, 3)

        await eventually(held, description="the job that waits is held back")
        assert [(one.status, one.count) for one in await app.admin.stats() if one.status == "paused"] == [("paused", 1)]
        await app.admin.resume(type="wait")
        go.set()
        for handle in handles:
            await handle.result(timeout=20)
