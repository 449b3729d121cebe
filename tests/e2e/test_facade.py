"""The facade on a real database: what is declared runs, and what is refused leaves nothing behind."""

import asyncio
import logging
import os
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from asyncjobs import (
    AsyncJobs,
    EnqueueError,
    InvalidPayload,
    JobHandle,
    JobRouter,
    NewJob,
    NotOpen,
    PayloadTooLarge,
    Queue,
    SchemaMissing,
    UnknownLane,
    UnknownQueue,
)
from asyncjobs.store.database import Connection, quote_identifier
from asyncjobs.telemetry.events import RunnerStarted
from tests.support.eventually import eventually


def app(dsn: str, schema: str, *routers: JobRouter, **options: Any) -> AsyncJobs:
    return AsyncJobs(dsn, schema=schema, routers=routers, **options)


async def count(connection: Connection, schema: str) -> int:
    value: int = await connection.fetchval(f"SELECT count(*) FROM {quote_identifier(schema)}.jobs")
    return value


def declare() -> tuple[JobRouter, Any]:
    """A router of the test's own: declarations end with the first open."""
    router = JobRouter()

    @router.job("add")
    async def add(a: int, b: int = 2) -> int:
        return a + b

    return router, add


async def test_a_job_is_enqueued_run_and_answered(dsn: str, schema: str) -> None:
    router, add = declare()
    async with app(dsn, schema, router).runner() as runner:
        handle: JobHandle[int] = await add.enqueue(1)
        assert await handle.result(timeout=10) == 3
        job = await handle.wait(timeout=0)
        assert (job.status, job.payload, job.attempts, handle.created) == ("completed", {"a": 1}, 1, True)
        assert runner.id


async def test_many_jobs_keep_their_order_and_nothing_is_written_when_one_is_refused(
    dsn: str, schema: str, connection: Connection
) -> None:
    router, add = declare()
    jobs = app(dsn, schema, router, queues=[Queue("default")])
    async with jobs:
        handles = await jobs.enqueue_many(add.new(number) for number in range(1200))
        stored = [await jobs.get(handle.id) for handle in (handles[0], handles[700], handles[-1])]
        assert [job.payload["a"] for job in stored if job] == [0, 700, 1199]
        assert await jobs.enqueue_many([]) == []
        with pytest.raises(UnknownQueue):
            await jobs.enqueue_many([add.new(1), add.using(queue="mial").new(2)])
        wrong: Any = [add.new(1), add]
        with pytest.raises(EnqueueError, match=r"is no job: write add\.new\(\.\.\.\)"):
            await jobs.enqueue_many(wrong)
    assert await count(connection, schema) == 1200


async def test_a_queue_that_only_the_runner_was_given_can_be_enqueued_to(dsn: str, schema: str) -> None:
    router, add = declare()
    jobs = app(dsn, schema, router)
    async with jobs.runner(queues=[Queue("default"), Queue("bulk", concurrency=1)]):
        assert await (await add.using(queue="bulk").enqueue(1)).result(timeout=10) == 3


async def test_a_lane_that_only_the_runners_queue_has_can_be_enqueued_to(dsn: str, schema: str) -> None:
    router, add = declare()
    jobs = app(dsn, schema, router)
    async with jobs:
        with pytest.raises(UnknownLane, match='lane "fast" is not a lane of queue "default"'):
            await add.using(lane="fast").enqueue(1)
    async with jobs.runner(queues=[Queue("default", concurrency=2, lanes={"fast": 1})]):
        handle = await add.using(lane="fast").enqueue(1)
        assert await handle.result(timeout=10) == 3
        with pytest.raises(UnknownLane, match=r'lane "fsat" is not a lane of queue "default" \(fast\). Did you mean "fast"'):
            await add.using(lane="fsat").enqueue(1)
        assert jobs.queues["default"].lanes == {}  # another runner that is given no queues keeps no slots for it


@pytest.mark.direct("says that notifications arrive", only="poll")
async def test_at_start_one_line_says_what_runs_where(
    dsn: str, schema: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where logging is not configured, as in a first program."""
    monkeypatch.setattr(logging.Logger, "hasHandlers", lambda _: False)
    router, _ = declare()
    jobs = app(dsn, schema, router, queues=[Queue("default"), Queue("mail", concurrency=8)])
    started: list[RunnerStarted] = []
    jobs.events.subscribe(started.append, RunnerStarted)
    async with jobs.runner():
        await eventually(lambda: bool(started), description="the runner tells")
    (said,) = [text for text in capsys.readouterr().err.splitlines() if text.startswith("asyncjobs runs jobs")]
    parts = urlsplit(dsn)
    assert f"on {parts.hostname}:{parts.port}{parts.path}, schema {schema}, " in said
    assert said.endswith("queues and slots: default (10), mail (8); notifications arrive.")
    assert str(parts.password) not in said + repr(started)


async def test_by_name_the_payload_is_checked_and_the_result_typed_as_declared(dsn: str, schema: str) -> None:
    router, _ = declare()
    jobs = app(dsn, schema, router)
    async with jobs.runner():
        handle = await jobs.enqueue("add", {"a": 5}, priority=1)
        assert await handle.result(timeout=10) == 7
        with pytest.raises(InvalidPayload, match=r"add: expected int, got str - at \$\.a"):
            await jobs.enqueue("add", {"a": "5"})


async def test_a_limit_of_the_app_holds_also_for_jobs_made_before(dsn: str, schema: str) -> None:
    router = JobRouter()

    @router.job("text")
    async def text(value: str) -> None: ...

    made: NewJob[None] = text.new("x" * 100)
    async with app(dsn, schema, router, max_payload_bytes=50) as jobs:
        with pytest.raises(PayloadTooLarge, match="text: 112 bytes, at most 50"):
            await jobs.enqueue(made)
        with pytest.raises(PayloadTooLarge):
            text.new("x" * 100)


async def test_opens_nest_and_the_last_exit_closes_whichever_task_it_is_in(dsn: str, schema: str) -> None:
    router, add = declare()
    jobs = app(dsn, schema, router)
    await jobs.__aenter__()
    async with jobs, anyio.create_task_group() as group:
        group.start_soon(jobs.__aexit__, None, None, None)
    with pytest.raises(NotOpen):
        await add.enqueue(1)
    async with jobs:
        assert (await add.enqueue(1)).id


async def test_a_schema_that_is_not_there_names_the_command(empty_dsn: str) -> None:
    with pytest.raises(SchemaMissing, match="run `asyncjobs migrate"):
        async with AsyncJobs(empty_dsn):
            pass
    jobs = AsyncJobs(empty_dsn)
    assert await jobs.migrate()
    async with jobs:
        assert await jobs.migrate() == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 warns of what is tested here
async def test_a_fork_is_told_to_open_for_itself(dsn: str, schema: str) -> None:
    router, add = declare()
    jobs = app(dsn, schema, router)
    async with jobs:
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                add.enqueue_sync(1)
            except NotOpen as error:
                os.write(tell, str(error).encode())
            finally:
                os._exit(0)
        os.close(tell)
        message = await asyncio.to_thread(lambda: (os.read(told, 4096).decode(), os.waitpid(child, 0)))
        os.close(told)
    assert message[0] == (
        f'"add" was enqueued in process {child}, a fork of process {os.getpid()}, which had opened AsyncJobs: '
        "connections do not survive a fork, open it in this process."
    )


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_a_fork_that_opens_for_itself_enqueues_and_its_parent_goes_on(dsn: str, schema: str) -> None:
    router, add = declare()
    jobs = app(dsn, schema, router)

    async def enqueue() -> int:
        async with jobs:
            return int((await add.enqueue(1)).id)

    async with jobs:
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(tell, str(asyncio.run(enqueue())).encode())
            except Exception as error:  # noqa: BLE001 - the parent says what it was
                os.write(tell, repr(error).encode())
            finally:
                os._exit(0)
        os.close(tell)
        said, _ = await asyncio.to_thread(lambda: (os.read(told, 4096).decode(), os.waitpid(child, 0)))
        os.close(told)
        own = await add.enqueue(2)
        assert [(await jobs.get(job_id)) is not None for job_id in (int(said), own.id)] == [True, True]
