"""What a whole runner does when its own parts or its handlers misbehave, and what it costs the database meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, JobContext, Queue
from asyncjobs.runtime import (
    call_line,
    health,
    heartbeat,
    listening,
    metrics,
    notifier,
    pauser,
    progress,
    promoter,
    pruner,
    requests,
    rescuer,
    scheduler,
    serializer,
    stuck_check,
)  # fmt: skip
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import AttemptEnded, AttemptStarted, DatabaseFailed, ServicePassFailed
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually


@pytest.fixture
def jobs(database: Database) -> AsyncJobs:
    return AsyncJobs(database.dsn, schema=database.schema, queues=[Queue(concurrency=4)], poll_interval=0.2)


class Defect(Exception):
    """Of asyncjobs itself."""


#: What does one pass of each loop that a runner has at work.
PASSES: list[tuple[type[Any], str]] = [
    (call_line.CallLine, "_turn"), (listening.Listening, "pass_"), (notifier.Notifier, "pass_"), (progress.Progress, "pass_"),
    (requests.Requests, "pass_"), (metrics.Metrics, "pass_"), (metrics.Rollup, "pass_"), (promoter.Promoter, "pass_"),
    (scheduler.Scheduler, "pass_"), (serializer.Serializer, "pass_"), (rescuer.Rescuer, "pass_"), (pruner.Pruner, "pass_"),
    (pauser.Pauser, "pass_"), (stuck_check.StuckCheck, "pass_"), (heartbeat._Beating, "pass_"), (heartbeat._Watching, "pass_"),
]  # fmt: skip


@pytest.fixture
def crashes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Lets each loop's first pass crash before its work, and the second after it; how often each did."""
    crashed: Counter[str] = Counter()

    def twice(kind: type[Any], method: str) -> Callable[..., Awaitable[Any]]:
        real = getattr(kind, method)

        async def crashing(self: Any) -> Any:
            crashed[kind.__name__] += 1
            if crashed[kind.__name__] == 1:
                raise Defect(f"before {kind.__name__}")
            answer = await real(self)
            if crashed[kind.__name__] == 2:
                raise Defect(f"after {kind.__name__}")
            return answer

        return crashing

    for kind, method in PASSES:
        monkeypatch.setattr(kind, method, twice(kind, method))
    return crashed


@pytest.mark.direct("is about every loop, and that of the listener does not run", only="poll")
async def test_every_loop_goes_on_after_a_pass_that_crashed(jobs: AsyncJobs, recorder: Recorder, crashes: Counter[str]) -> None:
    @jobs.job("double")
    async def double(ctx: JobContext, n: int) -> int:
        ctx.progress(0.5, "half")
        return 2 * n

    keyed = double.using(serialization_key="k")

    async def answers() -> list[int]:
        handles = [await double.enqueue(1), await keyed.enqueue(2), await double.using(delay=0.05).enqueue(3)]
        return [await handle.result(timeout=20) for handle in handles]

    async with jobs.runner():
        assert await answers() == [2, 4, 6]
        await eventually(
            lambda: sum(count >= 3 for count in crashes.values()) == len(PASSES), description="all went on", timeout=9
        )
        assert await answers() == [2, 4, 6]
        await eventually(lambda: jobs.health().is_ready, description="it is ready")
    told = {str(event.error) for event in recorder.of(ServicePassFailed)}
    told |= {str(event.error) for event in recorder.of(DatabaseFailed)}
    assert {f"{when} {kind.__name__}" for kind, _ in PASSES for when in ("before", "after")} <= told


async def test_runner_whose_claims_are_not_answered_is_not_ready(jobs: AsyncJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    @jobs.job("any")
    async def work() -> None: ...

    wedged, go = asyncio.Event(), asyncio.Event()

    async def wait(self: call_line.CallLine) -> None:
        wedged.set()
        await go.wait()

    async with jobs.runner() as runner:
        await (await work.enqueue()).wait(timeout=10)
        await eventually(lambda: jobs.health().is_ready, description="it is ready")
        with monkeypatch.context() as patch:
            patch.setattr(call_line.CallLine, "_turn", wait)
            patch.setattr(health, "STANDSTILL_SECONDS", 0.3)
            patch.setattr("asyncjobs.runner.STANDSTILL_SECONDS", 0.3)
            handle = await work.enqueue()
            await wedged.wait()
            await eventually(lambda: not jobs.health().is_alive, description="it is not alive")
            assert runner.health().is_confirmed, "its heartbeat goes on"
            assert runner.health().problems == ["the loop that claims jobs and writes outcomes stands still"]
        go.set()
        await handle.wait(timeout=10)
        assert jobs.health().is_alive


async def test_transaction_that_a_handler_leaves_aborted_does_not_keep_its_failure_from_being_written(
    jobs: AsyncJobs, dsn: str
) -> None:
    theirs = await asyncpg.connect(dsn, server_settings={"application_name": "test"})

    @jobs.job("careless", max_attempts=1)
    async def careless() -> None:
        await theirs.execute("BEGIN")
        with pytest.raises(asyncpg.DivisionByZeroError):
            await theirs.execute("SELECT 1/0")
        raise ValueError("after all")

    @jobs.job("next")
    async def following() -> str:
        return "fine"

    async with jobs.runner():
        job = await (await careless.enqueue()).wait(timeout=10)
        assert (job.status, job.error_message) == ("dead", "ValueError: after all")
        assert theirs.is_in_transaction()
        assert await (await following.enqueue()).result(timeout=10) == "fine"
    await theirs.close()


async def test_pool_that_is_used_up_keeps_no_outcome_and_no_beat_from_being_written(
    jobs: AsyncJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool is there for whoever looks something up. What a runner lives on does not come from it."""
    go = asyncio.Event()

    @jobs.job("waits")
    async def waits() -> int:
        await go.wait()
        return 1

    async with jobs.runner() as runner:
        handles = [await waits.enqueue() for _ in range(4)]
        pool = runner._opened.pool
        async with pool.take(), pool.take():
            beats = runner.heartbeat.beats
            go.set()
            await eventually(lambda: runner.health().running == 0, description="all have ended")
            await eventually(lambda: runner.health().unwritten == 0, description="all outcomes are written")
            runner.heartbeat.beat_now()
            await eventually(lambda: runner.heartbeat.beats > beats, description="a beat")
        assert [await handle.result(timeout=10) for handle in handles] == [1] * 4


OPEN = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
AND application_name LIKE 'asyncjobs%' AND xact_start IS NOT NULL AND state <> 'active'"""


async def test_no_transaction_is_open_while_a_handler_runs(jobs: AsyncJobs, connection: Connection, recorder: Recorder) -> None:
    go = asyncio.Event()

    @jobs.job("long")
    async def long() -> None:
        await go.wait()

    async with jobs.runner() as runner:
        handles = [await long.enqueue(), await long.using(serialization_key="k").enqueue()]
        await eventually(lambda: len(recorder.of(AttemptStarted)) == len(handles), description="both run")
        runner.wake()

        async def none() -> bool:  # a pass of a duty has one for a moment, a handler would keep it
            return bool(await connection.fetchval(OPEN) == 0)

        await eventually(none, description="no transaction is open")
        go.set()
        for handle in handles:
            await handle.wait(timeout=10)


@pytest.mark.direct("a session sends the last of its statistics when it ends, and the pooler keeps it")
async def test_a_job_is_updated_twice(jobs: AsyncJobs, connection: Connection, recorder: Recorder) -> None:
    """By its claim and by its outcome."""

    @jobs.job("short")
    async def short() -> None: ...

    async with jobs:
        await jobs.enqueue_many([short.new() for _ in range(50)])
        async with jobs.runner():
            await recorder.wait_for(AttemptEnded, lambda _: len(recorder.of(AttemptEnded)) == 50)

    async def updates() -> int:
        return int(await connection.fetchval("SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'jobs'"))

    assert await eventually(updates, description="the server's statistics are in") <= 100
    await asyncio.sleep(0)
    assert await updates() == 100


async def test_progress_of_the_attempt_before_is_there_for_the_next(jobs: AsyncJobs, recorder: Recorder) -> None:
    seen: list[Any] = []

    @jobs.job("long")
    async def long(ctx: JobContext) -> int:
        seen.append(ctx.job.progress)
        if ctx.attempt == 1 and len(seen) == 1:
            ctx.progress(0.4, "40")
            await asyncio.Event().wait()
        return int(str((ctx.job.progress or {})["note"]))

    async with jobs:
        async with jobs.runner(grace=0):
            handle = await long.enqueue()

            async def is_written() -> bool:
                job = await jobs.get(handle.id)
                return job is not None and job.progress is not None

            await eventually(is_written, description="the progress is written")
        async with jobs.runner():
            assert await handle.result(timeout=10) == 40
    assert seen == [None, {"done": 0.4, "note": "40"}]


NAMES = "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'asyncjobs%'"


async def test_connections_of_an_app_are_bounded(jobs: AsyncJobs, connection: Connection) -> None:
    """Eight beside the pool's two for an app with a runner, four for one that only enqueues, whatever is asked of it at once."""

    @jobs.job("any")
    async def work() -> None: ...

    async def ask() -> None:
        keyed, once = work.using(serialization_key="k"), work.using(dedup_key="d")
        await asyncio.gather(
            *(work.enqueue() for _ in range(50)), *(keyed.enqueue() for _ in range(50)),
            *(once.enqueue() for _ in range(50)),
            *(jobs.enqueue_many([work.new(), work.new()]) for _ in range(20)), *(jobs.admin.stats() for _ in range(20)),
        )  # fmt: skip

    async def count() -> int:
        return len(await connection.fetch(NAMES))

    async with jobs:
        await ask()
        alone = await count()
        async with jobs.runner():
            await ask()
            together = await count()
    assert alone <= 6, alone
    assert together <= 10, together
