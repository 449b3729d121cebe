"""What holds for a job where the enqueue says nothing: its type's, its router's, its lane's, its app's, the default."""

import asyncio
import math
from datetime import timedelta
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Backoff, ConfigurationError, InvalidOption, JobContext, JobRouter, Lane, Queue
from asyncjobs.testing import captured, perform, run_until_idle


def make(dsn: str, **more: Any) -> AsyncJobs:
    return AsyncJobs(dsn, queues=[Queue("default", lanes={"timed": Lane(1, timeout=7)})], **more)


async def nothing() -> None: ...


async def test_options_beat_type_type_beats_router_router_beats_app(dsn: str) -> None:
    router = JobRouter(max_attempts=5, timeout=50)
    plain = JobRouter()
    jobs = make(dsn, max_attempts=6, timeout=timedelta(minutes=1))
    of_type = router.job("of type", max_attempts=4, timeout=40)(nothing)
    of_router = router.job("of router")(nothing)
    of_app = plain.job("of app")(nothing)
    of_lane = plain.job("of lane", lane="timed")(nothing)
    of_itself = jobs.job("of itself")(nothing)
    early = of_app.new()  # before any app includes it
    jobs.include_router(router)
    jobs.include_router(plain)
    async with jobs:

        async def made(new: Any) -> tuple[int, Any]:
            job = await jobs.get((await jobs.enqueue(new)).id)
            assert job is not None
            return job.max_attempts, job.timeout and job.timeout.total_seconds()

        assert await made(of_type.using(max_attempts=3, timeout=30).new()) == (3, 30)
        assert await made(of_type.new()) == (4, 40)
        assert await made(of_router.new()) == (5, 50)
        assert await made(of_app.new()) == (6, 60)
        assert await made(early) == (6, 60)
        assert await made(of_itself.new()) == (6, 60)
        assert await made(of_lane.new()) == (6, 7)
        many = await jobs.enqueue_many([of_app.new(), of_type.new(), of_lane.new(), of_app.using(max_attempts=3).new()])
        rows = [await jobs.get(handle.id) for handle in many]
        assert [(row.max_attempts, row.timeout and row.timeout.total_seconds()) for row in rows if row] == [
            (6, 60), (4, 40), (6, 7), (3, 60),
        ]  # fmt: skip


async def test_an_infinite_timeout_lifts_the_one_that_would_hold(dsn: str) -> None:
    jobs = make(dsn, timeout=0.05)

    @jobs.job("slow", max_attempts=1)
    async def slow() -> str:
        await asyncio.sleep(0.2)
        return "done"

    @jobs.job("never timed", timeout=math.inf, max_attempts=1)
    async def never_timed() -> str:
        await asyncio.sleep(0.2)
        return "done"

    @jobs.job("in lane", lane="timed", max_attempts=1)
    async def in_lane() -> str:
        await asyncio.sleep(0.2)
        return "done"

    @jobs.stub("elsewhere")
    async def elsewhere() -> None: ...

    async with jobs:
        timed, lifted = await slow.enqueue(), await slow.using(timeout=math.inf).enqueue()
        keyed = await slow.using(timeout=math.inf, serialization_key="k").enqueue()
        many = await jobs.enqueue_many([slow.using(timeout=math.inf).new()] * 3)
        by_type, by_lane = await never_timed.enqueue(), await in_lane.using(timeout=math.inf).enqueue()
        with pytest.raises(InvalidOption, match="the timeout of a stub's job is its handler's, and cannot be lifted here"):
            await elsewhere.using(timeout=math.inf).enqueue()
        await run_until_idle(jobs)
        assert (await timed.wait()).status == "dead"
        for handle in (lifted, keyed, by_type, by_lane, *many):
            job = await handle.wait()
            assert (job.status, job.timeout, job.result) == ("completed", None, "done")
    with captured(jobs) as enqueued:
        await jobs.enqueue(slow.using(timeout=math.inf).new())
    assert enqueued.jobs[0].timeout is None


async def test_an_app_says_what_is_tried_again_and_when(dsn: str) -> None:
    jobs = make(dsn, max_attempts=4, retry_on=(ConnectionError, LookupError), backoff=lambda attempt, error: 0)
    ran: list[tuple[str, int]] = []

    @jobs.job("connects")
    async def connects(ctx: JobContext) -> None:
        ran.append(("connects", ctx.attempt))
        raise ConnectionResetError

    @jobs.job("fails")
    async def fails(ctx: JobContext) -> None:
        ran.append(("fails", ctx.attempt))
        raise ValueError

    @jobs.job("of its own", retry_on=ValueError, backoff=Backoff(0))
    async def of_its_own(ctx: JobContext) -> None:
        ran.append(("of its own", ctx.attempt))
        raise ValueError

    async with jobs:
        for kind in (connects, fails, of_its_own):
            await kind.enqueue()
        await run_until_idle(jobs)
        assert sorted(ran) == [
            *(("connects", attempt) for attempt in (1, 2, 3, 4)), ("fails", 1),
            *(("of its own", attempt) for attempt in (1, 2, 3, 4)),
        ]  # fmt: skip


async def test_defaults_reach_schedules_and_stubs_of_others(dsn: str) -> None:
    jobs, other = make(dsn, max_attempts=7, timeout=70), make(dsn)

    @jobs.cron("tick", "* * * * *")
    async def tick() -> None: ...

    seen: list[tuple[int, timedelta | None]] = []

    @jobs.job("elsewhere")
    async def handles(ctx: JobContext) -> None:
        seen.append((ctx.max_attempts, ctx.job.timeout))

    @other.stub("elsewhere")
    async def elsewhere() -> None: ...

    async with other, jobs.runner():
        assert [(one.row.max_attempts, one.row.timeout_seconds) for one in jobs.schedules] == [(7, 70)]
        await (await elsewhere.enqueue()).wait(timeout=10)
        assert seen == [(7, timedelta(seconds=70))]
    assert await perform(handles.new(), attempt=7, jobs=jobs) is None
    with pytest.raises(InvalidOption, match="has attempts 1 to 7"):
        await perform(handles.new(), attempt=8, jobs=jobs)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_attempts": 0}, "max_attempts=0 is out of range"),
        ({"max_attempts": "3"}, "max_attempts='3' is a str"),
        ({"timeout": 0}, "timeout=0 must be more than 0"),
        ({"timeout": -math.inf}, "timeout=-inf is not a finite number"),
        ({"backoff": 5}, "AsyncJobs: backoff=5 is no Backoff"),
        ({"retry_on": "ConnectionError"}, 'AsyncJobs: retry_on= has "ConnectionError", a str'),
        ({"give_up_on": [ValueError]}, "AsyncJobs: give_up_on= has .*, a list"),
    ],
)
def test_defaults_that_cannot_be_meant_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        AsyncJobs("postgresql://nowhere", **given)
    if "timeout" not in given and "max_attempts" not in given:
        with pytest.raises(ConfigurationError, match=said.replace("AsyncJobs", "JobRouter")):
            JobRouter(**given)
