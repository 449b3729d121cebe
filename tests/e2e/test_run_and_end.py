"""`run` that ends by itself: when nothing is due, after so many jobs, after so long; alone, and beside other runners."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

from asyncjobs import AsyncJobs, Backoff, ConfigurationError, Dead, Lane, Queue
from asyncjobs.runtime.budget import Budget
from asyncjobs.store.database import Connection
from tests.support.cli import cli
from tests.support.eventually import eventually
from tests.support.program import Program


def make(dsn: str, *queues: Queue) -> AsyncJobs:
    return AsyncJobs(dsn, queues=queues or [Queue("default"), Queue("mail")])


async def counted(connection: Connection) -> dict[str, int]:
    rows = await connection.fetch("SELECT status, count(*) FROM asyncjobs.jobs GROUP BY status")
    return {row["status"]: row["count"] for row in rows}


async def test_it_runs_what_is_due_and_what_that_enqueues_and_ends(dsn: str, connection: Connection) -> None:
    jobs = make(dsn)

    @jobs.job("leaf", queue="mail", serialize_by="leaf")
    async def leaf(number: int) -> None: ...

    @jobs.job("tree", backoff=Backoff(0))
    async def tree(depth: int) -> None:
        for number in range(2):
            await (tree.enqueue(depth - 1) if depth else leaf.enqueue(number))

    async with jobs:
        await tree.enqueue(2)
        await asyncio.wait_for(jobs.run(until_idle=True), 10)
        assert await counted(connection) == {"completed": 15}
    await asyncio.wait_for(jobs.run(until_idle=True), 10)  # nothing to do, and the app is not open


async def test_a_retry_that_is_due_at_once_is_waited_for_and_a_later_one_is_not(dsn: str, connection: Connection) -> None:
    jobs = make(dsn)

    @jobs.job("soon", backoff=Backoff(0))
    async def soon() -> None:
        raise ConnectionError

    @jobs.job("late", backoff=Backoff(3600, maximum=3600))
    async def late() -> None:
        raise ConnectionError

    async with jobs:
        await soon.enqueue()
        await late.enqueue()
        await asyncio.wait_for(jobs.run(until_idle=True), 10)
        assert await counted(connection) == {"dead": 1, "failed": 1}


async def test_what_is_held_does_not_keep_it(dsn: str, connection: Connection) -> None:
    """Scheduled for later; a paused type, key or queue; an open breaker; a halted key; a type, queue or lane not served here."""
    jobs = make(dsn, Queue("default"), Queue("mail"), Queue("kept", concurrency=1, lanes={"fast": Lane(1)}))
    jobs.circuit_breaker("api")
    ran: list[str] = []

    @jobs.job("note")
    async def note(name: str) -> None:
        ran.append(name)

    @jobs.job("paused")
    async def paused() -> None: ...

    @jobs.job("guarded", breaker="api")
    async def guarded() -> None: ...

    @jobs.job("halting", serialize_by="halted", on_dead="halt")
    async def halting(number: int) -> Dead:
        return Dead(f"never {number}")

    @jobs.stub("elsewhere")
    async def elsewhere() -> None: ...

    async with jobs:
        await jobs.admin.pause(type="paused")
        await jobs.admin.pause(key="held")
        await jobs.admin.pause(queue="mail")
        await jobs.admin.open_breaker("api")
        await note.using(delay=3600).enqueue("later")
        await paused.enqueue()
        await note.using(serialization_key="held").enqueue("held")
        await note.using(serialization_key="held").enqueue("held, too")
        await note.using(queue="mail").enqueue("queue")
        await guarded.enqueue()
        await halting.enqueue(1)
        await halting.enqueue(2)
        await elsewhere.enqueue()
        await note.using(queue="kept").enqueue("no slot that it may have")
        await note.using(queue="kept", lane="fast").enqueue("lane")
        await note.enqueue("now")
        await asyncio.wait_for(jobs.run(until_idle=True), 10)
        assert sorted(ran) == ["lane", "now"]
        assert (await counted(connection))["dead"] == 1


async def test_a_key_that_waits_for_its_dispatch_keeps_it(dsn: str, connection: Connection) -> None:
    """A line without a head is let go by a serializer: that is work."""
    jobs = make(dsn)
    ran: list[str] = []

    @jobs.job("keyed", serialize_by="one")
    async def keyed(name: str) -> None:
        ran.append(name)

    async with jobs:
        await keyed.enqueue("a")
        await connection.execute("UPDATE asyncjobs.jobs SET status = 'waiting'")
        await connection.execute("UPDATE asyncjobs.serialized_jobs SET dispatched_at = NULL")
        await asyncio.wait_for(jobs.run(until_idle=True), 30)
        assert ran == ["a"]


async def test_only_queues_and_types_that_are_asked_for_keep_it(dsn: str, connection: Connection) -> None:
    jobs = make(dsn)

    @jobs.job("a")
    async def a() -> None: ...

    @jobs.job("b")
    async def b() -> None: ...

    async with jobs:
        await a.enqueue()
        await b.enqueue()
        await a.using(queue="mail").enqueue()
        await asyncio.wait_for(jobs.run(until_idle=True, queues=["default"], types=["a"]), 10)
        assert await counted(connection) == {"completed": 1, "pending": 2}


async def test_it_ends_beside_a_runner_that_is_busy(dsn: str, connection: Connection) -> None:
    """What another runner runs is that one's affair; what it enqueues before the end is not left to it."""
    jobs, other = make(dsn), make(dsn)
    go_on = asyncio.Event()

    for app in (jobs, other):

        @app.job("slow")
        async def slow() -> None:
            await go_on.wait()

        @app.job("quick")
        async def quick(number: int) -> None: ...

    async with jobs, other.runner(types=["slow"]):
        await jobs.enqueue("slow", {})
        await eventually(lambda: _runs(connection), description="the other runner has it")
        await jobs.enqueue("quick", {"number": 1})
        await asyncio.wait_for(jobs.run(until_idle=True), 10)
        assert await counted(connection) == {"completed": 1, "processing": 1}
        go_on.set()


async def _runs(connection: Connection) -> bool:
    return (await counted(connection)).get("processing", 0) == 1


async def test_two_that_share_the_work_both_end(dsn: str, connection: Connection) -> None:
    one, two = make(dsn), make(dsn)
    for app in (one, two):

        @app.job("chain")
        async def chain(left: int) -> None:
            await asyncio.sleep(0.01)
            if left:
                await chain.enqueue(left - 1)

    async with one, two:
        for _ in range(20):
            await one.enqueue("chain", {"left": 4})
        await asyncio.wait_for(asyncio.gather(_quietly(one), _quietly(two)), 20)
        assert await counted(connection) == {"completed": 100}


async def _quietly(jobs: AsyncJobs) -> None:
    await jobs.run(until_idle=True)


@pytest.mark.parametrize("prefetch", [0, 100])
async def test_at_most_so_many_jobs_are_started(dsn: str, connection: Connection, prefetch: int) -> None:
    jobs = make(dsn, Queue("default", concurrency=4, lanes={"fast": 1}, prefetch=prefetch), Queue("mail"))

    @jobs.job("a", serialize_by="{name}")
    async def a(name: str) -> None:
        await asyncio.sleep(0.001)

    @jobs.job("b")
    async def b() -> None: ...

    async with jobs:
        await jobs.enqueue_many([*(a.new(str(number % 3)) for number in range(30)), *(b.new() for _ in range(30))])
        await b.using(lane="fast").enqueue()
        await b.using(queue="mail").enqueue()
        for number in (1, 7, 20):
            before = (await counted(connection)).get("completed", 0)
            await asyncio.wait_for(jobs.run(max_jobs=number), 10)
            assert (await counted(connection))["completed"] - before == number
        await asyncio.wait_for(jobs.run(max_jobs=1000, until_idle=True), 10)
        assert await counted(connection) == {"completed": 62}


async def test_it_ends_after_so_long_and_gives_what_runs_its_grace(dsn: str, connection: Connection) -> None:
    jobs = make(dsn)

    @jobs.job("slow")
    async def slow() -> None:
        await asyncio.sleep(0.4)

    async with jobs:
        await slow.enqueue()
        began = time.monotonic()
        await jobs.run(max_time=0.2)
        assert 0.35 < time.monotonic() - began < 5
        assert await counted(connection) == {"completed": 1}
        began = time.monotonic()
        await jobs.run(max_time=0.2, until_idle=False)
        assert 0.2 <= time.monotonic() - began < 3


async def test_schedules_and_duties_of_the_app_rest_until_idle(dsn: str, connection: Connection) -> None:
    jobs = make(dsn)
    done: list[str] = []

    @jobs.cron("tick", "* * * * *")
    async def tick() -> None: ...

    @jobs.duty("mine", every=0.01)
    async def mine() -> int:
        done.append("mine")
        return 1

    await jobs.migrate()
    await jobs.run(until_idle=True)
    assert (done, await connection.fetchval("SELECT count(*) FROM asyncjobs.schedules")) == ([], 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_jobs": 0}, "max_jobs=0 is out of range"),
        ({"max_jobs": True}, "max_jobs=True is a bool"),
        ({"max_jobs": 1.5}, "max_jobs=1.5 is a float"),
        ({"max_time": 0}, "max_time=0 must be more than 0"),
        ({"max_time": "1h"}, 'max_time="1h" is a str'),
        ({"until_idle": "yes"}, 'until_idle="yes" is a str'),
    ],
)
async def test_what_cannot_be_meant_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await AsyncJobs("postgresql://nowhere").run(**given)  # type: ignore[arg-type]


def test_a_budget_is_spent_when_as_many_have_started() -> None:
    budget = Budget(3)
    assert (budget.take(2), budget.take(2), budget.take(1)) == (2, 1, 0)
    budget.started(1)
    budget.give_back(1)
    assert (budget.spent.is_set(), budget.take(5)) == (False, 1)
    budget.started(2)
    assert budget.spent.is_set()


APP = """
from asyncjobs import AsyncJobs

jobs = AsyncJobs()

@jobs.job("note")
async def note(number: int) -> None: ...
"""


async def test_a_worker_of_a_cron_container_ends_with_code_0(
    dsn: str, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "oneshot.py").write_text(APP, encoding="utf-8")
    jobs = AsyncJobs(dsn)

    @jobs.job("note")
    async def note(number: int) -> None: ...

    async with jobs:
        await jobs.enqueue_many([note.new(number) for number in range(10)])
    command = (sys.executable, "-m", "asyncjobs", "run", "oneshot:jobs")
    for options, left in ((["--max-jobs", "4"], 6), (["--until-idle", "--max-time", "1m"], 0)):
        async with Program.python(*command[1:], *options, env={"ASYNCJOBS_DSN": dsn}, cwd=tmp_path) as program:
            await program.succeeds(timeout=60)
        assert (await counted(connection)).get("pending", 0) == left
    refused = await cli("run", "oneshot:jobs", "--max-time", "soon", dsn=dsn)
    assert (refused.code, '"soon" is no duration' in refused.err) == (2, True)
