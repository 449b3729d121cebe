"""One app in several event loops, one after the other, and several runners in one process."""

import asyncio
import threading
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from asyncjobs import AsyncJobs, DatabaseUnavailable, JobRouter, NotOpen, Queue, Runner, UsageError, WrongLoop
from asyncjobs.store.database import Connection, quote_identifier
from asyncjobs.testing import Proxy
from tests.support.eventually import eventually, patience
from tests.support.steps import cancelled_at


def declare() -> tuple[JobRouter, Any]:
    router = JobRouter()

    @router.job("double")
    async def double(n: int) -> int:
        return 2 * n

    return router, double


async def in_another_loop(function: Any) -> Any:
    """What `asyncio.run` of the function answers, in a thread of its own."""
    return await asyncio.to_thread(lambda: asyncio.run(function()))


async def test_app_runs_in_one_loop_after_the_other(dsn: str, schema: str) -> None:
    router, double = declare()
    jobs = AsyncJobs(dsn, schema=schema, routers=[router])

    async def main() -> int:
        async with jobs.runner():
            result: int = await (await double.enqueue(21)).result(timeout=10)
            return result

    assert [await in_another_loop(main) for _ in range(2)] == [42, 42]
    async with jobs.runner():
        assert await (await double.enqueue(1)).result(timeout=10) == 2


async def test_app_survives_a_loop_that_ended_in_the_middle(dsn: str, schema: str) -> None:
    router, double = declare()
    jobs = AsyncJobs(dsn, schema=schema, routers=[router])

    async def crash() -> None:
        async with jobs.runner(grace=0):
            raise ZeroDivisionError

    async def forget() -> None:
        await jobs.__aenter__()
        await double.enqueue(1)

    with pytest.raises(ZeroDivisionError):
        await in_another_loop(crash)
    await in_another_loop(forget)
    with pytest.raises(NotOpen, match="the event loop that AsyncJobs was opened in had ended"):
        await double.enqueue(1)
    async with jobs.runner():
        assert await (await double.enqueue(1)).result(timeout=10) == 2


async def test_runner_of_another_loop_is_refused_while_the_app_is_open(dsn: str, schema: str) -> None:
    router, double = declare()
    jobs = AsyncJobs(dsn, schema=schema, routers=[router])

    async def main() -> None:
        async with jobs.runner():
            pass

    async with jobs.runner():
        with pytest.raises(WrongLoop, match=r"opened in loop 0x\w+ of thread MainThread, used from loop 0x\w+ of thread"):
            await in_another_loop(main)
        assert await (await double.enqueue(1)).result(timeout=10) == 2


async def test_leaving_more_often_than_entering_is_refused(dsn: str, schema: str) -> None:
    router, double = declare()
    jobs = AsyncJobs(dsn, schema=schema, routers=[router])
    with pytest.raises(NotOpen, match="left without having been entered"):
        await jobs.__aexit__(None, None, None)
    async with jobs:
        pass
    with pytest.raises(NotOpen, match="left without having been entered"):
        await jobs.__aexit__(None, None, None)
    async with jobs:
        await double.enqueue(1)
    with pytest.raises(NotOpen):
        await double.enqueue(1)


async def test_runners_of_one_process_share_an_app_and_count_for_themselves(
    dsn: str, schema: str, connection: Connection
) -> None:
    router = JobRouter()
    running: list[str] = []
    full = asyncio.Event()

    @router.job("wait", queue="a")
    async def wait() -> None:
        running.append("a")
        if len(running) == 5:
            full.set()
        await full.wait()

    @router.job("other", queue="b")
    async def other() -> str:
        return "ran"

    jobs = AsyncJobs(dsn, schema=schema, routers=[router], queues=[Queue("a", concurrency=2), Queue("b", concurrency=1)])
    async with jobs.runner(queues=["a"]) as first, jobs.runner(queues=["a", "b"]) as second:
        async with jobs.runner(queues=[Queue("a", concurrency=1)]) as third:
            rows = await connection.fetch(f"SELECT id, pid, queues FROM {quote_identifier(schema)}.runners")
            assert {row["id"]: row["queues"] for row in rows} == {first.id: ["a"], second.id: ["a", "b"], third.id: ["a"]}
            assert len({row["pid"] for row in rows}) == 1
            handles = await jobs.enqueue_many([wait.new() for _ in range(5)])  # all five slots at once
            await asyncio.gather(*(handle.wait(timeout=10) for handle in handles))
            assert len(jobs.health().runners) == 3
        assert await (await other.enqueue()).result(timeout=10) == "ran"  # the others go on
        assert [runner.id for runner in jobs.health().runners] == [first.id, second.id]
    assert jobs.health().runners == []


@pytest.mark.unaudited("the auditor knows one schema")
async def test_two_apps_of_one_process_run_beside_each_other(dsn: str, schema: str) -> None:
    first, second = AsyncJobs(dsn, schema=schema), AsyncJobs(dsn, schema="another", auto_migrate=True)

    @first.job("first")
    async def one() -> str:
        return await (await two.enqueue()).result(timeout=10) + " from the first"

    @second.job("second")
    async def two() -> str:
        return "of the second"

    async with first.runner(), second.runner():
        assert await (await one.enqueue()).result(timeout=10) == "of the second from the first"


async def test_thread_that_enqueues_while_the_app_closes_is_answered_each_time(
    dsn: str, schema: str, connection: Connection
) -> None:
    router, double = declare()
    jobs = AsyncJobs(dsn, schema=schema, routers=[router])
    made: list[int] = []
    errors: list[Exception] = []
    busy = threading.Event()

    def hammer() -> None:
        while True:
            try:
                made.append(double.enqueue_sync(1).id)
            except (UsageError, DatabaseUnavailable) as error:
                errors.append(error)
                return
            if len(made) == 20:
                busy.set()

    async def main() -> None:
        async with jobs.runner(grace=0):
            threads = [asyncio.create_task(asyncio.to_thread(hammer)) for _ in range(3)]
            await asyncio.to_thread(busy.wait)
        async with patience(10):
            await asyncio.gather(*threads)

    await in_another_loop(main)
    assert len(errors) == 3
    there = await connection.fetch(f"SELECT id FROM {quote_identifier(schema)}.jobs")
    assert set(made) <= {row["id"] for row in there}


async def test_start_that_loses_its_database_says_so_in_time(dsn: str, schema: str) -> None:
    """It went away after the app was opened, before the runner was known."""
    router, double = declare()
    async with Proxy(dsn) as proxy:
        jobs = AsyncJobs(proxy.dsn, schema=schema, routers=[router], connect_timeout=0.5)
        async with jobs:
            proxy.black_hole()
            with pytest.raises(DatabaseUnavailable, match=r"did not answer within 0\.5 s \(connect_timeout\)"):
                async with patience(3), jobs.runner():
                    pass
            assert jobs.health().runners == []
            proxy.heal()
            async with jobs.runner():
                assert await (await double.enqueue(1)).result(timeout=10) == 2


async def test_start_that_is_cancelled_at_any_of_its_awaits_leaves_nothing(dsn: str, schema: str, connection: Connection) -> None:
    jobs = AsyncJobs(dsn, schema=schema)

    @jobs.job("double")
    async def double(n: int) -> int:
        return 2 * n

    async def start() -> None:
        runners.append(jobs.runner(grace=0))
        await runners[-1].__aenter__()

    runners: list[AbstractAsyncContextManager[Runner]] = []
    step = 1
    while await cancelled_at(step, start):
        step += 1
        assert not jobs.health().is_open
        assert await connection.fetchval(f"SELECT count(*) FROM {quote_identifier(schema)}.runners") == 0
    assert await (await double.enqueue(1)).result(timeout=10) == 2
    await runners[-1].__aexit__(None, None, None)


async def test_start_that_is_cancelled_before_its_row_was_confirmed_takes_it_away(
    dsn: str, schema: str, connection: Connection
) -> None:
    async def rows() -> int:
        count: int = await connection.fetchval(f"SELECT count(*) FROM {quote_identifier(schema)}.runners")
        return count

    async with Proxy(dsn) as proxy, AsyncJobs(proxy.dsn, schema=schema) as jobs:
        await jobs.get(1)  # the pool is connected
        proxy.delay(0.4, "pool")  # of each answer: to the preparation, and to the insert
        starting = asyncio.create_task(jobs.runner().__aenter__())
        await eventually(rows, description="the runner's row is there")
        proxy.heal()
        starting.cancel()
        await asyncio.wait({starting})
        assert await rows() == 0
