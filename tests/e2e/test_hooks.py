"""Hooks and shared resources of an app, with its database and a runner."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from asyncjobs import (
    AsyncJobs,
    ConfigurationError,
    Hook,
    HookFailed,
    InvalidOption,
    JobContext,
    JobHandle,
    NewJob,
    Outcome,
    Queue,
    UnknownQueue,
    resource,
)
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import HookRaised
from asyncjobs.testing import Recorder, assert_enqueued, captured, override, perform, refute_enqueued, run_until_idle
from tests.support.eventually import Stopwatch


class Stamp(Hook):
    """Stamps what is enqueued, and notes what it sees."""

    def __init__(self, name: str, seen: list[str], *, raises: str = "") -> None:
        self.name, self.seen, self.raises = name, seen, raises

    def note(self, what: str) -> None:
        self.seen.append(f"{what} {self.name}")
        if what == self.raises:
            raise LookupError("no tenant")

    async def before_enqueue(self, job: NewJob[Any], /) -> NewJob[Any]:
        self.note("before")
        return job.using(created_by=f"{job.row.created_by or ''}{self.name}", priority=7)

    async def after_enqueue(self, job: NewJob[Any], /, handle: JobHandle[Any] | None, error: BaseException | None) -> None:
        self.note("after" if handle else f"after {type(error).__name__}")


def make(dsn: str, *hooks: Hook) -> AsyncJobs:
    jobs = AsyncJobs(dsn, hooks=hooks, queues=[Queue("default", concurrency=50)])

    @jobs.job("leaf")
    async def leaf(number: int = 0) -> int:
        return number

    @jobs.job("parent")
    async def parent() -> None:
        await leaf.enqueue(1)

    return jobs


async def test_each_job_passes_the_hooks_in_order_and_back(dsn: str) -> None:
    seen: list[str] = []
    jobs = make(dsn, Stamp("a", seen), Stamp("b", seen))
    async with jobs:
        await jobs.enqueue("parent", {})
        assert seen == ["before a", "before b", "after b", "after a"]
        await run_until_idle(jobs)
        await assert_enqueued(jobs, "leaf", {"number": 1}, created_by="ab", priority=7)  # by a handler: the same way
        assert len(seen) == 8


async def test_a_hook_that_raises_ends_its_enqueue_and_no_other(dsn: str) -> None:
    seen: list[str] = []
    jobs = make(dsn, Stamp("a", seen), Stamp("b", seen, raises="before"))
    async with jobs:
        with pytest.raises(
            HookFailed, match=r'^job "leaf" was not enqueued: hook Stamp.before_enqueue raised LookupError: no tenant'
        ):
            await jobs.enqueue("leaf", {})
        assert seen == ["before a", "before b", "after HookFailed a"]
        await refute_enqueued(jobs, "leaf")
        jobs.hooks.enqueue[1].raises = ""  # type: ignore[attr-defined]
        await jobs.enqueue("leaf", {})
        await assert_enqueued(jobs, "leaf", count=1)


async def test_all_or_nothing_also_with_hooks(dsn: str) -> None:
    class Picky(Hook):
        async def before_enqueue(self, job: NewJob[Any], /) -> None:
            if '"number":2' in job.row.payload:
                raise ValueError("two")

    jobs = make(dsn, Picky())
    leaf = jobs.handlers["leaf"]
    async with jobs:
        news: list[NewJob[Any]] = [NewJob(leaf, (await _new(jobs, number)).row) for number in (1, 2)]
        with pytest.raises(HookFailed, match="ValueError: two"):
            await jobs.enqueue_many(news)
        await refute_enqueued(jobs, "leaf")


async def _new(jobs: AsyncJobs, number: int) -> NewJob[Any]:
    kept: list[NewJob[Any]] = []

    class Keeps(Hook):
        async def before_enqueue(self, job: NewJob[Any], /) -> None:
            kept.append(job)

    other = make("postgresql://nowhere.example.com/x", Keeps())
    with captured(other):
        await other.enqueue("leaf", {"number": number})
    return kept[0]


async def test_what_comes_too_late_is_reported_and_the_enqueue_stands(dsn: str, recorder: Recorder) -> None:
    seen: list[str] = []
    jobs = make(dsn, Stamp("a", seen), Stamp("b", seen, raises="after"))
    async with jobs:
        handle = await jobs.enqueue("leaf", {"number": 3})
        assert seen[-1] == "after a"
        [job] = await run_until_idle(jobs)
        assert (job.id, job.result) == (handle.id, 3)
    [event] = recorder.of(HookRaised)
    assert (event.hook, event.method, event.type) == ("Stamp", "after_enqueue", "leaf")


async def leaked() -> None:
    """A cancellation that was meant for something else."""
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await task


async def exits() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("leak", [leaked, exits])
async def test_what_a_hook_leaks_ends_neither_the_caller_nor_its_loop(dsn: str, recorder: Recorder, leak: Any) -> None:
    class Leaks(Hook):
        async def before_enqueue(self, job: NewJob[Any], /) -> None:
            if when == "before":
                await leak()

        async def after_enqueue(self, job: NewJob[Any], /, handle: Any, error: BaseException | None) -> None:
            if when == "after":
                await leak()

    seen: list[str] = []
    jobs = make(dsn, Stamp("a", seen), Leaks())
    async with jobs:
        when = "before"
        with pytest.raises(HookFailed, match=r"Leaks.before_enqueue raised (SystemExit|CancelledError)"):
            await jobs.enqueue("leaf", {})
        assert seen == ["before a", "after HookFailed a"]
        when = "after"
        await jobs.enqueue("leaf", {})
        await assert_enqueued(jobs, "leaf", count=1)
    [event] = recorder.of(HookRaised)
    assert (event.hook, event.method) == ("Leaks", "after_enqueue")
    assert seen[-1] == "after a"


async def test_cancellation_of_the_caller_goes_through_when_the_other_hooks_have_been_left(dsn: str, recorder: Recorder) -> None:
    waits = asyncio.Event()

    class Waits(Hook):
        async def after_enqueue(self, job: NewJob[Any], /, handle: Any, error: BaseException | None) -> None:
            waits.set()
            await asyncio.Event().wait()

    seen: list[str] = []
    jobs = make(dsn, Stamp("a", seen), Waits())
    async with jobs:
        task = asyncio.create_task(jobs.enqueue("leaf", {}))
        await waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["before a", "after a"]
        await assert_enqueued(jobs, "leaf", count=1)
    assert recorder.of(HookRaised) == []


async def test_a_refused_enqueue_is_told_to_the_hooks_too(dsn: str, connection: Connection) -> None:
    class Elsewhere(Hook):
        async def before_enqueue(self, job: NewJob[Any], /) -> NewJob[Any]:
            return job.using(queue="nowhere")

    seen: list[str] = []
    jobs = make(dsn, Stamp("a", seen), Elsewhere())
    async with jobs:
        with pytest.raises(UnknownQueue):
            await jobs.enqueue("leaf", {}, connection=connection)
    assert seen == ["before a", "after UnknownQueue a"]


async def test_a_hook_cannot_answer_another_type(dsn: str) -> None:
    class Swaps(Hook):
        async def before_enqueue(self, job: NewJob[Any], /) -> NewJob[Any]:
            return await _new(jobs, 1)

    jobs = make(dsn, Swaps())
    async with jobs:
        with pytest.raises(HookFailed, match="not a job of the same type"):
            await jobs.enqueue("parent", {})


def test_what_is_no_hook_is_refused() -> None:
    bad: list[tuple[Any, str]] = [
        ([print], r"hooks= has <built-in function print>: .* Events go to jobs\.events\.subscribe"),
        ([Stamp], "the class Stamp, not an object of it"),
        (5, r"hooks=5 is not a list"),
    ]
    for given, problem in bad:
        with pytest.raises(ConfigurationError, match=problem):
            AsyncJobs(hooks=given)


def test_only_what_is_overridden_is_called() -> None:
    class Nothing(Hook):
        pass

    class Attempts(Hook):
        async def after_attempt(self, ctx: JobContext, /, outcome: Outcome) -> None: ...

    attempts = Attempts()
    jobs = AsyncJobs(hooks=[Nothing(), attempts])
    assert (jobs.hooks.enqueue, jobs.hooks.attempt) == ((), (attempts,))


async def test_options_that_contradict_the_job_are_refused() -> None:
    new = await _new(make("postgresql://nowhere.example.com/x"), 1)
    assert new.using(delay=5, timeout=3).row.timeout_seconds == 3
    with pytest.raises(InvalidOption, match="give run_at or delay"):
        new.using(delay=5).using(run_at=(await _at()))
    with pytest.raises(InvalidOption, match="need a dedup_key"):
        new.using(dedup_for=5)
    assert new.row.delay_seconds is None


async def _at() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)


# -- resources


class Clients:
    """How many were opened and closed, and how often their handlers ran meanwhile."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.fails = 0
        self.shared = resource(self._open)

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator["Clients"]:
        if self.fails:
            self.fails -= 1
            raise ConnectionError("no route")
        self.log.append("open")
        await asyncio.sleep(0.05)
        yield self
        self.log.append("close")


@contextmanager
def using(dsn: str, clients: Clients) -> Generator[AsyncJobs]:
    jobs = make(dsn)

    @jobs.job("fetch", max_attempts=2)
    async def fetch(ctx: JobContext) -> bool:
        client = await ctx.use(clients.shared)
        clients.log.append("use")
        return client is clients

    yield jobs


async def test_a_runner_opens_one_for_fifty_attempts_and_closes_it_after_them(dsn: str) -> None:
    clients = Clients()
    with using(dsn, clients) as jobs:
        async with jobs.runner():
            handles = [await jobs.enqueue("fetch", {}) for _ in range(50)]
            assert all([await handle.result(timeout=20) for handle in handles])
        assert clients.log == ["open", *["use"] * 50, "close"]
        async with jobs.runner():  # another one has its own
            assert await (await jobs.enqueue("fetch", {})).result(timeout=20)
        assert clients.log[-3:] == ["open", "use", "close"]


async def test_one_that_fails_to_open_fails_the_attempt_and_the_runner_goes_on(dsn: str) -> None:
    clients = Clients()
    clients.fails = 1
    with using(dsn, clients) as jobs:
        async with jobs:
            await jobs.enqueue("fetch", {})
            [failed] = await run_until_idle(jobs)
            assert failed.status == "failed"
            assert (failed.last_error or "").endswith('resource "Clients._open" did not open: ConnectionError: no route.')


async def test_a_stop_waits_for_a_closing_no_longer_than_its_deadline(dsn: str) -> None:
    closing = asyncio.Event()

    @resource
    @asynccontextmanager
    async def slow() -> AsyncGenerator[int]:
        yield 1
        closing.set()
        await asyncio.Event().wait()

    jobs = make(dsn)

    @jobs.job("uses")
    async def uses(ctx: JobContext) -> int:
        return await ctx.use(slow)

    async with jobs.runner(grace=0):
        assert await (await jobs.enqueue("uses", {})).result(timeout=20) == 1
        watch = Stopwatch()
    assert closing.is_set()
    assert watch.stop() < 5


async def test_tests_put_others_in_their_place(dsn: str) -> None:
    clients = Clients()

    @resource
    @asynccontextmanager
    async def fake() -> AsyncGenerator[str]:
        yield "fake"

    with using(dsn, clients) as jobs:
        with override(jobs, stand_ins={clients.shared: fake}):
            await jobs_enqueue(jobs)
            [job] = await run_until_idle(jobs)
            assert job.result is False
        assert clients.log == ["use"]
        assert jobs.stand_ins == {}


async def jobs_enqueue(jobs: AsyncJobs) -> None:
    async with jobs:
        await jobs.enqueue("fetch", {})


async def test_perform_has_resources_and_hooks_too() -> None:
    clients, seen = Clients(), list[str]()

    class Notes(Hook):
        async def after_attempt(self, ctx: JobContext, /, outcome: Outcome) -> None:
            seen.append(outcome.kind)

    jobs = AsyncJobs(hooks=[Notes()])

    @jobs.job("fetch")
    async def fetch(ctx: JobContext) -> bool:
        return await ctx.use(clients.shared) is clients

    assert await perform(fetch.new()) is True
    assert (clients.log, seen) == (["open", "close"], ["completed"])
