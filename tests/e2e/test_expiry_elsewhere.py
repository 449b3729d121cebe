"""Expiry where other protocols meet it: jobs of dead runners, completions in a transaction, lanes, runs that end when idle."""

import asyncio
from typing import Any

import pytest

from asyncjobs import AsyncJobs, JobContext, JobExpired, Lane, Queue
from asyncjobs.store.database import Connection
from tests.support.eventually import eventually


class Post:
    """An app with a lane of its own; `sent` has what ran."""

    def __init__(self, dsn: str, **settings: Any) -> None:
        queues = [Queue(concurrency=3, lanes={"slow": Lane(1)}), Queue("side")]
        given: Any = {"poll_interval": 60, "promote_interval": 60, **settings}
        self.app = AsyncJobs(dsn, queues=queues, **given)
        self.sent: list[int] = []
        self.go = asyncio.Event()

        @self.app.job("send", max_attempts=5)
        async def send(number: int) -> None:
            self.sent.append(number)

        @self.app.job("hold")
        async def hold() -> None:
            await self.go.wait()

        self.send, self.hold = send, hold


async def ended(connection: Connection) -> list[tuple[Any, ...]]:
    rows = await connection.fetch(
        "SELECT status, coalesce(error_message, ''), count(*)::int FROM asyncjobs.jobs GROUP BY 1, 2 ORDER BY 1, 2"
    )
    return [tuple(row) for row in rows]


# Jobs of dead runners.


async def lose(connection: Connection, *ids: int) -> None:
    """Their runner claimed these, and died; their time is over."""
    await connection.execute(
        "INSERT INTO asyncjobs.runners (id, beat_at, host, pid, version, queues, types)"
        " VALUES (7, now() - interval '1 day', 'h', 1, '1', '{default}', '{send}')"
    )
    await connection.execute(
        "UPDATE asyncjobs.jobs SET status = 'processing', runner_id = 7, claim_token = id, started_at = now() - interval '20 s',"
        " attempts = 1, start_before = now() - interval '10 s', run_at = now() - interval '30 s' WHERE id = ANY ($1)",
        list(ids),
    )


@pytest.mark.parametrize("paused", [False, True])
async def test_a_job_of_a_dead_runner_is_not_started_again_when_its_time_is_over(
    dsn: str, connection: Connection, *, paused: bool
) -> None:
    post = Post(dsn, runner_timeout=2, rescue_interval=0.3, heartbeat=0.2)
    async with post.app:
        late = await post.send.using(expires=60, serialization_key="k", dedup_key="a").enqueue(1)
        behind = await post.send.using(serialization_key="k", queue="side").enqueue(2)
        await lose(connection, late.id)
        if paused:
            await post.app.admin.pause(queue="default")
        async with post.app.runner(grace=5):
            assert (await behind.wait(timeout=20)).status == "completed"
            with pytest.raises(JobExpired) as caught:
                await late.result(timeout=5)
            assert (caught.value.job.attempts, caught.value.job.rescues) == (1, 1)
            again = await post.send.using(dedup_key="a", queue="side").enqueue(3)
            assert again.did == "made"
            await again.wait(timeout=5)
    assert post.sent == [2, 3]


# Completions in a transaction.


@pytest.mark.usefixtures("effects")
@pytest.mark.parametrize("key", [None, "k"])
async def test_complete_is_taken_although_the_jobs_time_is_over(dsn: str, connection: Connection, key: str | None) -> None:
    post = Post(dsn)

    @post.app.job("pay")
    async def pay(ctx: JobContext) -> str:
        await asyncio.sleep(0.6)
        async with connection.transaction():
            await connection.execute("INSERT INTO effects (job_id) VALUES ($1)", ctx.job.id)
            await ctx.complete(connection, "receipt")
        return "of no importance"

    async with post.app.runner(grace=5):
        handle = await pay.using(expires=0.3, serialization_key=key, dedup_key="a").enqueue()
        assert await handle.result(timeout=10) == "receipt"
        if key is not None:
            assert (await post.send.using(serialization_key=key).enqueue(1)).id != handle.id
            await eventually(lambda: post.sent == [1], description="its key goes on")
    assert await connection.fetchval("SELECT count(*) FROM effects") == 1
    row = await connection.fetchrow("SELECT status, completed_at > start_before FROM asyncjobs.jobs WHERE type = 'pay'")
    assert row is not None
    assert tuple(row) == ("completed", True)


# Lanes.


async def test_jobs_of_a_lane_that_have_expired_hold_up_neither_it_nor_others(dsn: str, connection: Connection) -> None:
    post = Post(dsn)
    async with post.app:
        late = await post.app.enqueue_many(post.send.using(lane="slow", expires=0.2).new(n) for n in range(30))
        in_lane = await post.send.using(lane="slow").enqueue(100)
        beside = await post.send.enqueue(200)
        await asyncio.sleep(0.3)
        async with post.app.runner(grace=5):
            for handle in (in_lane, beside):
                assert (await handle.wait(timeout=10)).status == "completed"
            for handle in late:
                with pytest.raises(JobExpired):
                    await handle.result(timeout=10)
    assert sorted(post.sent) == [100, 200]
    assert await ended(connection) == [("cancelled", "expired", 30), ("completed", "", 2)]


# Runs that end when idle.


@pytest.mark.parametrize("kind", ["pending", "in line", "delayed", "retried", "of a paused type", "of a paused queue"])
async def test_a_run_until_idle_ends_what_has_expired_and_itself(dsn: str, connection: Connection, kind: str) -> None:
    post = Post(dsn)
    options: dict[str, Any] = {"expires": 0.2}
    options |= {"serialization_key": "k"} if kind == "in line" else {"delay": 0.05} if kind == "delayed" else {}
    async with post.app:
        await post.app.enqueue_many(post.send.using(**options).new(n) for n in range(2_500))
        if kind == "retried":
            await connection.execute(
                "UPDATE asyncjobs.jobs"
                " SET status = 'failed', attempts = 1, started_at = now(), run_at = now() + interval '1 hour'"
            )
        if kind.startswith("of"):
            await post.app.admin.pause(**({"type": "send"} if kind == "of a paused type" else {"queue": "default"}))
        await asyncio.sleep(0.4)
        await asyncio.wait_for(post.app.run(until_idle=True), 10)
    assert await ended(connection) == [("cancelled", "expired", 2_500)]
    assert post.sent == []
    await connection.execute("DELETE FROM asyncjobs.pauses")
