"""Enqueues through the public API: from several processes, threads and loops, in bulk, and in transactions beside a runner."""

import asyncio
import json
import threading
import time
from typing import Literal, cast

import pytest
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from asyncjobs import AsyncJobs, DuplicateJob, JobContext, JobRouter, Queue, UnknownType
from asyncjobs.declare.definition import NewJob
from asyncjobs.errors import EnqueueError, InvalidOption, NotOpen
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import AttemptStarted
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually
from tests.support.program import Program

ROUTER = JobRouter()


@ROUTER.job("email")
async def email(to: str, n: int = 0) -> str:
    return f"{to} {n}"


@ROUTER.job("report", queue="slow")
async def report(n: int) -> int:
    return n


@ROUTER.job("keyed", serialize_by="key_{key}")
async def keyed(key: str) -> str:
    return key


def an_app(dsn: str, notify: Literal["auto", "listen", "poll"] = "auto", poll_interval: float | None = None) -> AsyncJobs:
    queues = [Queue("default"), Queue("slow")]
    return AsyncJobs(dsn, queues=queues, routers=[ROUTER], notify=notify, poll_interval=poll_interval, grace=1)


ENQUEUE_TEN = """
import asyncio, json, sys, time
from asyncjobs import AsyncJobs

jobs = AsyncJobs(sys.argv[1])

@jobs.job("email")
async def email(n: int) -> None: ...

async def main():
    async with jobs:
        while time.time() < float(sys.argv[2]):  # all of them at once
            await asyncio.sleep(0.001)
        handles = await asyncio.gather(*(email.using(dedup_key="k").enqueue(n) for n in range(10)))
        print("done", json.dumps([[handle.id, handle.created] for handle in handles]), flush=True)

asyncio.run(main())
"""


async def test_one_key_from_several_processes_at_once_makes_one_job(dsn: str, connection: Connection) -> None:
    programs = [Program.python("-c", ENQUEUE_TEN, dsn, str(time.time() + 1.5)) for _ in range(5)]
    try:
        for program in programs:
            await program.__aenter__()
        said = [await program.line("done") for program in programs]
        for program in programs:
            assert await program.wait() == 0
    finally:
        for program in programs:
            await program.__aexit__()
    handles = [tuple(one) for line in said for one in json.loads(line.removeprefix("done "))]
    assert len(handles) == 50
    assert sum(created for _, created in handles) == 1
    assert {job_id for job_id, _ in handles} == {await connection.fetchval("SELECT id FROM asyncjobs.jobs")}


@pytest.mark.parametrize("on_duplicate", ["return", "replace"])
async def test_successor_under_the_own_dedup_key_is_the_job_itself_and_nothing_follows(
    on_duplicate: Literal["return", "replace"], dsn: str, connection: Connection
) -> None:
    jobs = an_app(dsn)

    @jobs.job("step")
    async def step(ctx: JobContext, key: str) -> tuple[bool, bool]:
        following = await step.using(dedup_key=key, on_duplicate=on_duplicate).enqueue(key="a")
        return following.id == ctx.job.id, following.created

    async with jobs, jobs.runner():
        own = await step.using(dedup_key="a").enqueue(key="a")
        assert await own.result(timeout=10) == (True, False)
        assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 1
        other = await step.using(dedup_key="b").enqueue(key="a")
        assert await other.result(timeout=10) == (False, True)
        await eventually(lambda: all_completed(connection, 3), description="the successor has run, and its own is itself again")


async def all_completed(connection: Connection, count: int) -> bool:
    found = await connection.fetch("SELECT status FROM asyncjobs.jobs")
    return [row["status"] for row in found] == ["completed"] * count


async def test_many_are_enqueued_in_one_call_whatever_gives_them(dsn: str, connection: Connection) -> None:
    jobs = an_app(dsn)
    async with jobs:
        assert await jobs.enqueue_many([]) == []
        nothing: list[str] = []
        assert await jobs.enqueue_many(email.new(to) for to in nothing) == []
        handles = await jobs.enqueue_many(email.new(f"{n}@example.com", n) for n in range(3))
        assert [(await jobs.get(handle.id)).payload["n"] for handle in handles] == [0, 1, 2]  # type: ignore[union-attr]
        mixed = [email.new("a"), report.new(1), keyed.new("x"), keyed.new("x"), email.using(delay=60).new("b")]
        found = [await jobs.get(handle.id) for handle in await jobs.enqueue_many(mixed)]
        assert [(job.type, job.queue, job.status) for job in found if job] == [
            ("email", "default", "pending"),
            ("report", "slow", "pending"),
            ("keyed", "default", "pending"),
            ("keyed", "default", "waiting"),
            ("email", "default", "scheduled"),
        ]
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 8


async def test_a_hundred_thousand_jobs_are_one_call_and_one_transaction(dsn: str, connection: Connection) -> None:
    jobs = an_app(dsn)
    async with jobs:
        handles = await jobs.enqueue_many([email.new("a@example.com")] * 100_000)
    assert len({handle.id for handle in handles}) == 100_000
    row = await connection.fetchrow("SELECT count(*) AS n, count(DISTINCT xmin::text) AS transactions FROM asyncjobs.jobs")
    assert row is not None
    assert tuple(row) == (100_000, 1)


async def test_a_refused_job_among_many_leaves_none(dsn: str, connection: Connection) -> None:
    jobs = an_app(dsn)
    async with jobs:
        first = await email.using(dedup_key="k").enqueue("first")
        with pytest.raises(DuplicateJob) as caught:
            await jobs.enqueue_many([email.new("a"), email.using(dedup_key="k", on_duplicate="raise").new("b"), keyed.new("x")])
        assert caught.value.job_id == first.id
        with pytest.raises(InvalidOption, match="serialization key"):
            await email.using(dedup_key="k", on_duplicate="replace", serialization_key="other").enqueue("c")
        stranger = JobRouter()

        @stranger.job("strange")
        async def strange() -> None: ...

        with pytest.raises(UnknownType):
            await jobs.enqueue_many([email.new("a"), strange.new()])
        with pytest.raises(EnqueueError, match=r"is no job: write email\.new"):
            await jobs.enqueue_many([cast("NewJob[str]", email)])
    assert await connection.fetchval("SELECT array_agg(id) FROM asyncjobs.jobs") == [first.id]


@pytest.mark.matrix("notify")
async def test_nothing_runs_before_the_commit_and_all_of_it_soon_after(
    dsn: str, connection: Connection, recorder: Recorder, notify: Literal["auto", "listen", "poll"]
) -> None:
    jobs = an_app(dsn, notify, poll_interval=0.2 if notify == "poll" else 300)
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
    async with jobs.runner():
        transaction = connection.transaction()
        await transaction.start()
        here = email.using(connection=connection)
        handles = [
            await here.enqueue("now"),
            await here.using(delay=0.3).enqueue("soon"),
            await here.using(serialization_key="k").enqueue("first of its key"),
            await here.using(serialization_key="k").enqueue("second of its key"),
        ]
        async with AsyncSession(engine) as session:
            await email.using(connection=session, dedup_key="rolled back").enqueue("never")
            await session.rollback()
        await asyncio.wait_for(email.enqueue("meanwhile"), 5)
        await recorder.wait_for(AttemptStarted)
        assert len(recorder.of(AttemptStarted)) == 1
        await transaction.commit()
        assert [await handle.result(timeout=5) for handle in handles] == [
            "now 0",
            "soon 0",
            "first of its key 0",
            "second of its key 0",
        ]
        again = await email.using(dedup_key="rolled back").enqueue("taken by nobody")
        assert again.created
        await again.wait(timeout=5)
    assert len(recorder.of(AttemptStarted)) == 6


async def test_threads_enqueue_through_the_loop_of_the_app(dsn: str, connection: Connection) -> None:
    jobs = an_app(dsn)
    async with jobs:
        ids = await asyncio.gather(*(asyncio.to_thread(lambda n: email.enqueue_sync("a", n).id, n) for n in range(30)))
    found = await connection.fetch("SELECT id, (payload ->> 'n')::integer AS n FROM asyncjobs.jobs")
    assert {row["n"]: row["id"] for row in found} == dict(enumerate(ids))


async def test_every_loop_has_lines_of_its_own(dsn: str, connection: Connection) -> None:
    """Two apps in two loops of one process, both enqueueing at the same time."""
    errors: list[BaseException] = []

    def other_loop() -> None:
        async def enqueue() -> None:
            router = JobRouter()

            @router.job("other")
            async def other(n: int) -> None: ...

            jobs = AsyncJobs(dsn, routers=[router])
            async with jobs:
                await asyncio.gather(*(other.enqueue(n) for n in range(100)))

        try:
            asyncio.run(enqueue())
        except BaseException as error:  # noqa: BLE001 - for the test's thread
            errors.append(error)

    jobs = an_app(dsn)
    thread = threading.Thread(target=other_loop)
    async with jobs:
        thread.start()
        await asyncio.gather(*(email.enqueue("a", n) for n in range(100)))
        await asyncio.to_thread(thread.join)
    assert errors == []
    rows = await connection.fetch("SELECT type, count(*) AS n FROM asyncjobs.jobs GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in rows] == [("email", 100), ("other", 100)]


async def test_closing_waits_for_what_was_handed_in(dsn: str, connection: Connection) -> None:
    jobs = an_app(dsn)
    async with jobs:
        tasks = [asyncio.create_task(email.enqueue("a", n)) for n in range(200)]
        await asyncio.sleep(0)
    assert len({(await task).id for task in tasks}) == 200
    with pytest.raises(NotOpen):
        await email.enqueue("late")
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 200


async def test_an_app_that_is_opened_again_enqueues_again(dsn: str, connection: Connection) -> None:
    jobs = an_app(dsn)
    for n in range(3):
        async with jobs:
            await asyncio.gather(*(email.enqueue("a", n) for _ in range(10)))
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 30


async def test_fifty_at_a_time_take_a_few_transactions(dsn: str, connection: Connection) -> None:
    """1,000 enqueues, never more than 50 in flight: group commit, seen by the server."""
    jobs = an_app(dsn)
    numbers = iter(range(1000))

    async def caller() -> None:
        for n in numbers:
            await email.enqueue("a", n)

    async with jobs:
        await email.enqueue("warm")
        transactions = "SELECT count(DISTINCT xmin::text) FROM asyncjobs.jobs"
        await asyncio.gather(*(caller() for _ in range(50)))
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 1001
    assert await connection.fetchval(transactions) <= 1000 / 50 * 3
