"""Which app an enqueue goes to, and what is said when there is none, several, or one that cannot be used from here."""

import asyncio
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asyncjobs import (
    AlreadyOpen,
    AmbiguousApp,
    AsyncJobs,
    Job,
    JobContext,
    JobRouter,
    NotIncluded,
    NotOpen,
    WouldBlock,
    WrongLoop,
)
from asyncjobs.context import current
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.open import current_app

LIFESPANS = (
    "Use lifespan=jobs.lifespan or `async with jobs:`, without an event loop `with jobs.sync():`. "
    "Lifespans do not run for mounted sub-apps nor under httpx.ASGITransport, and with a TestClient only in "
    "`with TestClient(app):`."
)


class Pretended:
    """The running side of an app, without a database."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.pid = os.getpid()
        self.rows: list[NewRow] = []

    async def enqueue(self, rows: list[NewRow], *, connection: Any, many: bool) -> list[Enqueued]:
        self.rows += rows
        return [Enqueued(index, True) for index, _ in enumerate(rows, 1)]

    async def enqueue_one(self, row: NewRow) -> Enqueued:
        return (await self.enqueue([row], connection=None, many=False))[0]


@contextmanager
def pretending_to_be_open(*apps: AsyncJobs) -> Generator[Pretended]:
    """The apps as they are when they are open in the running loop."""
    running: Any = Pretended(asyncio.get_running_loop())
    for app in apps:
        app.close_declarations()
        app.lifecycle.opened = running
        app.lifecycle.thread_name = "MainThread"
        current_app.opened(app)
    try:
        yield running
    finally:
        for app in apps:
            current_app.closed(app)
            app.lifecycle.opened = None


router = JobRouter()


@router.job("email")
async def send_email(to: str) -> None: ...


@pytest.fixture
def jobs() -> Generator[AsyncJobs]:
    made = AsyncJobs(routers=[router])
    yield made
    router.declarations.parents.clear()


async def test_the_one_open_app_that_includes_the_type_gets_the_job(jobs: AsyncJobs) -> None:
    other = AsyncJobs(schema="other")
    with pretending_to_be_open(jobs, other) as running:
        handle = await send_email.enqueue("a")
    assert (handle.id, handle.created, [row.payload for row in running.rows]) == (1, True, ['{"to":"a"}'])


async def test_before_the_first_open_it_says_how_to_open(jobs: AsyncJobs) -> None:
    with pytest.raises(NotOpen) as caught:
        await send_email.enqueue("a")
    assert str(caught.value) == f'"email" was enqueued before AsyncJobs was opened. {LIFESPANS}'


async def test_after_the_close_it_says_so(jobs: AsyncJobs) -> None:
    with pretending_to_be_open(jobs):
        pass
    with pytest.raises(NotOpen) as caught:
        await jobs.enqueue(send_email.new("a"))
    assert str(caught.value) == f'"email" was enqueued after AsyncJobs was closed. {LIFESPANS}'


async def test_a_router_that_no_app_includes_is_named_by_its_variable() -> None:
    with pytest.raises(NotIncluded) as caught:
        await send_email.enqueue("a")
    assert str(caught.value) == (
        f'job "email" belongs to a JobRouter (tests/unit/test_which_app.py:{_line_of("router = JobRouter()")}) '
        f"that no AsyncJobs includes: AsyncJobs(routers=[{__name__}.router])."
    )


async def test_two_open_apps_with_the_type_ask_for_the_one_that_is_meant(jobs: AsyncJobs) -> None:
    archive = AsyncJobs(schema="archive_jobs", routers=[router])
    with pretending_to_be_open(jobs, archive):
        with pytest.raises(AmbiguousApp) as caught:
            await send_email.enqueue("a")
        assert (await archive.enqueue(send_email.new("a"))).id == 1
    assert str(caught.value) == (
        'job "email" is in two open AsyncJobs (asyncjobs, archive_jobs): write jobs.enqueue(send_email.new(...)).'
    )


async def test_another_loop_is_told_of_enqueue_sync(jobs: AsyncJobs) -> None:
    caught: list[WrongLoop] = []

    def elsewhere() -> None:
        try:
            asyncio.run(send_email.enqueue("a"))
        except WrongLoop as error:
            caught.append(error)

    with pretending_to_be_open(jobs):
        thread = threading.Thread(target=elsewhere, name="Elsewhere")
        thread.start()
        await asyncio.to_thread(thread.join)
    message = str(caught[0])
    assert message.startswith(f"opened in loop {id(asyncio.get_running_loop()):#x} of thread MainThread, used from loop 0x")
    assert message.endswith(" of thread Elsewhere: use enqueue_sync there.")


async def test_enqueue_sync_works_from_a_thread_and_not_in_the_loop(jobs: AsyncJobs) -> None:
    with pretending_to_be_open(jobs):
        with pytest.raises(WouldBlock) as caught:
            send_email.enqueue_sync("a")
        assert (await asyncio.to_thread(send_email.enqueue_sync, "a")).id == 1
    assert str(caught.value) == (
        "enqueue_sync called in the event loop's own thread would block it: await send_email.enqueue(...)."
    )


def test_a_loop_that_ended_with_the_app_open_is_no_place_to_enqueue(jobs: AsyncJobs) -> None:
    async def opening() -> Pretended:
        with pretending_to_be_open(jobs) as running:
            return running

    async def enqueueing() -> None:
        with pytest.raises(
            NotOpen, match="after the event loop that AsyncJobs was opened in had ended: open it again in this loop"
        ):
            await send_email.enqueue("a")

    running: Any = asyncio.run(opening())
    jobs.lifecycle.opened = running
    current_app.opened(jobs)
    try:
        asyncio.run(enqueueing())
        with pytest.raises(NotOpen, match="had ended"):
            send_email.enqueue_sync("a")
    finally:
        current_app.closed(jobs)


@pytest.mark.parametrize("blocking", [False, True], ids=["async def", "def"])
async def test_in_an_attempt_its_app_gets_the_job_and_its_ids_are_passed_on(jobs: AsyncJobs, *, blocking: bool) -> None:
    archive = AsyncJobs(schema="archive_jobs", routers=[router])
    with pretending_to_be_open(jobs), pretending_to_be_open(archive) as archived:
        token = current.set(an_attempt(archive, job_id=812, correlation_id="trace"))
        try:
            if blocking:
                await asyncio.to_thread(send_email.enqueue_sync, "a")
                await asyncio.to_thread(send_email.using(correlation_id="own", parent_job_id=5).enqueue_sync, "b")
            else:
                await send_email.enqueue("a")
                await send_email.using(correlation_id="own", parent_job_id=5).enqueue("b")
        finally:
            current.reset(token)
    assert [(row.correlation_id, row.parent_job_id) for row in archived.rows] == [("trace", 812), ("own", 5)]


async def test_an_attempts_app_without_the_type_leaves_it_to_the_open_ones(jobs: AsyncJobs) -> None:
    other = AsyncJobs(schema="other")
    with pretending_to_be_open(jobs, other) as running:
        token = current.set(an_attempt(other, job_id=812, correlation_id=None))
        try:
            await send_email.enqueue("a")
        finally:
            current.reset(token)
    assert [row.parent_job_id for row in running.rows] == [812]


def an_attempt(jobs: AsyncJobs, *, job_id: int, correlation_id: str | None) -> JobContext:
    now = datetime.now(UTC)
    times: dict[str, Any] = {"scheduled_at": now, "run_at": now, "created_at": now, "updated_at": now}
    job = Job(id=job_id, type="parent", status="processing", queue="default", correlation_id=correlation_id, **times)
    claimed = SimpleNamespace(id=job_id, attempt=1, max_attempts=3, correlation_id=correlation_id)
    side: Any = SimpleNamespace(job=job, claimed=claimed)
    return JobContext(jobs=jobs, attempt=side)


async def test_declarations_end_with_the_first_open() -> None:
    late = JobRouter()
    jobs = AsyncJobs(routers=[late])
    with pretending_to_be_open(jobs):
        pass
    for declare in (late.job("late"), jobs.job("late")):
        with pytest.raises(AlreadyOpen) as caught:
            declare(_nothing)
        assert str(caught.value) == 'job "late" declared after AsyncJobs was opened: declare it at import, before the first open.'
    with pytest.raises(AlreadyOpen):
        jobs.include_router(JobRouter())


async def _nothing() -> None: ...


def _line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line == text)
