"""Runners inside programs of every kind: they start, run jobs and stop in time, whatever the database does meanwhile."""

import asyncio
import contextvars
import signal
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asyncjobs import AsyncJobs, Job, JobHandle
from asyncjobs.store.database import Connection, quote_identifier
from tests.support.eventually import eventually
from tests.support.program import Program
from tests.support.proxy import Proxy

GRACE_SECONDS = 1.0
#: What starting and ending an interpreter takes on a busy machine.
SLACK_SECONDS = 2.0

WAYS = {
    "script": (["-m", "tests.programs.embedding", "script"], signal.SIGINT, 1),
    "run": (["-m", "tests.programs.embedding", "run"], signal.SIGTERM, 1),
    "aiohttp": (["-m", "tests.programs.embedding", "aiohttp"], signal.SIGTERM, 1),
    "two workers": (["-m", "uvicorn", "tests.programs.embedding:web", "--workers", "2"], signal.SIGTERM, 2),
}

ways = pytest.mark.parametrize("way", WAYS)


@asynccontextmanager
async def started(way: str, dsn: str, schema: str, **environment: str) -> AsyncGenerator[Program]:
    command, _, _ = WAYS[way]
    if "uvicorn" in command:
        command = [*command, "--port", str(free_port())]
    settings = {"ASYNCJOBS_DSN": dsn, "TEST_SCHEMA": schema, "TEST_GRACE": str(GRACE_SECONDS), **environment}
    async with Program.python(*command, env=settings) as program:
        yield program


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def seconds_to_end(program: Program, number: signal.Signals) -> float:
    """How long the program took to end after the signal, which its first process gets."""
    began = time.monotonic()
    program.process.send_signal(number)
    await program.wait(timeout=60)
    return time.monotonic() - began


class Observer:
    """Enqueues from the test's process, and looks at who runs."""

    def __init__(self, jobs: AsyncJobs, connection: Connection, schema: str) -> None:
        self._jobs = jobs
        self._connection = connection
        self._runners = f"{quote_identifier(schema)}.runners"

        @jobs.stub("embedding.work")
        async def work(seconds: float) -> int: ...  # type: ignore[empty-body]

        self.work = work

    async def pids(self) -> set[int]:
        return {row["pid"] for row in await self._connection.fetch(f"SELECT pid FROM {self._runners}")}

    async def runners_are(self, count: int) -> set[int]:
        async def are_there() -> bool:
            return len(await self.pids()) == count

        await eventually(are_there, description=f"{count} runners are registered", timeout=30)
        return await self.pids()

    async def job(self, handle: JobHandle[int]) -> Job:
        job = await self._jobs.get(handle.id)
        assert job is not None
        return job

    async def enqueue(self, seconds: float = 0, *, count: int = 1) -> list[JobHandle[int]]:
        return await self._jobs.enqueue_many([self.work.new(seconds) for _ in range(count)])


@pytest.fixture
async def observer(dsn: str, schema: str, connection: Connection) -> AsyncGenerator[Observer]:
    jobs = AsyncJobs(dsn, schema=schema)
    observer = Observer(jobs, connection, schema)
    async with jobs:
        yield observer


@ways
async def test_program_runs_jobs_and_stops_in_good_order(way: str, dsn: str, schema: str, observer: Observer) -> None:
    async with started(way, dsn, schema) as program:
        pids = await observer.runners_are(WAYS[way][2])
        (handle,) = await observer.enqueue()
        assert await handle.result(timeout=20) in pids
        assert await seconds_to_end(program, WAYS[way][1]) < GRACE_SECONDS + 1 + SLACK_SECONDS
    assert await observer.pids() == set()


@ways
async def test_program_stops_in_time_although_the_database_is_silent(way: str, dsn: str, schema: str, observer: Observer) -> None:
    async with Proxy(dsn) as proxy, started(way, proxy.dsn, schema) as program:
        await observer.runners_are(WAYS[way][2])
        await observer.enqueue(3600)
        await program.line("working")
        proxy.black_hole()
        assert await seconds_to_end(program, WAYS[way][1]) < GRACE_SECONDS + 1 + SLACK_SECONDS


@ways
async def test_program_stops_in_time_although_a_job_would_run_on(way: str, dsn: str, schema: str, observer: Observer) -> None:
    async with started(way, dsn, schema) as program:
        await observer.runners_are(WAYS[way][2])
        (handle,) = await observer.enqueue(3600)
        await program.line("working")
        assert await seconds_to_end(program, WAYS[way][1]) < GRACE_SECONDS + 1 + SLACK_SECONDS
    job = await observer.job(handle)
    assert (job.status, job.attempts) == ("pending", 0)


@ways
async def test_program_does_not_start_without_its_database(way: str, schema: str) -> None:
    began = time.monotonic()
    dsn = "postgresql://nobody@127.0.0.1:1/nothing"
    async with started(way, dsn, schema, TEST_CONNECT_TIMEOUT="0.5") as program:
        if way == "two workers":  # uvicorn starts its workers again and again
            await program.line("did not answer within 0.5 s")
            return
        assert await program.wait(timeout=30) != 0
        assert "DatabaseUnavailable" in program.said
    assert time.monotonic() - began < 0.5 + 5 + SLACK_SECONDS


@pytest.mark.parametrize("way", ["script", "run", "aiohttp"])
@pytest.mark.parametrize("answer", ["none", "closes"])
async def test_signal_ends_a_program_that_waits_for_its_database(way: str, answer: str, schema: str) -> None:
    asked = asyncio.Event()

    async def answer_badly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        if answer == "none":
            await reader.read()
        writer.close()

    async with await asyncio.start_server(answer_badly, "127.0.0.1", 0) as server:
        dsn = f"postgresql://nobody@127.0.0.1:{server.sockets[0].getsockname()[1]}/nothing"
        async with started(way, dsn, schema, TEST_CONNECT_TIMEOUT="60") as program:
            await asyncio.wait_for(asked.wait(), 20)
            assert await seconds_to_end(program, signal.SIGINT) < 2 + SLACK_SECONDS


async def test_four_workers_have_four_runners_and_as_many_slots_each(dsn: str, schema: str, observer: Observer) -> None:
    command = ["-m", "uvicorn", "tests.programs.embedding:web", "--workers", "4", "--port", str(free_port())]
    async with Program.python(*command, env={"ASYNCJOBS_DSN": dsn, "TEST_SCHEMA": schema}) as program:
        pids = await observer.runners_are(4)
        handles = await observer.enqueue(0.5, count=20)  # five slots each
        ran = [await handle.result(timeout=30) for handle in handles]
        assert {pid: ran.count(pid) for pid in pids} == dict.fromkeys(pids, 5)
        await seconds_to_end(program, signal.SIGTERM)


async def test_reload_leaves_one_runner(dsn: str, schema: str, observer: Observer, tmp_path: Path) -> None:
    module = tmp_path / "reloaded.py"
    module.write_text("from tests.programs.embedding import web\n", encoding="utf-8")
    command = ["-m", "uvicorn", "reloaded:web", "--reload", "--reload-dir", str(tmp_path), "--port", str(free_port())]
    settings = {"ASYNCJOBS_DSN": dsn, "TEST_SCHEMA": schema, "TEST_GRACE": "0"}
    async with Program.python(*command, env=settings, cwd=tmp_path) as program:
        (before,) = await observer.runners_are(1)
        for edit in range(3):
            module.write_text(f"from tests.programs.embedding import web\n# {edit}\n", encoding="utf-8")

            async def is_another(before: int = before) -> bool:
                return len(await observer.pids() - {before}) == 1

            await eventually(is_another, description="the reloaded program has a runner", timeout=30)
            (before,) = await observer.runners_are(1)
        (handle,) = await observer.enqueue()
        assert await handle.result(timeout=20) == before
        await seconds_to_end(program, signal.SIGTERM)


async def test_handlers_do_not_see_the_context_that_the_runner_was_entered_in(dsn: str, schema: str) -> None:
    request: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")
    jobs = AsyncJobs(dsn, schema=schema)

    @jobs.job("any")
    async def work() -> str:
        return request.get()

    @jobs.job("thread")
    def work_in_thread() -> str:
        return request.get()

    request.set("of whoever started the app")
    async with jobs.runner():
        request.set("of whoever enqueued")
        handles = [await work.enqueue(), await work_in_thread.enqueue()]
        assert [await handle.result(timeout=10) for handle in handles] == ["none", "none"]


async def test_runner_may_be_left_in_another_task_than_it_was_entered_in(dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)

    @jobs.job("any")
    async def work() -> str:
        return "ran"

    runner = jobs.runner()
    await asyncio.create_task(runner.__aenter__())
    assert await (await work.enqueue()).result(timeout=10) == "ran"
    await asyncio.create_task(runner.__aexit__(None, None, None))
