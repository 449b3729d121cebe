"""Runs of a key with `Queue(prefetch=N)`: its jobs in order, one at a time, in few calls, whatever happens in between."""

import asyncio
from functools import partial

import asyncpg
import pytest

from asyncjobs import AsyncJobs, Backoff, JobContext, Queue
from asyncjobs.store.database import Connection
from tests.support.eventually import eventually

_IN_FRONT = "SELECT count(*) FROM asyncjobs.jobs WHERE status <> 'completed' AND (payload ->> 'number')::integer < $1"

_BURY = "DELETE FROM asyncjobs.runners WHERE id = (SELECT id FROM asyncjobs.runners ORDER BY random() LIMIT 1)"


class Line:
    """An app whose jobs are of one key, and note what they do."""

    def __init__(self, dsn: str, *, prefetch: int = 100) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue(concurrency=3, prefetch=prefetch)], poll_interval=0.2)
        self.dsn = dsn
        self.ran: list[int] = []
        self.together = self.most_together = self.in_front = 0
        self.go = asyncio.Event()
        self.reached = asyncio.Event()

        @self.app.job("step", serialize_by="{key}", max_attempts=3, backoff=Backoff(0.01))
        async def step(ctx: JobContext, number: int, key: str, does: str = "") -> int:
            self.together += 1
            self.most_together = max(self.most_together, self.together)
            try:
                return await self._step(ctx, number, does)
            finally:
                self.together -= 1

        self.step = step

    async def _step(self, ctx: JobContext, number: int, does: str) -> int:
        self.ran.append(number)
        if does == "wait":
            self.reached.set()
            await self.go.wait()
        elif does == "fail" and ctx.attempt == 1:
            raise ValueError(number)
        elif does == "complete":
            connection = await asyncpg.connect(self.dsn)
            try:
                async with connection.transaction():
                    await ctx.complete(connection)
                    self.in_front += await connection.fetchval(_IN_FRONT, number)
            finally:
                await connection.close()
        return number

    async def enqueue(self, count: int, does: dict[int, str] | None = None, key: str = "k") -> None:
        await self.app.enqueue_many([self.step.new(number, key, (does or {}).get(number, "")) for number in range(count)])


async def all_ended(connection: Connection, status: str = "completed") -> None:
    async def is_so() -> bool:
        found = await connection.fetch("SELECT DISTINCT status FROM asyncjobs.jobs")
        return [row["status"] for row in found] == [status]

    await eventually(is_so, description=f"all are {status}", timeout=30)


async def test_long_line_takes_few_calls(dsn: str, connection: Connection) -> None:
    line = Line(dsn)
    async with line.app:
        await line.enqueue(300)
    async with line.app.runner() as runner:
        await all_ended(connection)
        assert runner.parts.line.calls < 60
    assert (line.ran, line.most_together) == ([*range(300)], 1)


async def test_failed_job_is_tried_again_before_those_behind_it(dsn: str, connection: Connection) -> None:
    line = Line(dsn)
    async with line.app:
        await line.enqueue(20, {5: "fail"})
    async with line.app.runner():
        await all_ended(connection)
    assert (line.ran, line.most_together) == ([*range(6), *range(5, 20)], 1)


async def test_completion_in_a_transaction_waits_for_the_outcomes_in_front_of_it(dsn: str, connection: Connection) -> None:
    line = Line(dsn)
    async with line.app:
        await line.enqueue(12, {3: "complete", 4: "complete", 9: "complete"})
    async with line.app.runner():
        await all_ended(connection)
    assert (line.ran, line.in_front) == ([*range(12)], 0)


async def test_explain_says_behind_whom_a_follower_stands(dsn: str, connection: Connection) -> None:
    line = Line(dsn)
    async with line.app:
        await line.enqueue(3, {0: "wait"})
    async with line.app.runner(grace=5) as runner:
        await line.reached.wait()
        ids = [row["id"] for row in await connection.fetch("SELECT id FROM asyncjobs.jobs ORDER BY id")]
        found = await line.app.admin.explain(ids[2])
        assert found.reason == "claimed ahead"
        assert f"by runner {runner.id}, with job {ids[0]}, behind which it stands" in found.sentence
        [use] = (await line.app.admin.stats()).lanes
        assert (use.in_use, use.ahead) == (1, 2)
        line.go.set()
        await all_ended(connection)


async def test_stop_gives_followers_back_and_the_next_runner_goes_on_in_order(dsn: str, connection: Connection) -> None:
    first, second = Line(dsn), Line(dsn)
    async with first.app:
        await first.enqueue(6, {2: "wait"})
    async with first.app.runner(grace=20) as runner:
        await first.reached.wait()
        stopping = asyncio.create_task(runner.stop())
        await eventually(lambda: runner.health().waiting == 0, description="followers are given back")
        first.go.set()
        await stopping
    rows = await connection.fetch("SELECT status, attempts FROM asyncjobs.jobs ORDER BY id")
    assert [tuple(row) for row in rows] == [("completed", 1)] * 3 + [("pending", 0)] + [("waiting", 0)] * 2
    async with second.app.runner():
        await all_ended(connection)
    assert (first.ran, second.ran) == ([0, 1, 2], [3, 4, 5])


@pytest.mark.parametrize("how", ["cancel", "pause"])
async def test_verbs_meet_a_run(dsn: str, connection: Connection, how: str) -> None:
    line = Line(dsn)
    async with line.app:
        await line.enqueue(6, {1: "wait"})
    async with line.app.runner(grace=5) as runner:
        await line.reached.wait()
        ids = [row["id"] for row in await connection.fetch("SELECT id FROM asyncjobs.jobs ORDER BY id")]
        if how == "cancel":
            await line.app.admin.cancel(ids[3])
        else:
            await line.app.admin.pause(key="k")
        await eventually(lambda: runner.health().waiting <= 1, description="followers are given back")
        line.go.set()
        if how == "pause":
            await eventually(lambda: not runner.health().running, description="what ran has ended")
            assert line.ran == [0, 1]
            await line.app.admin.resume(key="k")
        await eventually(lambda: line.ran[-1] == 5 and not line.together, description="the line has ended")
    assert line.ran == [number for number in range(6) if how == "pause" or number != 3]
    assert line.most_together == 1


async def test_runners_that_vanish_in_the_middle_of_runs_lose_no_order(dsn: str, connection: Connection) -> None:
    """Their rows are deleted under them: claims are lost, and what ran runs again from the first that was not written. (The
    auditor of all tests judges order and exclusion.)
    """
    lines = [Line(dsn, prefetch=20) for _ in range(2)]

    def has_run(count: int) -> bool:
        return sum(len(line.ran) for line in lines) >= count

    async with lines[0].app:
        for key in "abc":
            await lines[0].enqueue(120, dict.fromkeys(range(7, 120, 31), "fail"), key)
    async with lines[0].app.runner(), lines[1].app.runner():
        for more in range(20, 320, 25):
            await eventually(partial(has_run, more), description="some have run", interval=0.001)
            await connection.execute(_BURY)
        await all_ended(connection)
    assert {number for line in lines for number in line.ran} == {*range(120)}
