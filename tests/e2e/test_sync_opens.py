"""`with jobs.sync()`: an app that plain threads open, one test a rule of open/sync_opens.py and open/other_threads.py."""

import _thread
import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from asyncjobs import AsyncJobs, DatabaseUnavailable, JobDied, JobRouter, JobType, NotOpen, SchemaMissing, WaitTimeout
from asyncjobs.errors import UsageError, WouldBlock
from asyncjobs.open.other_threads import wait_in, without_loop
from asyncjobs.store.database import Connection
from tests.support.eventually import eventually
from tests.support.notices import without_lot
from tests.support.program import Program


class Adding:
    """An app with a job type."""

    def __init__(self, dsn: str, schema: str, **settings: Any) -> None:
        router = JobRouter()

        @router.job("add", max_attempts=1)
        async def add(a: int, b: int = 1) -> int:
            if a < 0:
                raise ValueError(a)
            return a + b

        self.add: JobType[..., int] = add
        self.jobs = AsyncJobs(dsn, schema=schema, routers=[router], **settings)


@pytest.fixture
def here(dsn: str, schema: str) -> Adding:
    """The app that enqueues."""
    return Adding(dsn, schema)


@contextmanager
def running_elsewhere(app: AsyncJobs) -> Generator[asyncio.AbstractEventLoop]:
    """A runner of this app in another thread's loop."""
    loops: list[asyncio.AbstractEventLoop] = []
    over = asyncio.Event()
    begun = threading.Event()

    async def run() -> None:
        async with app.runner():
            loops.append(asyncio.get_running_loop())
            begun.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert begun.wait(20)
    try:
        yield loops[0]
    finally:
        loops[0].call_soon_threadsafe(over.set)
        thread.join(20)


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "asyncjobs sync"]


def test_without_a_loop_one_enqueues_waits_and_looks(here: Adding, dsn: str, schema: str) -> None:
    with running_elsewhere(Adding(dsn, schema).jobs), here.jobs.sync() as jobs:
        handle = here.add.enqueue_sync(1, b=2)
        assert handle.result_sync(timeout=10) == 3
        several = jobs.enqueue_many_sync([here.add.new(n) for n in range(5)])
        assert [one.result_sync(timeout=10) for one in several] == [1, 2, 3, 4, 5]
        named = jobs.enqueue_sync("add", {"a": -1}, correlation_id="x")
        with pytest.raises(JobDied):
            named.result_sync(timeout=10)
        assert named.wait_sync().status == "dead"
        found = jobs.get_sync(named.id)
        assert found is not None
        assert found.correlation_id == "x"
        assert jobs.get_sync(named.id + 1000) is None
        later = here.add.using(delay=600).enqueue_sync(1)
        for seconds in (0, 0.05):
            with pytest.raises(WaitTimeout):
                later.wait_sync(timeout=seconds)
        assert jobs.enqueue_many_sync([]) == []
    assert own_threads() == []


def test_an_app_that_is_open_in_a_loop_is_entered_there(here: Adding) -> None:
    with running_elsewhere(here.jobs) as loop:
        with here.jobs.sync():
            assert here.jobs.loop("it was looked at") is loop
            assert own_threads() == []
            assert here.add.enqueue_sync(1).result_sync(timeout=10) == 2
        assert here.add.enqueue_sync(2).result_sync(timeout=10) == 3, "it is still open"
    with pytest.raises(NotOpen, match="after AsyncJobs was closed"):
        here.add.enqueue_sync(1)


def test_a_loop_that_ended_meanwhile_is_left_without_a_word(here: Adding) -> None:
    with running_elsewhere(here.jobs):
        entered = here.jobs.sync()
        entered.__enter__()
        loop = here.jobs.loop("it was looked at")
        here.jobs.lifecycle._entered -= 1  # as if nobody but the runner held it: its loop ends
    assert loop.is_closed()
    entered.__exit__(None, None, None)
    with here.jobs.sync():
        assert here.add.enqueue_sync(1).id


def test_opens_are_counted_over_threads_and_the_last_closes(here: Adding) -> None:
    go_on, entered = threading.Event(), threading.Barrier(5)

    def enter() -> asyncio.AbstractEventLoop:
        with here.jobs.sync():
            entered.wait(20)
            assert go_on.wait(20)
            here.add.enqueue_sync(1)
            return here.jobs.loop("it was looked at")

    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(enter) for _ in range(4)]
        with here.jobs.sync(), here.jobs.sync():
            entered.wait(20)
            assert len(own_threads()) == 1
        go_on.set()
        loops = {one.result(20) for one in asked}
    assert len(loops) == 1
    assert own_threads() == []
    with pytest.raises(NotOpen):
        here.add.enqueue_sync(1)
    with here.jobs.sync():
        assert here.jobs.loop("it was looked at") not in loops
        assert here.add.enqueue_sync(1).id


def test_what_the_open_raises_is_raised_and_no_thread_stays(here: Adding, empty_dsn: str, schema: str) -> None:
    for made, error in (
        (Adding("postgresql://u@127.0.0.1:1/db", schema, connect_timeout=0.1), DatabaseUnavailable),
        (Adding(empty_dsn, schema), SchemaMissing),
    ):
        with pytest.raises(error), made.jobs.sync():
            raise AssertionError
        assert own_threads() == []
    with pytest.raises(LookupError), here.jobs.sync():
        raise LookupError
    assert own_threads() == []


async def test_in_a_loop_s_own_thread_nothing_waits_for_it(here: Adding) -> None:
    with pytest.raises(WouldBlock, match=r"^jobs.sync\(\) entered in an event loop's own thread would block it: async with jobs"):
        here.jobs.sync().__enter__()
    async with here.jobs:
        handle = await here.add.enqueue(1)
        calls: list[tuple[Callable[[], object], str]] = [
            (lambda: here.add.enqueue_sync(1), r"enqueue_sync .* would block it: await add.enqueue\(\.\.\.\)"),
            (lambda: here.jobs.enqueue_sync(here.add.new(1)), r"enqueue_sync .*: await add.enqueue\(\.\.\.\)"),
            (lambda: here.jobs.enqueue_many_sync([here.add.new(1)]), r"enqueue_many_sync .*: await jobs.enqueue_many\(\.\.\.\)"),
            (lambda: here.jobs.get_sync(1), r"get_sync .*: await jobs.get\(\.\.\.\)"),
            (handle.wait_sync, r"wait_sync .*: await handle.wait\(\.\.\.\)"),
            (handle.result_sync, r"wait_sync .*: await handle.wait\(\.\.\.\)"),
            (handle.children_sync, r"children_sync .*: await handle.children\(\.\.\.\)"),
        ]
        for call, told in calls:
            with pytest.raises(WouldBlock, match=told):
                call()


def test_where_it_is_not_open_one_is_told_how_to_open_it(here: Adding) -> None:
    calls: list[Callable[[], object]] = [
        lambda: here.add.enqueue_sync(1),
        lambda: here.jobs.enqueue_many_sync([]),
        lambda: here.jobs.get_sync(1),
        here.jobs.handle(1).wait_sync,
    ]
    for call in calls:
        with pytest.raises(NotOpen, match=r"without an event loop `with jobs.sync\(\):`"):
            call()


async def test_a_plain_def_handler_waits_for_its_child(here: Adding, dsn: str, schema: str) -> None:
    jobs = AsyncJobs(dsn, schema=schema)

    @jobs.job("child")
    async def child() -> str:
        return "done"

    @jobs.job("parent")
    def parent() -> str:
        handle = child.enqueue_sync()
        return handle.result_sync(timeout=10)

    async with jobs.runner():
        assert await (await parent.enqueue()).result(timeout=10) == "done"


FORKING = """
import os, sys
from asyncjobs import AsyncJobs, NotOpen

jobs = AsyncJobs(sys.argv[1])

@jobs.job("add")
async def add(a: int) -> None: ...

with jobs.sync():
    print("before", add.enqueue_sync(1).id, flush=True)
    child = os.fork()
    if child == 0:
        try:
            add.enqueue_sync(2)
        except NotOpen as error:
            print("fork:", error, flush=True)
        with jobs.sync():
            print("in the fork", add.enqueue_sync(3).id, flush=True)
    else:
        assert os.waitpid(child, 0)[1] == 0
        print("after", add.enqueue_sync(4).id, flush=True)
if child == 0:
    print("the fork has left", flush=True)
    sys.exit()
"""


async def test_a_fork_has_none_of_it(dsn: str, connection: Connection) -> None:
    async with Program.python("-W", "ignore::DeprecationWarning", "-c", FORKING, dsn) as program:
        assert "opened AsyncJobs: connections do not survive a fork" in await program.line("fork:")
        await program.succeeds()
    assert [line.split()[0] for line in program.output] == ["before", "fork:", "in", "the", "after"]
    assert await connection.fetchval("SELECT array_agg((payload ->> 'a')::int ORDER BY 1) FROM asyncjobs.jobs") == [1, 3, 4]


LEAVING_NOTHING = """
import atexit, sys
from contextlib import ExitStack
from asyncjobs import AsyncJobs

jobs = AsyncJobs(sys.argv[1])
atexit.register(lambda: print("open:", jobs.health().is_open))

@jobs.job("add")
async def add(a: int) -> None: ...

opened = ExitStack()
opened.enter_context(jobs.sync())
for n in range(20):
    add.enqueue_sync(n)
"""


async def test_at_the_interpreter_s_exit_it_is_left(dsn: str, connection: Connection) -> None:
    heard: list[str] = []
    await connection.add_listener(AsyncJobs(dsn).lifecycle.texts().channel, lambda *args: heard.append(without_lot(args[-1])))
    async with Program.python("-X", "dev", "-c", LEAVING_NOTHING, dsn) as program:
        await program.succeeds()
    assert program.output == ["open: False"]
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 20
    await eventually(lambda: "q:default" in heard, description="the runners were told")


def test_a_loop_that_ends_answers_nobody_and_says_so(here: Adding) -> None:
    told: list[BaseException] = []

    def wait(job_id: int) -> None:
        try:
            here.jobs.handle(job_id).wait_sync()
        except NotOpen as error:
            told.append(error)

    async def run() -> threading.Thread:
        await here.jobs.__aenter__()
        handle = await here.add.using(delay=600).enqueue(1)
        thread = threading.Thread(target=wait, args=(handle.id,))
        thread.start()
        await asyncio.sleep(0.1)
        return thread

    asyncio.run(run()).join(20)
    assert [str(error) for error in told] == [
        "the event loop that AsyncJobs was opened in has ended: what was asked of it may have been done, or not."
    ]
    with here.jobs.sync():
        assert here.add.enqueue_sync(1).id


@contextmanager
def loop_elsewhere() -> Generator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


def test_an_interrupted_wait_cancels_what_is_awaited() -> None:
    ended = threading.Event()

    async def forever() -> None:
        threading.Timer(0.1, _thread.interrupt_main).start()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    with loop_elsewhere() as loop:
        with pytest.raises(KeyboardInterrupt):
            wait_in(loop, forever)
        assert ended.wait(20)


def test_a_loop_that_was_closed_before_it_was_asked_is_told() -> None:
    with loop_elsewhere() as loop:
        pass
    with pytest.raises(NotOpen, match="has ended"):
        wait_in(loop, lambda: asyncio.sleep(0))


def test_a_loop_that_ends_with_the_question_unread_is_noticed() -> None:
    loop = asyncio.new_event_loop()
    closing = threading.Timer(0.1, loop.close)
    closing.start()
    with pytest.raises(NotOpen, match="has ended"):
        wait_in(loop, lambda: asyncio.sleep(3600))
    closing.join()


def test_what_waits_for_nothing_needs_no_loop() -> None:
    async def turns() -> int:
        await asyncio.sleep(0)
        return 5

    async def waits(future: "asyncio.Future[None]") -> None:
        await future

    assert without_loop(turns()) == 5
    with loop_elsewhere() as loop, pytest.raises(UsageError, match="it waits for something"):
        without_loop(waits(loop.create_future()))


FORKING_BESIDE_A_LOOP = """
import asyncio, gc, os, sys, threading
from asyncjobs import AsyncJobs

jobs = AsyncJobs(sys.argv[1])

@jobs.job("add")
async def add(a: int) -> None: ...

loop, may_end, is_open = asyncio.new_event_loop(), threading.Event(), threading.Event()

async def keep_open() -> None:
    async with jobs:
        await add.enqueue(1)
        is_open.set()
        while not may_end.is_set():
            await asyncio.sleep(0.01)

def run() -> None:
    loop.run_until_complete(keep_open())
    loop.close()

thread = threading.Thread(target=run)
thread.start()
is_open.wait()
print("before", flush=True)
child = os.fork()
if child == 0:
    jobs.lifecycle._forget_gone()  # as the next open would
    del loop, keep_open, run, thread
    gc.collect()
    with jobs.sync():
        print("in the fork", add.enqueue_sync(3).id, flush=True)
    gc.collect()
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
print("after", add.enqueue_sync(4).id, flush=True)
may_end.set()
thread.join()
"""


async def test_a_fork_closes_nothing_of_an_app_that_is_open_in_another_thread_s_loop(dsn: str, connection: Connection) -> None:
    async with Program.python("-W", "ignore::DeprecationWarning", "-c", FORKING_BESIDE_A_LOOP, dsn) as program:
        await program.succeeds()
    assert [line.split()[0] for line in program.output] == ["before", "in", "after"]
    assert await connection.fetchval("SELECT array_agg((payload ->> 'a')::int ORDER BY 1) FROM asyncjobs.jobs") == [1, 3, 4]
