"""What an attempt hands on to the jobs that its handler enqueues, and how far it says it is."""

import asyncio
from datetime import date
from typing import Any

import pytest

from asyncjobs import AsyncJobs, InvalidOption, JobContext, JobNotFound, NotOpen, Queue, UsageError, gather
from asyncjobs.context import current
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import AttemptStarted
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually


@pytest.fixture
def jobs(database: Database) -> AsyncJobs:
    return AsyncJobs(database.dsn, schema=database.schema, queues=[Queue(concurrency=4)])


async def test_children_carry_correlation_and_parent_whoever_enqueues_them(jobs: AsyncJobs, connection: Connection) -> None:
    @jobs.job("child")
    async def child(of: str) -> None: ...

    @jobs.job("parent")
    async def parent() -> None:
        await child.enqueue("handler")
        await asyncio.create_task(enqueue("task"))
        await asyncio.to_thread(child.enqueue_sync, "thread")
        await child.using(correlation_id="its own", parent_job_id=99).enqueue("options")

    async def enqueue(of: str) -> None:
        await child.enqueue(of)

    @jobs.job("thread")
    def plain() -> None:
        child.enqueue_sync("plain")

    async with jobs.runner():
        first = await parent.using(correlation_id="c-1").enqueue()
        second = await plain.using(correlation_id="c-2").enqueue()
        for handle in (first, second):
            assert (await handle.wait(timeout=10)).status == "completed"
        await eventually(lambda: are_done(connection), description="the children have run")
    rows = await connection.fetch(
        "SELECT payload ->> 'of' AS of, correlation_id, parent_job_id FROM asyncjobs.jobs WHERE type = 'child'"
    )
    assert {row["of"]: (row["correlation_id"], row["parent_job_id"]) for row in rows} == {
        "handler": ("c-1", first.id), "task": ("c-1", first.id), "thread": ("c-1", first.id), "options": ("its own", 99),
        "plain": ("c-2", second.id),
    }  # fmt: skip


async def are_done(connection: Connection) -> bool:
    return not await connection.fetch("SELECT FROM asyncjobs.jobs WHERE status <> 'completed'")


async def test_nothing_of_whoever_opened_the_app_or_enqueued_leaks_into_attempts(jobs: AsyncJobs) -> None:
    seen: list[Any] = []

    @jobs.job("look")
    async def look(ctx: JobContext) -> None:
        seen.append(current.get() is ctx)
        seen.append(ctx.correlation_id)

    async with jobs.runner():
        await (await look.using(correlation_id="a").enqueue()).wait(timeout=10)
        await (await look.enqueue()).wait(timeout=10)
    assert seen == [True, "a", True, "job-2"]
    assert current.get() is None


async def test_progress_is_written_while_the_handler_runs(jobs: AsyncJobs, recorder: Recorder) -> None:
    go = asyncio.Event()

    @jobs.job("slow")
    async def slow(ctx: JobContext) -> None:
        for step in range(100):
            ctx.progress(step / 100, f"step {step}")
        await go.wait()

    async with jobs.runner():
        handle = await slow.enqueue()
        await recorder.wait_for(AttemptStarted)

        async def said() -> bool:
            job = await jobs.get(handle.id)
            return job is not None and job.progress == {"done": 0.99, "note": "step 99"}

        await eventually(said, description="the last word is written")
        go.set()
        await handle.wait(timeout=5)


REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no disk' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON asyncjobs.jobs FOR EACH ROW WHEN (NEW.status IN ('completed', 'dead'))
EXECUTE FUNCTION public.refuse()
"""


async def test_runner_lives_through_a_database_that_takes_no_outcomes_for_a_while(
    jobs: AsyncJobs, connection: Connection
) -> None:
    @jobs.job("any", max_attempts=1)
    async def work(n: int) -> None:
        if n % 2:
            raise ValueError("odd")

    async with jobs.runner() as runner:
        await connection.execute(REFUSE)
        handles = await jobs.enqueue_many([work.new(n) for n in range(10)])
        await eventually(lambda: runner.health().error is not None, description="the health says so")
        assert runner.health().free_slots >= 0
        await connection.execute("DROP TRIGGER refuse ON asyncjobs.jobs")
        ended = [await handle.wait(timeout=20) for handle in handles]
    assert [job.status for job in ended] == ["completed", "dead"] * 5
    assert {job.attempts for job in ended} == {1}


async def test_children_of_a_handle_have_their_results_as_their_types_declare_them(jobs: AsyncJobs) -> None:
    @jobs.job("dated", aliases=["former"])
    async def dated(day: date) -> date:
        return day

    @jobs.job("none")
    async def none() -> None: ...

    @jobs.job("parent")
    async def parent(ctx: JobContext, count: int) -> int:
        made = await ctx.jobs.enqueue_many(dated.new(date(2026, 1, 1 + n)) for n in range(count))
        await none.enqueue()
        return len(made)

    async with jobs.runner():
        handle = await parent.enqueue(3)
        assert await handle.result(timeout=10) == 3
        children = await handle.children()
        assert [one.id for one in children] == sorted(one.id for one in children)
        results = await gather(children, timeout=10)
        assert set(results) == {date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3), None}
        assert [await child.result(timeout=10) for child in children] == results
        assert [one.id for one in await handle.children(limit=2)] == [one.id for one in children[:2]]
        assert await children[0].children() == []
        assert [one.id for one in await jobs.handle(handle.id).children()] == [one.id for one in children]
        with pytest.raises(JobNotFound):
            await jobs.handle(99_999).children()
        for limit in (-1, 10**10):
            with pytest.raises((UsageError, InvalidOption)):
                await handle.children(limit=limit)


async def test_a_child_of_a_type_that_this_app_does_not_have_answers_plain_json(jobs: AsyncJobs, database: Database) -> None:
    other = AsyncJobs(database.dsn, schema=database.schema)

    @jobs.job("dated")
    async def dated(day: date) -> date:
        return day

    @other.job("elsewhere")
    async def elsewhere() -> None: ...

    async with jobs.runner(), other:
        parent = await dated.enqueue(date(2026, 1, 1))
        await dated.using(parent_job_id=parent.id).enqueue(date(2026, 1, 2))
        [child] = await other.handle(parent.id).children()
        assert await child.result(timeout=10) == "2026-01-02"


async def test_children_of_a_handle_need_an_open_app(jobs: AsyncJobs) -> None:
    with pytest.raises(NotOpen, match="children"):
        await jobs.handle(1).children()
