"""What nobody claims is ended at its instant, not at the promoters' interval: whoever enqueues it, whatever became of it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Backoff, JobExpired, JobHandle, Queue, Snooze
from asyncjobs.store.database import Connection
from tests.support.eventually import eventually

#: Between its instant and its end. The interval of promoters and polls is a minute here.
SOON = 3.0  # measured: 0.1; whoever is told of nothing looks each minute here


class Office:
    """An app whose queues are looked at each minute, and a job type that may end in various ways."""

    def __init__(self, dsn: str) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue(concurrency=2), Queue("side")], poll_interval=60, promote_interval=60)

        @self.app.job("note", backoff=Backoff(30, maximum=30))
        async def note(plan: str = "") -> str:
            await asyncio.sleep(0.5 if plan else 0.0)
            if plan == "fail":
                raise ValueError(plan)
            return Snooze(3600) if plan == "snooze" else plan  # type: ignore[return-value]

        self.note = note


@pytest.fixture
async def here(dsn: str) -> AsyncGenerator[Office]:
    """One with a runner that serves `default` alone."""
    made = Office(dsn)
    async with made.app.runner(queues=["default"], grace=5):
        await asyncio.sleep(0.3)  # its first passes are over
        yield made


async def a_pass(app: AsyncJobs, other: Any) -> None:
    """A pass of the promoter, which sees nothing of jobs that have been claimed: what it was told of them it has forgotten."""
    (runner,) = app.runners
    passes = runner.parts.duties.promoter.passes
    await other.using(delay=0.05).enqueue()
    await eventually(lambda: runner.parts.duties.promoter.passes > passes + 1, description="another job was promoted")


async def late_by(connection: Connection, job_id: int) -> float:
    """Seconds between the instant of a job that has expired and its end."""

    async def ended() -> bool:
        return bool(await connection.fetchval("SELECT error_message = 'expired' FROM asyncjobs.jobs WHERE id = $1", job_id))

    await eventually(ended, description="it has expired", timeout=10)
    sql = "SELECT extract(epoch FROM completed_at - start_before)::float8 FROM asyncjobs.jobs WHERE id = $1"
    return float(await connection.fetchval(sql, job_id))


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_job_of_a_queue_without_a_runner(here: Office, connection: Connection, key: str | None) -> None:
    handle = await here.note.using(expires=1, queue="side", serialization_key=key).enqueue()
    assert await late_by(connection, handle.id) < SOON
    with pytest.raises(JobExpired):
        await handle.result(timeout=0)


async def test_a_job_of_a_paused_queue(here: Office, connection: Connection) -> None:
    await here.app.admin.pause(queue="default")
    handles: list[JobHandle[Any]] = await here.app.enqueue_many(here.note.using(expires=0.5 + n / 10).new() for n in range(5))
    for handle in handles:
        assert await late_by(connection, handle.id) < SOON


async def test_one_that_another_process_enqueues(here: Office, dsn: str, connection: Connection) -> None:
    del here
    elsewhere = Office(dsn)
    async with elsewhere.app:
        handle = await elsewhere.note.using(expires=1, queue="side").enqueue()
        assert await late_by(connection, handle.id) < SOON


async def test_one_that_a_caller_enqueues_in_a_transaction(here: Office, connection: Connection) -> None:
    async with connection.transaction():
        handle = await here.note.using(expires=1, queue="side", connection=connection).enqueue()
        await asyncio.sleep(0.5)
    assert await late_by(connection, handle.id) < SOON


async def test_one_that_sql_enqueues(here: Office, connection: Connection) -> None:
    del here
    job_id = await connection.fetchval("""SELECT asyncjobs.enqueue('note', '{}', '{"expires": 1, "queue": "side"}')""")
    assert await late_by(connection, job_id) < SOON


@pytest.mark.parametrize("plan", ["snooze", "fail"])
async def test_one_that_is_to_run_again_later_than_that(here: Office, connection: Connection, plan: str) -> None:
    handle = await here.note.using(expires=1.5).enqueue(plan)
    await a_pass(here.app, here.note)
    assert await late_by(connection, handle.id) < SOON


async def test_one_that_was_claimed_ahead_and_is_given_back(dsn: str, connection: Connection) -> None:
    jobs = AsyncJobs(dsn, queues=[Queue(concurrency=1, prefetch=5)], poll_interval=60, promote_interval=60)
    go = asyncio.Event()

    @jobs.job("hold")
    async def hold() -> None:
        await go.wait()

    @jobs.job("note")
    async def brief() -> None: ...

    async with jobs.runner(grace=5):
        await hold.enqueue()
        handle = await brief.using(expires=1.5).enqueue()
        await eventually(lambda: jobs.health().runners[0].waiting == 1, description="it is claimed ahead")
        await a_pass(jobs, hold)
        await jobs.admin.pause(type="note")
        assert await late_by(connection, handle.id) < SOON
        go.set()


async def test_what_expires_late_costs_no_notification(here: Office, connection: Connection) -> None:
    heard: list[str] = []
    await connection.add_listener("asyncjobs", lambda *args: heard.append(str(args[-1])))
    handle = await here.note.using(expires=3600, queue="side").enqueue()
    await asyncio.sleep(0.3)
    await here.app.admin.cancel(handle.id)
    assert not [payload for payload in heard if payload.startswith("d")]
