"""Stopping: in time whatever handlers and the database do, and with as much written as the time allows."""

import asyncio
import signal
from typing import Any

import pytest

from asyncjobs import AsyncJobs, JobContext, Queue, Runner
from asyncjobs.store.database import Connection, quote_identifier
from asyncjobs.telemetry.events import Event, RunnerStopped
from asyncjobs.testing import Proxy
from tests.support.eventually import Stopwatch, eventually
from tests.support.program import Program

pytestmark = pytest.mark.hurried


class Work:
    """An app with a handler that ends when it is let go, and what became of it."""

    def __init__(self, dsn: str, schema: str, connection: Connection, **options: Any) -> None:
        self.go = asyncio.Event()
        self.running = 0
        self.stopped: list[RunnerStopped] = []
        self.jobs = AsyncJobs(dsn, schema=schema, **options)
        self.jobs.events.subscribe(self._note)
        self._connection = connection
        self._schema = quote_identifier(schema)

        @self.jobs.job("wait")
        async def wait() -> str:
            self.running += 1
            await self.go.wait()
            return "done"

        self.wait = wait

    def _note(self, event: Event) -> None:
        if isinstance(event, RunnerStopped):
            self.stopped.append(event)

    async def start(self, count: int) -> list[int]:
        """So many jobs, all of which run; their ids."""
        handles = await self.jobs.enqueue_many([self.wait.new() for _ in range(count)])
        await eventually(lambda: self.running == count, description="all run")
        return [handle.id for handle in handles]

    async def rest(self) -> list[tuple[str, int]]:
        """What became of all jobs: status and attempts."""
        rows = await self._connection.fetch(f"SELECT status, attempts FROM {self._schema}.jobs ORDER BY id")
        return [(row["status"], row["attempts"]) for row in rows]

    async def runners(self) -> int:
        """How many are registered."""
        count: int = await self._connection.fetchval(f"SELECT count(*) FROM {self._schema}.runners")
        return count


async def test_job_that_ends_while_the_database_is_away_is_written_when_it_comes_back_within_the_grace(
    dsn: str, schema: str, connection: Connection
) -> None:
    async with Proxy(dsn) as proxy:
        work = Work(proxy.dsn, schema, connection)
        async with work.jobs.runner(grace=20) as runner:
            await work.start(2)
            proxy.reset()
            proxy.refuse()
            stopping = asyncio.create_task(runner.stop())
            work.go.set()
            await eventually(lambda: work.jobs.health().runners[0].unwritten == 2, description="both wait to be written")
            await eventually(lambda: work.jobs.health().runners[0].error, description="the database was found to be away")
            proxy.heal()
            await stopping
        assert await work.rest() == [("completed", 1)] * 2
        assert await work.runners() == 0
    assert work.stopped[0].abandoned_job_ids == []


async def test_second_stop_does_not_wait_for_a_database_that_is_away(dsn: str, schema: str, connection: Connection) -> None:
    async with Proxy(dsn) as proxy:
        work = Work(proxy.dsn, schema, connection)
        async with work.jobs.runner(grace=60) as runner:
            ids = await work.start(2)
            proxy.black_hole()
            stopping = asyncio.create_task(runner.stop())
            work.go.set()
            await eventually(lambda: work.jobs.health().runners[0].unwritten == 2, description="both wait to be written")
            watch = Stopwatch()
            await runner.stop()
            await stopping
            assert watch.stop() < 1
        assert work.stopped[0].abandoned_job_ids == ids
        assert await work.rest() == [("processing", 1)] * 2
        assert await work.runners() == 1  # the rescue finds it


async def test_jobs_whose_outcomes_a_stop_could_not_write_run_again_at_the_price_of_an_attempt(
    dsn: str, schema: str, connection: Connection
) -> None:
    times: dict[str, Any] = {"heartbeat": 0.2, "runner_timeout": 1.2, "rescue_interval": 0.2}
    async with Proxy(dsn) as proxy:
        work = Work(proxy.dsn, schema, connection, **times)
        async with work.jobs.runner(grace=0.3):
            ids = await work.start(2)
            proxy.black_hole()
            work.go.set()
            await eventually(lambda: work.jobs.health().runners[0].unwritten == 2, description="both wait to be written")
        assert work.stopped[0].abandoned_job_ids == ids
    other = Work(dsn, schema, connection, **times)
    other.go.set()
    async with other.jobs.runner():
        for job_id in ids:
            assert (await other.jobs.handle(job_id).wait(timeout=20)).result == "done"
    assert (work.running, other.running, await work.rest()) == (2, 2, [("completed", 2)] * 2)


async def test_stop_with_the_database_silent_ends_in_time_and_names_what_it_leaves(
    dsn: str, schema: str, connection: Connection
) -> None:
    async with Proxy(dsn) as proxy:
        work = Work(proxy.dsn, schema, connection)
        async with work.jobs.runner(grace=0.3):
            ids = await work.start(3)
            proxy.black_hole()
            watch = Stopwatch()
        assert watch.stop() < 0.3 + 1  # of the app, too
    assert work.stopped[0].abandoned_job_ids == ids


async def test_idle_runner_does_not_wait_for_a_silent_database(dsn: str, schema: str, connection: Connection) -> None:
    async with Proxy(dsn) as proxy:
        work = Work(proxy.dsn, schema, connection, poll_interval=0.05)
        async with work.jobs.runner(grace=60):
            proxy.black_hole()
            await eventually(lambda: work.jobs.health().runners[0].answered_age_seconds > 0.3, description="a claim is under way")
            watch = Stopwatch()
        assert watch.stop() < 1


@pytest.mark.parametrize("by", ["handlers", "the grace", "a second stop"])
async def test_stop_claims_nothing_more_in_any_queue_and_writes_every_outcome(
    by: str, dsn: str, schema: str, connection: Connection
) -> None:
    queues = [Queue(f"q{number}", concurrency=1) for number in range(10)]
    work = Work(dsn, schema, connection, queues=[Queue(), *queues])
    async with work.jobs.runner(grace=0.3 if by == "the grace" else 60) as runner:
        jobs = [work.wait.using(queue=queue.name).new() for queue in queues for _ in range(2)]
        await work.jobs.enqueue_many(jobs)
        await eventually(lambda: work.running == 10, description="one of each queue runs")
        stopping = asyncio.create_task(runner.stop())
        await work.jobs.enqueue_many([work.wait.using(queue="default").new()])  # still possible, and for somebody else
        if by == "handlers":
            work.go.set()
        elif by == "a second stop":
            await runner.stop()
        await stopping
    assert work.running == 10
    rest = await work.rest()
    ended = ("completed", 1) if by == "handlers" else ("pending", 0)
    assert sorted(rest) == sorted([ended] * 10 + [("pending", 0)] * 11)
    assert await work.runners() == 0


async def test_stops_meet_wherever_they_are_called(dsn: str, schema: str, connection: Connection) -> None:
    """Several at a time, one by a handler, and the block's own."""
    work = Work(dsn, schema, connection)
    ended = asyncio.Event()

    @work.jobs.job("stopper")
    async def stopper(ctx: JobContext) -> str:
        await runners[0].stop()  # only asks
        await ctx.jobs.enqueue(work.wait.new())
        ended.set()
        return "asked"

    runners: list[Runner] = []
    async with work.jobs.runner(grace=20) as runner:
        runners.append(runner)
        await stopper.enqueue()
        await ended.wait()
        await asyncio.gather(runner.wait_stopped(), *(runner.stop() for _ in range(3)))
        await runner.stop()
    assert await work.rest() == [("completed", 1), ("pending", 0)]
    assert len(work.stopped) == 1


async def test_stop_whose_caller_is_cancelled_ends_all_the_same(dsn: str, schema: str, connection: Connection) -> None:
    work = Work(dsn, schema, connection)

    async def main() -> None:
        async with work.jobs.runner(grace=60):
            await work.start(1)

    task = asyncio.create_task(main())
    await eventually(lambda: work.jobs.health().runners and work.jobs.health().runners[0].is_stopping, description="it stops")
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()
    assert work.jobs.health().runners == []
    assert await work.rest() == [("pending", 0)]


async def enqueue(dsn: str, schema: str, name: str, **payload: Any) -> None:
    jobs = AsyncJobs(dsn, schema=schema)
    jobs.stub(name)(_stub)
    async with jobs:
        await jobs.enqueue(name, payload)


async def _stub(seconds: float = 0) -> None: ...


async def stopped(program: Program, *signals: signal.Signals) -> float:
    """For how long the program went on after the signals. Its process ended, too."""
    watch = Stopwatch()
    for number in signals:
        program.process.send_signal(number)
    await program.line("left ")
    seconds = watch.stop()
    await program.wait(timeout=20)
    return seconds


@pytest.mark.unaudited("jobs that ignore their end are left to the rescue, which comes when their process is gone")
@pytest.mark.parametrize("name", ["embedding.stubborn", "embedding.stuck"])
async def test_program_ends_in_time_although_a_handler_does_not(name: str, dsn: str, schema: str, connection: Connection) -> None:
    env = {"ASYNCJOBS_DSN": dsn, "TEST_SCHEMA": schema, "TEST_GRACE": "0.3"}
    async with Program.python("-m", "tests.programs.embedding", "run", env=env) as program:
        await enqueue(dsn, schema, name)
        await program.line("working")
        assert await stopped(program, signal.SIGTERM) < 0.3 + 1
    work = Work(dsn, schema, connection)
    is_gone = name == "embedding.stubborn"  # with its loop
    assert await work.rest() == [("pending", 0) if is_gone else ("processing", 1)]
    assert await work.runners() == (0 if is_gone else 1)  # nobody else starts the job while it may still run


async def test_second_signal_cuts_the_grace_of_run_short(dsn: str, schema: str, connection: Connection) -> None:
    env = {"ASYNCJOBS_DSN": dsn, "TEST_SCHEMA": schema, "TEST_GRACE": "60"}
    async with Program.python("-m", "tests.programs.embedding", "run", env=env) as program:
        await enqueue(dsn, schema, "embedding.work", seconds=3600)
        await program.line("working")
        assert await stopped(program, signal.SIGTERM, signal.SIGINT) < 1
        assert program.process.returncode == 0
    assert await Work(dsn, schema, connection).rest() == [("pending", 0)]


async def test_second_signal_cuts_the_grace_under_uvicorn_short(dsn: str, schema: str, connection: Connection) -> None:
    """It minds a second SIGINT, once it waits for the end of the app."""
    env = {"ASYNCJOBS_DSN": dsn, "TEST_SCHEMA": schema, "TEST_GRACE": "60"}
    uvicorn = ["-m", "uvicorn", "--factory", "tests.programs.embedding:web", "--port", "0"]
    async with Program.python(*uvicorn, env=env) as program:
        await enqueue(dsn, schema, "embedding.work", seconds=3600)
        await program.line("working")
        program.process.send_signal(signal.SIGINT)
        await program.line("leaving")
        assert await stopped(program, signal.SIGINT) < 1
    assert await Work(dsn, schema, connection).rest() == [("pending", 0)]


async def test_loop_that_is_torn_down_does_not_keep_outcomes_from_being_written(
    dsn: str, schema: str, connection: Connection
) -> None:
    """As `asyncio.run` does when it is interrupted: it cancels every task there is, and waits for them."""
    work = Work(dsn, schema, connection)

    async def main() -> None:
        async with work.jobs.runner(grace=60):
            await work.start(1)
            await asyncio.Event().wait()

    task = asyncio.create_task(main())
    await eventually(lambda: work.running == 1, description="it runs")
    own = asyncio.current_task()
    for one in asyncio.all_tasks() - {own}:
        one.cancel()
    watch = Stopwatch()
    await asyncio.wait({task})
    assert watch.stop() < 1
    assert await work.rest() == [("pending", 0)]
    assert await work.runners() == 0
