"""Many handles are waited for at once: what comes back, what is raised, and what it costs."""

import asyncio
import copy
import pickle
import statistics
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs import (
    AsyncJobs,
    Ended,
    InvalidOption,
    JobCancelled,
    JobDied,
    JobHandle,
    JobNotFound,
    JobRouter,
    NotOpen,
    Queue,
    ResultUnavailable,
    UsageError,
    WaitTimeout,
    as_completed,
    gather,
)
from asyncjobs.runtime import watch
from asyncjobs.store.database import Connection, Database
from asyncjobs.testing import captured
from tests.support.costs import Memory, Meter
from tests.support.eventually import eventually

ROUTER = JobRouter()


@ROUTER.job("double", max_attempts=1)
async def double(n: int) -> int:
    if n < 0:
        raise ValueError("negative")
    return n * 2


@ROUTER.job("name")
async def name(of: str) -> str:
    return of.title()


@ROUTER.job("collect", max_attempts=1)
async def collect(keys: list[str | None], queue: str) -> list[int]:
    made = [await double.using(serialization_key=key, queue=queue).enqueue(at) for at, key in enumerate(keys)]
    return await gather(made)


@pytest.fixture
async def app(dsn: str) -> AsyncGenerator[AsyncJobs]:
    async with AsyncJobs(dsn, routers=[ROUTER], queues=[Queue(concurrency=4), Queue("other")]) as jobs:
        yield jobs


def waiters(app: AsyncJobs) -> int:
    opened = app.lifecycle.opened
    assert opened is not None
    return len(opened.wakes._waiters)


async def many(app: AsyncJobs, count: int) -> list[JobHandle[int]]:
    return await app.enqueue_many(double.new(n) for n in range(count))


async def test_results_come_in_the_order_of_the_handles(app: AsyncJobs) -> None:
    handles = await many(app, 50)
    async with app.runner():
        assert await gather(reversed(handles), timeout=10) == [n * 2 for n in reversed(range(50))]
        assert waiters(app) == 0


async def test_a_tuple_keeps_its_types(app: AsyncJobs) -> None:
    async with app.runner():
        both = await gather((await double.enqueue(2), await name.enqueue("ada")), timeout=10)
    assert both == (4, "Ada")


async def test_nothing_is_waited_for_at_once_without_an_app() -> None:
    assert await gather(()) == ()
    assert await gather([]) == []
    nothing: list[JobHandle[int]] = []
    assert [one async for one in as_completed(nothing)] == []


async def test_the_first_failure_is_raised_and_the_others_go_on(app: AsyncJobs) -> None:
    bad, late = await double.enqueue(-1), await double.using(delay=3600).enqueue(1)
    async with app.runner():
        with pytest.raises(JobDied, match="negative"):
            await gather([late, bad], timeout=10)
    job = await app.get(late.id)
    assert job is not None
    assert job.status == "scheduled"


async def test_failures_and_what_is_late_stand_in_the_results_places_when_asked_for(app: AsyncJobs) -> None:
    good, bad, gone = await double.enqueue(1), await double.enqueue(-1), double.handle(2**60)
    late, cancelled = await double.using(delay=3600).enqueue(1), await double.using(delay=3600).enqueue(1)
    await app.admin.cancel(cancelled.id)
    async with app.runner():
        answers = await gather([good, bad, gone, late, cancelled], timeout=1.5, return_exceptions=True)
    assert answers[0] == 2
    assert [type(one) for one in answers[1:]] == [JobDied, JobNotFound, WaitTimeout, JobCancelled]
    died, _, missing, _ = answers[1:]
    assert isinstance(died, JobDied)
    assert died.job.error_message == "ValueError: negative"
    assert isinstance(missing, WaitTimeout)
    assert missing.missing == [late.id]


async def test_a_timeout_names_what_is_missing(app: AsyncJobs) -> None:
    late = [await double.using(delay=3600).enqueue(n) for n in range(2)]
    done = await double.enqueue(1)
    async with app.runner():
        await done.wait(timeout=10)
        with pytest.raises(WaitTimeout, match=f"2 jobs, job {late[0].id} among them, had not ended after 0.1 s") as caught:
            await gather([late[0], done, late[1]], timeout=0.1)
    assert caught.value.missing == [one.id for one in late]
    assert pickle.loads(pickle.dumps(caught.value)).missing == copy.copy(caught.value).missing == caught.value.missing
    assert waiters(app) == 0


async def test_a_timeout_of_zero_looks_once_at_each(app: AsyncJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "BATCH", 2)
    monkeypatch.setattr("asyncjobs.waiting.BATCH", 2)
    handles = await many(app, 5)
    with pytest.raises(WaitTimeout) as caught:
        await gather(handles, timeout=0)
    assert sorted(caught.value.missing) == [one.id for one in handles]
    async with app.runner():
        for one in handles:
            await one.wait(timeout=10)
    assert await gather(handles, timeout=0) == [0, 2, 4, 6, 8]


async def test_more_handles_than_a_statement_takes_get_their_turns(app: AsyncJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "BATCH", 3)
    late = [await double.using(delay=3600).enqueue(n) for n in range(5)]
    there = AsyncJobs(app.dsn, routers=[ROUTER])  # another process, as far as notifications go
    done = await double.using(queue="default").enqueue(7)
    async with there.runner():
        first = await anext(as_completed([*late, done], timeout=10))
    assert first.result() == 14


async def test_the_same_job_may_be_given_twice(app: AsyncJobs) -> None:
    handle = await double.enqueue(3)
    async with app.runner():
        assert await gather([handle, handle, app.handle(handle.id)], timeout=10) == [6, 6, 6]
        assert [one.id async for one in as_completed([handle, handle], timeout=10)] == [handle.id] * 2


async def test_handles_of_two_apps_are_waited_for_together(database: Database) -> None:
    other = JobRouter()

    @other.job("shout")
    async def shout(text: str) -> str:
        return text.upper()

    here = AsyncJobs(database.dsn, schema=database.schema, routers=[ROUTER])
    there = AsyncJobs(database.dsn, schema="other jobs", routers=[other], auto_migrate=True)
    async with here.runner(), there.runner():
        handles = (await double.enqueue(1), await shout.enqueue("a"), await double.enqueue(2))
        assert handles[0].id == handles[1].id, "ids are of their own app"
        assert await gather(handles, timeout=10) == (2, "A", 4)
        assert waiters(here) == waiters(there) == 0


async def test_a_job_that_was_rolled_back_is_not_found(app: AsyncJobs, connection: Connection) -> None:
    transaction = connection.transaction()
    await transaction.start()
    handle = await double.using(connection=connection).enqueue(1)
    await transaction.rollback()
    with pytest.raises(JobNotFound, match="rolled back"):
        await gather([handle])


@pytest.mark.unaudited("its rows are deleted by hand")
async def test_what_is_pruned_while_it_is_waited_for_is_not_found(app: AsyncJobs, connection: Connection) -> None:
    handle = await double.using(delay=3600).enqueue(1)
    waiting = asyncio.create_task(gather([handle]))
    await eventually(lambda: waiters(app) == 1, description="it waits")
    await app.admin.cancel(handle.id)
    await connection.execute("DELETE FROM asyncjobs.jobs")
    with pytest.raises((JobNotFound, JobCancelled)):
        await waiting


@pytest.mark.unaudited("a result is changed by hand")
@pytest.mark.parametrize(
    ("change", "words"),
    [("result_dropped = 'too large'", "was dropped: too large"), ("""result = '"x"'""", "does not fit"),
     ("result = ('1' || repeat('0', 5000))::jsonb", "does not fit")],
)  # fmt: skip
async def test_a_result_that_is_dropped_or_does_not_fit_raises(
    app: AsyncJobs, connection: Connection, change: str, words: str
) -> None:
    handle = await double.enqueue(1)
    async with app.runner():
        await handle.wait(timeout=10)
    await connection.execute(f"UPDATE asyncjobs.jobs SET {change}")
    with pytest.raises(ResultUnavailable, match=words):
        await gather([handle])
    (ended,) = [one async for one in as_completed([handle])]
    assert isinstance(ended.exception(), ResultUnavailable)


async def test_each_comes_when_it_has_ended(app: AsyncJobs) -> None:
    soon, bad, late = await double.enqueue(1), await double.enqueue(-1), await double.using(delay=0.8).enqueue(2)
    seen: list[Ended[int]] = []
    async with app.runner():
        async for ended in as_completed([late, bad, soon], timeout=10):
            seen.append(ended)
            if ended.handle is not late:
                job = await app.get(late.id)
                assert job is not None
                assert not job.is_final
    assert seen[-1].handle is late
    assert seen[-1].id == late.id
    assert seen[-1].result() == 4
    (died,) = [one for one in seen if one.handle is bad]
    assert isinstance(died.exception(), JobDied)
    with pytest.raises(JobDied):
        died.result()
    assert {one.handle: one.exception() for one in seen}[soon] is None


async def test_who_stops_in_the_middle_or_is_cancelled_leaves_nothing(app: AsyncJobs) -> None:
    done, late = await double.enqueue(1), await double.using(delay=3600).enqueue(1)
    async with app.runner():
        steps = as_completed([done, late])
        assert (await anext(steps)).result() == 2
        assert waiters(app) == 2
        await steps.aclose()
        assert waiters(app) == 0
        waiting = asyncio.create_task(gather([late]))
        await eventually(lambda: waiters(app) == 1, description="it waits")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert waiters(app) == 0


@pytest.mark.parametrize("handles", [5, None, [5], ["a"], [None]])
async def test_what_is_no_handle_is_refused(handles: Any) -> None:
    with pytest.raises(InvalidOption, match=r"no handle|are waited for"):
        await gather(handles)
    with pytest.raises(InvalidOption, match=r"no handle|are waited for"):
        await anext(as_completed(handles))


async def test_a_handle_itself_and_a_bad_timeout_are_refused(app: AsyncJobs) -> None:
    handle: Any = await double.using(delay=3600).enqueue(1)
    with pytest.raises(InvalidOption, match=r"write \[handle, ...\]"):
        await gather(handle)
    with pytest.raises(InvalidOption, match="timeout"):
        await gather([handle], timeout=-1)


async def test_a_closed_app_and_one_in_memory_say_so(dsn: str) -> None:
    jobs = AsyncJobs(dsn, routers=[ROUTER])
    with pytest.raises(NotOpen):
        await gather([jobs.handle(1)])
    with captured(jobs), pytest.raises(UsageError, match="keeps jobs in memory"):
        await gather([await double.enqueue(1)])


async def test_a_handler_that_waits_for_jobs_behind_its_own_key_is_refused(app: AsyncJobs) -> None:
    async with app.runner():
        assert await (await collect.enqueue([None, "k"], "other")).result(timeout=10) == [0, 2]
        with pytest.raises(JobDied, match="starts only when it has ended"):
            await (await collect.using(serialization_key="k").enqueue([None, "k"], "other")).result(timeout=10)


COUNT = 10_000


async def test_ten_thousand_handles_cost_few_statements_and_little_memory(dsn: str, connection: Connection) -> None:
    jobs = AsyncJobs(dsn, routers=[ROUTER], queues=[Queue(concurrency=50, prefetch=500)])
    meter = Meter(connection, r"unnest\(\$1::bigint\[\]\) AS w")
    async with jobs:
        handles = await many(jobs, COUNT)
        await meter.set()
        waiting = asyncio.create_task(gather(handles, timeout=120))
        await eventually(lambda: waiters(jobs) == COUNT, description="it waits")
        tasks = len(asyncio.all_tasks())
        assert tasks < 20
        began = time.monotonic()
        async with jobs.runner():
            assert await waiting == [n * 2 for n in range(COUNT)]
        seconds = time.monotonic() - began
    assert (await meter.read()).statements <= 2 + 3 * seconds


async def _drain(dsn: str, count: int, *, gathers: bool, elsewhere: bool = False) -> float:
    """Seconds until so many jobs have run, or until their results are here. `elsewhere`: in another app than the waiter's."""
    jobs = AsyncJobs(dsn, routers=[ROUTER])
    runs = AsyncJobs(dsn, routers=[ROUTER]) if elsewhere else jobs
    async with jobs:
        handles = await many(jobs, count)
        began = time.monotonic()
        waiting = asyncio.create_task(gather(handles)) if gathers else None
        async with runs.runner():
            if waiting is None:
                await eventually(lambda: is_drained(jobs, handles[-1].id), description="drained", timeout=120)
            else:
                assert await waiting == [n * 2 for n in range(count)]
            return time.monotonic() - began


async def is_drained(jobs: AsyncJobs, last: int) -> bool:
    job = await jobs.get(last)
    return job is not None and job.is_final and not (await jobs.admin.stats()).processing


@pytest.mark.proof
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_gathering_takes_hardly_longer_than_the_drain(dsn: str, *, elsewhere: bool) -> None:
    drains: list[float] = []
    gathered: list[float] = []
    for _ in range(5):
        drains.append(await _drain(dsn, COUNT, gathers=False))
        gathered.append(await _drain(dsn, COUNT, gathers=True, elsewhere=elsewhere))
    drain, took = statistics.median(drains), statistics.median(gathered)
    assert took <= 1.2 * drain + (0.1 if elsewhere else 0), (drains, gathered)  # elsewhere: a look at the end, and what it reads


async def test_memory_grows_with_the_handles_only(app: AsyncJobs) -> None:
    handles: list[JobHandle[int]] = [double.handle(2**40 + n) for n in range(COUNT)]
    opened = app.lifecycle.opened
    assert opened is not None
    taken: list[int] = []
    for count in (COUNT // 10, COUNT):
        memory = Memory()
        with memory.traced():
            one: watch.Watch = watch.Watch(opened, [handle.id for handle in handles[:count]], lambda: None)
        taken.append(memory.left)
        one.close()
    assert taken[1] < 13 * taken[0]
    assert taken[1] / COUNT < 400
    assert waiters(app) == 0
