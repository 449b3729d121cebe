"""Workflows, as users write them."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, cast

import asyncpg
import psycopg
import pytest

from asyncjobs import AsyncJobs, JobContext, JobRouter, NewJob, Queue
from asyncjobs.errors import (
    DuplicateJob,
    EnqueueError,
    InvalidOption,
    InvalidPayload,
    StateError,
    UsageError,
    WaitTimeout,
    WorkflowError,
    WorkflowNotFound,
    WouldBlock,
)
from asyncjobs.model.status import Status
from asyncjobs.telemetry.events import AcksWritten, WorkflowEnqueued
from asyncjobs.workflow import chain

ROUTER = JobRouter()


@dataclass
class Parts:
    first: int
    rest: list[int]


@ROUTER.job("number", max_attempts=1)
async def number(n: int) -> int:
    if n < 0:
        raise ValueError("less than nothing")
    return n


@ROUTER.job("total", max_attempts=1)
async def total(numbers: list[int], title: str = "") -> str:
    return f"{title}{sum(numbers)}"


@ROUTER.job("parts", max_attempts=1)
async def parts(some: Parts, by_name: dict[str, Any]) -> list[Any]:
    return [some.first, some.rest, by_name]


@ROUTER.job("keyed", serialize_by="of_{n}")
async def keyed(n: int) -> int:
    return n


@ROUTER.job("large", max_attempts=1)
async def large(n: int) -> str:
    return "x" * n


@ROUTER.job("length", max_attempts=1)
async def length(text: str) -> int:
    return len(text)


@ROUTER.job("crawl", max_attempts=2)
async def crawl(ctx: JobContext, depth: int, *, fails: bool = False) -> int:
    handles = await ctx.spawn(*(crawl.new(depth - 1) for _ in range(2 if depth else 0)))
    if fails and ctx.attempt == 1:
        raise RuntimeError("once")
    return len(handles)


@pytest.fixture
async def app(dsn: str) -> AsyncGenerator[AsyncJobs]:
    async with AsyncJobs(dsn, routers=[ROUTER], queues=[Queue(concurrency=4), Queue("other")], max_result_bytes=1000) as jobs:
        yield jobs


async def statuses(app: AsyncJobs, ids: list[int]) -> list[Status]:
    return [job.status for job_id in ids if (job := await app.get(job_id)) is not None]


async def test_results_are_arguments_wherever_they_stand(app: AsyncJobs) -> None:
    async with app.workflow("sums") as flow:
        one = flow.add(number.new(1))
        many = flow.add_many(number.new(n) for n in range(2, 5))
        said = flow.add(total.new(many.results, title="all: "))
        mixed = flow.add(parts.new(Parts(one.result, [one.result, 7]), {"said": said.result, "all": many.results, "n": 1}))
        listed = flow.add(total.new([one.result, one.result], title=said.result))
    assert len(flow.ids) == 7
    assert (await app.workflow_of(flow.id).counts()) == {"pending": 4, "blocked": 3}
    async with app.runner():
        row = await app.workflow_of(flow.id).wait(timeout=10)
        assert (row.state, row.name, row.size, row.missing, row.dead) == ("completed", "sums", 7, 0, 0)
        assert await said.handle.result() == "all: 9"
        assert await mixed.handle.result() == [1, [1, 7], {"said": "all: 9", "all": [2, 3, 4], "n": 1}]
        assert await listed.handle.result() == "all: 92"


async def test_after_and_when_and_chains_and_nested_parts(app: AsyncJobs) -> None:
    async with app.workflow("order") as flow:
        first, second = chain(flow, number.new(1), number.new(-1))
        inner = flow.nested("inner")
        deep = inner.add(number.new(3), after=first)
        inner.add_many([number.new(4), number.new(5)])
        last = flow.add(number.new(6), after=[inner, second], when="ended")
        never = flow.add(number.new(7), after=second)
        soon = flow.add(number.new(8), after=flow.add_many([]))
    async with app.runner():
        row = await app.workflow_of(flow.id).wait(timeout=10)
    assert (row.state, row.dead) == ("broken", 2)
    assert await statuses(app, [first.id, second.id, deep.id, last.id, soon.id]) == [
        "completed",
        "dead",
        "completed",
        "completed",
        "completed",
    ]
    job = await app.get(never.id)
    assert job is not None
    assert (job.status, job.error_message) == ("cancelled", f"upstream {second.id} (number) died")


async def test_options_of_members_are_kept(app: AsyncJobs) -> None:
    async with app.workflow("options") as flow:
        one = flow.add(number.new(1))
        other = flow.add(
            number.using(queue="other", priority=7, serialization_key="k", dedup_key="d", tags=["a"]).new(one.result)
        )
    job = await app.get(other.id)
    assert job is not None
    assert (job.queue, job.priority, job.serialization_key, job.dedup_key, job.tags) == ("other", 7, "k", "d", ["a"])
    assert job.workflow_id == flow.id
    async with app.runner():
        assert await other.handle.result(timeout=10) == 1


async def test_a_block_that_raises_has_written_nothing(app: AsyncJobs) -> None:
    flow = app.workflow("never")
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is what is tested
        async with flow:
            flow.add(number.new(1))
            _ = 1 / 0
    with pytest.raises(UsageError, match="not written"):
        _ = flow.id


async def test_a_workflow_joins_its_callers_transaction(app: AsyncJobs, dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        async with app.workflow("rolled back", connection=connection) as flow:
            flow.add(number.new(1))
        await transaction.rollback()
        with pytest.raises(WorkflowNotFound):
            await app.workflow_of(flow.id).get()
        async with connection.transaction(), app.workflow("committed", connection=connection) as flow:
            one = flow.add(number.new(1))
            flow.add(number.new(one.result))
        async with app.runner():
            assert (await app.workflow_of(flow.id).wait(timeout=10)).state == "completed"
    finally:
        await connection.close()


async def test_a_cancel_ends_what_has_not_ended(app: AsyncJobs) -> None:
    async with app.workflow("long") as flow:
        one = flow.add(number.using(delay=3600).new(1))
        flow.add(number.new(one.result))
    handle = app.workflow_of(flow.id)
    with pytest.raises(WaitTimeout, match="2 of its 2 jobs"):
        await handle.wait(timeout=0.1)
    assert await handle.cancel("not wanted") == "requested"
    assert (await handle.wait(timeout=5)).state == "broken"
    assert await handle.cancel() == "ended"
    with pytest.raises(WorkflowNotFound):
        await app.workflow_of(4711).cancel()


async def test_a_retry_of_the_dead_member_brings_back_its_dependents(app: AsyncJobs, dsn: str) -> None:
    async with app.workflow("again") as flow:
        one = flow.add(number.new(-1))
        two = flow.add(number.new(one.result))
        flow.add(total.new([one.result, two.result]))
    async with app.runner():
        assert (await app.workflow_of(flow.id).wait(timeout=10)).dead == 3
        connection = await asyncpg.connect(dsn)
        await connection.execute("UPDATE asyncjobs.jobs SET payload = '{\"n\": 5}' WHERE id = $1", one.id)
        await connection.close()
        await app.admin.retry(one.id)
        row = await app.workflow_of(flow.id).wait(timeout=10)
        assert (row.state, row.dead) == ("completed", 0)
        assert await two.handle.result() == 5


async def test_a_result_that_was_dropped_ends_the_dependent_and_is_named(app: AsyncJobs) -> None:
    async with app.workflow("large") as flow:
        one = flow.add(large.new(5_000))
        two = flow.add(length.new(one.result))
    async with app.runner():
        await app.workflow_of(flow.id).wait(timeout=10)
    job = await app.get(two.id)
    assert job is not None
    assert job.status == "dead"
    assert f"the result of job {one.id} (large), which was dropped" in (job.error_message or "")


async def test_many_members_are_one_group(app: AsyncJobs) -> None:
    async with app.workflow("many") as flow:
        group = flow.add_many(number.new(n) for n in range(500))
        done = flow.add(total.new(group.results))
    async with app.runner():
        assert await done.handle.result(timeout=30) == str(sum(range(500)))


async def test_a_worker_that_ends_when_it_is_idle_runs_whole_workflows(dsn: str) -> None:
    jobs = AsyncJobs(dsn, routers=[ROUTER], queues=[Queue(concurrency=4), Queue("other")])
    async with jobs, jobs.workflow("whole") as flow:
        dead = flow.add(number.new(-1))
        last = [
            flow.add(number.new(1), after=chain(flow, number.new(dead.result), number.new(2)), when="ended") for _ in range(3)
        ]
    await jobs.run(until_idle=True)
    async with jobs:
        row = await jobs.workflow_of(flow.id).get()
        assert (row.missing, row.dead) == (0, 7)
        assert await statuses(jobs, [one.id for one in last]) == ["completed"] * 3


async def test_a_link_of_a_chain_starts_in_the_call_that_writes_the_end_of_the_one_before(app: AsyncJobs) -> None:
    written: list[AcksWritten] = []
    app.events.subscribe(written.append, AcksWritten)
    async with app.workflow("chain") as flow:
        chain(flow, *(number.new(n) for n in range(20)))
    async with app.runner():
        await app.workflow_of(flow.id).wait(timeout=20)
    assert [one.claimed for one in written if one.tokens] == [1] * 19 + [0]


async def test_whoever_waits_for_a_job_waits_for_what_it_spawns(app: AsyncJobs) -> None:
    async with app.workflow("crawl") as flow:
        root = flow.add(crawl.new(3))
        last = flow.add(number.new(1), after=root)
    async with app.runner():
        row = await app.workflow_of(flow.id).wait(timeout=20)
    assert (row.state, row.size, row.dead) == ("completed", 16, 0)
    members = await app.admin.members(flow.id)
    assert {one.status for one in members} == {"completed"}
    ended = [(await app.admin.get(one.id)) for one in members if one.id != last.id]
    started = (await app.admin.get(last.id)).started_at  # type: ignore[union-attr]
    assert all(one is not None and one.completed_at <= started for one in ended)  # type: ignore[operator]
    assert len(await app.admin.children(root.id)) == 2


async def test_a_second_attempt_spawns_the_same_jobs(app: AsyncJobs) -> None:
    async with app.workflow("crawl") as flow:
        root = flow.add(crawl.using(max_attempts=2).new(1, fails=True))
    async with app.runner():
        for _ in range(200):
            job = await app.get(root.id)
            if job is not None and job.status == "failed":
                await app.admin.retry(root.id)
            if (await app.workflow_of(flow.id).get()).ended_at is not None:
                break
            await asyncio.sleep(0.05)
    row = await app.workflow_of(flow.id).get()
    assert (row.state, row.size) == ("completed", 3)


async def test_a_job_of_no_workflow_cannot_spawn(app: AsyncJobs) -> None:
    handle = await crawl.using(max_attempts=1).enqueue(1)
    async with app.runner():
        job = await handle.wait(timeout=10)
    assert (job.status, "is of no workflow" in (job.error_message or "")) == ("dead", True)


async def test_dead_member_is_retried_and_not_made_anew(app: AsyncJobs) -> None:
    async with app.workflow("dead") as flow:
        flow.add(number.new(-1))
    async with app.runner():
        await app.workflow_of(flow.id).wait(timeout=10)
    [letter] = (await app.admin.dead_letters()).dead_letters
    with pytest.raises(StateError, match="retry that job"):
        await app.admin.requeue(letter.id, by="ada")


# Bad input.


async def test_what_does_not_fit_is_refused_and_names_both(app: AsyncJobs) -> None:
    async with app.workflow("one") as one:
        node = one.add(number.new(1))
        said = one.add(total.new([node.result]))
        with pytest.raises(InvalidPayload, match="expected int, got <the result of total \\(member 1\\)>, which is str"):
            number.new(cast("int", said.result))
        with pytest.raises(InvalidPayload, match="expected str"):
            length.new(cast("str", one.add_many([number.new(2)]).results))
        with pytest.raises(InvalidPayload, match=r"serialize_by failed: .*is not known yet"):
            keyed.new(node.result)
        with pytest.raises(InvalidPayload, match="missing field"):
            parts.new(Parts(node.result, []))  # type: ignore[call-arg]
        with pytest.raises(EnqueueError, match="takes <the result of number"):
            await number.enqueue(node.result)
        with pytest.raises(EnqueueError, match="takes <the result of number"):
            await app.enqueue_many([number.new(node.result)])
        with pytest.raises(TypeError, match="not known yet"):
            _ = node.result + 1
        other = app.workflow("other")
        with pytest.raises(WorkflowError, match=r'number takes <the result of number \(member 0\)>, which is of workflow "one"'):
            other.add(number.new(node.result))
        with pytest.raises(WorkflowError, match=r"after=<Node number \(member 0\) of workflow 'one'> of number is of another"):
            other.add(number.new(1), after=node)
        with pytest.raises(WorkflowError, match="is none of its jobs"):
            one.add(number.new(1), after=[cast("Any", 17)])
        with pytest.raises(WorkflowError, match="is no job"):
            one.add(cast("NewJob[int]", number))
        with pytest.raises(InvalidOption, match="there is none"):
            one.add(number.new(1), when="ended")
        with pytest.raises(InvalidOption, match='give "completed"'):
            one.add(number.new(1), after=node, when=cast("Any", "died"))
        with pytest.raises(InvalidOption, match="a job of its own"):
            one.add(number.using(dedup_key="x", on_duplicate="replace").new(1))
        with pytest.raises(WorkflowError, match="result"):
            one.add(parts.new(Parts(1, []), {"$result": 3}))
    with pytest.raises(UsageError, match="is written"):
        one.add(number.new(1))
    async with app.runner():
        await app.workflow_of(one.id).wait(timeout=10)


async def test_a_circle_is_refused_and_nothing_is_written(app: AsyncJobs) -> None:
    flow = app.workflow("circle")
    with pytest.raises(  # noqa: PT012 - the block is what is tested
        WorkflowError,
        match=r"number \(member 1\) and total \(member 0\) wait for each other|total \(member 0\) and number \(member 1\)",
    ):
        async with flow:
            inner = flow.nested("inner")
            last = flow.add(total.new([1]), after=inner)
            inner.add(number.new(1), after=last)
    itself = app.workflow("itself")
    with pytest.raises(WorkflowError, match=r"number \(member 0\) waits for itself"):  # noqa: PT012
        async with itself:
            inner = itself.nested("inner")
            inner.add(number.new(1), after=inner)


async def test_too_many_members_are_refused(app: AsyncJobs) -> None:
    with pytest.raises(WorkflowError, match="more than 3 jobs: give max_members="):
        async with app.workflow("many", max_members=3) as flow:
            flow.add_many(number.new(n) for n in range(4))


async def test_a_dedup_key_that_a_job_has_refuses_all(app: AsyncJobs) -> None:
    handle = await number.using(dedup_key="x", delay=60).enqueue(1)
    with pytest.raises(DuplicateJob, match=str(handle.id)):  # noqa: PT012
        async with app.workflow("twice") as flow:
            flow.add(number.new(1))
            flow.add(number.using(dedup_key="x").new(1))
    await app.admin.cancel(handle.id)


async def test_a_plain_block_writes_in_a_synchronous_transaction_where_no_loop_is(dsn: str, app: AsyncJobs) -> None:
    jobs = app
    told: list[WorkflowEnqueued] = []
    jobs.events.subscribe(told.append, WorkflowEnqueued)

    def build(*, commits: bool) -> int:
        with psycopg.connect(dsn) as connection:
            with jobs.workflow("sync", connection=connection) as flow:
                some = flow.add_many(number.new(n) for n in (1, 2))
                flow.add(total.new(some.results))
            if not commits:
                connection.rollback()
        return flow.id

    gone, there = await asyncio.to_thread(build, commits=False), await asyncio.to_thread(build, commits=True)
    with pytest.raises(WorkflowNotFound):
        await jobs.workflow_of(gone).get()
    assert await jobs.workflow_of(there).counts() == {"pending": 2, "blocked": 1}
    assert [(one.workflow_id, one.name, one.size) for one in told] == [(gone, "sync", 3), (there, "sync", 3)]
    with pytest.raises(WouldBlock), jobs.workflow("here") as flow:
        flow.add(number.new(1))


async def test_a_broken_workflow_ends_with_the_next_poll_where_no_notification_arrives(dsn: str) -> None:
    """What a cascade leaves to the folders is told of by a notification; the next sweep is minutes away."""
    async with AsyncJobs(dsn, routers=[ROUTER], notify="poll", poll_interval=0.1, sweep_interval=600) as app, app.runner():
        async with app.workflow("broken") as flow:
            last = flow.add(number.new(-1))
            for n in range(3):
                last = flow.add(number.new(n), after=last)
        assert (await app.workflow_of(flow.id).wait(timeout=10)).state == "broken"
        assert await statuses(app, flow.ids) == ["dead", "cancelled", "cancelled", "cancelled"]
