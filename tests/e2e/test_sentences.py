"""Sentences that say what applies: in another loop, for a number that no job has, for a schedule that is not there yet."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from asyncjobs import AsyncJobs, InvalidOption, JobRouter, ScheduleNotFound, WrongLoop, gather

ROUTER = JobRouter()


@ROUTER.job("email")
async def email(to: str) -> None: ...


@ROUTER.cron("nightly", "0 3 * * *")
async def nightly() -> None: ...


@pytest.mark.parametrize("number", [0, -1, 2**63, -(2**70)])
async def test_there_is_no_job_of_a_number_that_no_job_can_have(dsn: str, number: int) -> None:
    async with AsyncJobs(dsn) as jobs:
        assert await jobs.get(number) is None


@pytest.mark.parametrize("number", ["5", 5.0, True, None])
async def test_what_is_no_number_is_refused(dsn: str, number: Any) -> None:
    async with AsyncJobs(dsn) as jobs:
        with pytest.raises(InvalidOption, match="is no job's id"):
            await jobs.get(number)


ASKING: dict[str, Callable[[AsyncJobs], Awaitable[Any]]] = {
    "result": lambda jobs: jobs.handle(1).result(),
    "gather": lambda jobs: gather([jobs.handle(1)]),
    "get": lambda jobs: jobs.get(1),
    "admin": lambda jobs: jobs.admin.stats(),
}


@pytest.mark.parametrize("asking", ASKING)
async def test_whoever_asks_in_another_loop_is_told_what_applies(dsn: str, asking: str) -> None:
    async with AsyncJobs(dsn, routers=[ROUTER]) as jobs:
        told: list[str] = []

        def elsewhere() -> None:
            for ask in (ASKING[asking], lambda _: email.enqueue("a")):
                with pytest.raises(WrongLoop) as caught:
                    asyncio.run(_awaited(ask(jobs)))
                told.append(str(caught.value))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(thread.join)
    asked, enqueued = told
    assert "enqueue_sync" not in asked
    assert asked.endswith("await it in that loop, from a thread with asyncio.run_coroutine_threadsafe(..., loop).result().")
    assert enqueued.endswith("use enqueue_sync there.")


async def _awaited(asked: Awaitable[Any]) -> Any:
    return await asked


async def test_a_schedule_is_there_when_a_runner_has_started(dsn: str) -> None:
    jobs = AsyncJobs(dsn, routers=[ROUTER])
    async with jobs:
        with pytest.raises(ScheduleNotFound, match="written when a runner that declares them starts"):
            await jobs.admin.run_schedule("nightly")
        async with jobs.runner():
            assert (await jobs.admin.schedule("nightly")).name == "nightly"
