"""Runners inside programs of every kind: they start, run jobs and stop in time, whatever the database does meanwhile."""

import asyncio
import contextvars
import re
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from asyncjobs import AsyncJobs, Job, JobHandle
from asyncjobs.store.database import Connection, quote_identifier
from asyncjobs.testing import Proxy
from tests.support.eventually import Stopwatch, eventually
from tests.support.program import Program

GRACE_SECONDS = 0.3

UVICORN = ["-m", "uvicorn", "--factory", "tests.programs.embedding:web"]


class Way(NamedTuple):
    """A way to embed a runner: the command, the signal that ends it, and how many runners it has."""

    command: list[str]
    signal: signal.Signals
    runners: int = 1

    @property
    def is_served_by_uvicorn(self) -> bool:
        return "uvicorn" in self.command


WAYS = {
    "script": Way(["-m", "tests.programs.embedding", "script"], signal.SIGINT),
    "run": Way(["-m", "tests.programs.embedding", "run"], signal.SIGTERM),
    "aiohttp": Way(["-m", "tests.programs.embedding", "aiohttp"], signal.SIGTERM),
    "uvicorn": Way(UVICORN, signal.SIGINT),
    "two workers": Way([*UVICORN, "--workers", "2"], signal.SIGTERM, 2),
}


def ways(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", [pytest.param(WAYS[name], id=name) for name in names])


@asynccontextmanager
async def started(way: Way, dsn: str, schema: str, **environment: str) -> AsyncGenerator[Program]:
    command = [*way.command, "--port", str(free_port())] if way.is_served_by_uvicorn else way.command
    settings = {"ASYNCJOBS_DSN": dsn, "TEST_SCHEMA": schema, "TEST_GRACE": str(GRACE_SECONDS), **environment}
    async with Program.python(*command, env=settings) as program:
        yield program


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def told(program: Program, word: str) -> list[float]:
    """When the program said this word, by CLOCK_MONOTONIC: once for each of its processes."""
    return [float(line.split()[1]) for line in program.output if re.fullmatch(rf"{word} [\d.]+ of \d+", line)]


async def said(program: Program, word: str, times: int) -> None:
    """Wait until the program has said the word so often."""

    async def is_so() -> bool:
        return len(told(program, word)) == times

    await eventually(is_so, description=f"{program} says {word!r} {times} times", timeout=20)


async def end(program: Program, way: Way) -> float:
    """Signal the program's first process. For how long the app in its processes kept them from ending."""
    watch = Stopwatch()
    program.process.send_signal(way.signal)
    if way.is_served_by_uvicorn:
        # It looks at its signals now and then: every half second where there are workers, and each for itself, too.
        await said(program, "leaving", way.runners)
        watch.stop()
        watch = Stopwatch()
    await said(program, "left", way.runners)
    seconds = watch.stop()
    await program.wait(timeout=60)
    assert len(told(program, "left")) == way.runners, program.said
    return seconds


class Observer:
    """Enqueues from the test's process, and looks at who runs."""

    def __init__(self, jobs: AsyncJobs, connection: Connection, schema: str) -> None:
        self._jobs = jobs
        self._connection = connection
        self._schema = quote_identifier(schema)

        @jobs.stub("embedding.work")
        async def work(seconds: float) -> int: ...  # type: ignore[empty-body]

        self.work = work

    async def pids(self) -> set[int]:
        return {row["pid"] for row in await self._connection.fetch(f"SELECT pid FROM {self._schema}.runners")}

    async def runners_are(self, count: int) -> set[int]:
        async def are_there() -> bool:
            return len(await self.pids()) == count

        await eventually(are_there, description=f"{count} runners are registered", timeout=30)
        return await self.pids()

    async def running(self) -> dict[int, int]:
        """How many jobs each process runs."""
        query = (
            f"SELECT r.pid, count(*) FROM {self._schema}.jobs AS j JOIN {self._schema}.runners AS r ON r.id = j.runner_id "
            "WHERE j.status = 'processing' GROUP BY r.pid"
        )
        return {row["pid"]: row["count"] for row in await self._connection.fetch(query)}

    async def job(self, handle: JobHandle[int]) -> Job:
        job = await self._jobs.get(handle.id)
        assert job is not None
        return job

    async def rest(self) -> list[tuple[str, int]]:
        """What became of all jobs: status and attempts."""
        rows = await self._connection.fetch(f"SELECT status, attempts FROM {self._schema}.jobs ORDER BY id")
        return [(row["status"], row["attempts"]) for row in rows]

    async def enqueue(self, seconds: float = 0, *, count: int = 1) -> list[JobHandle[int]]:
        return await self._jobs.enqueue_many([self.work.new(seconds) for _ in range(count)])


@pytest.fixture
async def observer(dsn: str, schema: str, connection: Connection) -> AsyncGenerator[Observer]:
    jobs = AsyncJobs(dsn, schema=schema)
    observer = Observer(jobs, connection, schema)
    async with jobs:
        yield observer


@ways("script", "run", "aiohttp", "uvicorn")
async def test_program_runs_jobs_and_gives_back_what_runs_at_its_end(way: Way, dsn: str, schema: str, observer: Observer) -> None:
    async with started(way, dsn, schema) as program:
        pids = await observer.runners_are(way.runners)
        (handle,) = await observer.enqueue()
        assert await handle.result(timeout=20) in pids
        await observer.enqueue(3600)
        await said(program, "working", 2)
        assert await end(program, way) < GRACE_SECONDS + 1
    assert await observer.pids() == set()
    assert await observer.rest() == [("completed", 1), ("pending", 0)]


@ways("script", "run", "aiohttp", "two workers")
async def test_program_stops_in_time_although_the_database_is_silent(way: Way, dsn: str, schema: str, observer: Observer) -> None:
    async with Proxy(dsn) as proxy, started(way, proxy.dsn, schema) as program:
        pids = await observer.runners_are(way.runners)
        (handle,) = await observer.enqueue()
        assert await handle.result(timeout=20) in pids
        await observer.enqueue(3600)
        await said(program, "working", 2)
        proxy.black_hole()
        assert await end(program, way) < GRACE_SECONDS + 1


@ways("script", "uvicorn")
async def test_program_ends_when_its_database_does_not_answer_at_the_start(way: Way, schema: str) -> None:
    async with started(way, "postgresql://nobody@127.0.0.1:1/nothing", schema, TEST_CONNECT_TIMEOUT="0.5") as program:
        await program.line("entered")
        watch = Stopwatch()
        await program.line("left")
        assert watch.stop() < 0.5 + 0.5
        assert await program.wait(timeout=60) != 0
        assert "DatabaseUnavailable: 127.0.0.1:1 did not answer within 0.5 s (connect_timeout)" in program.said


@ways("run", "aiohttp", "uvicorn")
async def test_signal_ends_a_program_that_waits_for_its_database(way: Way, schema: str) -> None:
    asked = asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as server:
        dsn = f"postgresql://nobody@127.0.0.1:{server.sockets[0].getsockname()[1]}/nothing"
        async with started(way, dsn, schema, TEST_CONNECT_TIMEOUT="60") as program:
            await asyncio.wait_for(asked.wait(), 20)
            watch = Stopwatch()
            program.process.send_signal(way.signal)
            await program.line("left")
            assert watch.stop() < 2
            await program.wait(timeout=30)


@ways("two workers")
async def test_workers_have_a_runner_each_and_as_many_slots_each(way: Way, dsn: str, schema: str, observer: Observer) -> None:
    async with started(way, dsn, schema) as program:
        pids = await observer.runners_are(way.runners)
        handles = await observer.enqueue(count=10)
        assert {await handle.result(timeout=30) for handle in handles} <= pids
        await observer.enqueue(3600, count=10)  # five slots each
        await said(program, "working", 20)
        assert await observer.running() == dict.fromkeys(pids, 5)
        assert await end(program, way) < GRACE_SECONDS + 1
    assert await observer.pids() == set()
    assert await observer.rest() == [("completed", 1)] * 10 + [("pending", 0)] * 10


async def test_reload_leaves_one_runner_and_its_jobs_go_on(dsn: str, schema: str, observer: Observer, tmp_path: Path) -> None:
    module = tmp_path / "reloaded.py"
    module.write_text("from tests.programs.embedding import web\n", encoding="utf-8")
    watch = ["--reload", "--reload-dir", str(tmp_path), "--port", str(free_port())]
    settings = {"ASYNCJOBS_DSN": dsn, "TEST_SCHEMA": schema, "TEST_GRACE": "0"}
    async with Program.python("-m", "uvicorn", "--factory", "reloaded:web", *watch, env=settings, cwd=tmp_path) as program:
        (before,) = await observer.runners_are(1)
        (handle,) = await observer.enqueue(3600)
        for edit in range(2):
            await said(program, "working", edit + 1)
            module.write_text(f"from tests.programs.embedding import web\n# {edit}\n", encoding="utf-8")

            async def is_another(before: int = before) -> bool:
                pids = await observer.pids()
                assert len(pids) <= 1
                return bool(pids - {before})

            await eventually(is_another, description="the reloaded program has a runner", timeout=30)
            (before,) = await observer.pids()
        await said(program, "working", 3)
        program.process.send_signal(signal.SIGTERM)
        await program.wait(timeout=30)
    job = await observer.job(handle)
    assert (job.status, job.attempts) == ("pending", 0)


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
