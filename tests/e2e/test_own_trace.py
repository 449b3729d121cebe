"""Each user action can be traced: a job that was given no correlation id has its own, and so has what its handler enqueues."""

from asyncjobs import AsyncJobs, JobContext, JobRouter
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import AttemptStarted
from asyncjobs.testing import Recorder, captured
from tests.support.eventually import eventually

ROUTER = JobRouter()


@ROUTER.job("child")
async def child() -> None: ...


@ROUTER.job("parent", max_attempts=1)
async def parent(ctx: JobContext, *, fails: bool = False) -> str:
    await child.enqueue()
    assert ctx.job.correlation_id == ctx.correlation_id
    if fails:
        raise ValueError("no")
    return ctx.correlation_id


async def test_a_job_that_was_given_none_has_its_own(dsn: str, connection: Connection, recorder: Recorder) -> None:
    jobs = AsyncJobs(dsn, routers=[ROUTER])
    async with jobs.runner():
        handle = await parent.enqueue()
        own = f"job-{handle.id}"
        assert await handle.result(timeout=10) == own

        async def both() -> bool:
            return len(await jobs.admin.trace(own)) == 2

        await eventually(both, description="the child is there")
        first, second = await jobs.admin.trace(own)
        assert (first.id, first.correlation_id) == (handle.id, own)
        assert (second.parent_job_id, second.correlation_id) == (handle.id, own)
        assert [row.id for row in await jobs.admin.trace_rows(own)] == [first.id, second.id]
        assert {row.correlation_id for row in (await jobs.admin.rows()).jobs} == {own}
        found = await jobs.admin.find(correlation_id=own)
        assert [one.id for one in found.jobs] == [second.id, first.id]
        (node,) = await jobs.admin.tree(own)
        assert [one.job.id for one in node.children] == [second.id]
        assert recorder.of(AttemptStarted)[0].correlation_id == own
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE correlation_id IS NULL") == 1, "it is not stored"


async def test_one_that_was_given_is_no_other_jobs_own(dsn: str) -> None:
    async with AsyncJobs(dsn, routers=[ROUTER]) as jobs:
        given = await child.using(correlation_id="checkout").enqueue()
        assert await jobs.admin.trace(f"job-{given.id}") == []
        assert (await jobs.admin.find(correlation_id=f"job-{given.id}")).jobs == []
        for word in ("job-", "job-0", "job-x", "job-99999999999999999999999", "job-1; DROP"):
            assert await jobs.admin.trace(word) == []
            assert (await jobs.admin.find(correlation_id=word)).jobs == []
            assert (await jobs.admin.dead_letters(correlation_id=word)).dead_letters == []


async def test_a_dead_letter_and_what_is_made_of_it_keep_it(dsn: str) -> None:
    jobs = AsyncJobs(dsn, routers=[ROUTER])
    async with jobs.runner():
        handle = await parent.enqueue(fails=True)
        own = f"job-{handle.id}"
        await handle.wait(timeout=10)
        (dead_letter,) = (await jobs.admin.dead_letters(correlation_id=own)).dead_letters
        assert dead_letter.correlation_id == own
        requeued = await jobs.admin.requeue(dead_letter.id, by="me")
        assert requeued.new_id is not None
        again = await jobs.handle(requeued.new_id).wait(timeout=10)
        assert again.correlation_id == own
        assert {one.id for one in await jobs.admin.trace(own)} >= {handle.id, requeued.new_id}


async def test_it_is_the_same_in_memory() -> None:
    jobs = AsyncJobs(routers=[ROUTER])
    with captured(jobs) as enqueued:
        handle = await child.enqueue()
    assert enqueued.jobs[0].correlation_id == f"job-{handle.id}"
