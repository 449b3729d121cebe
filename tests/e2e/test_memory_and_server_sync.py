"""On jobs in memory and on a real server: tests in the sync style, of apps with plain endpoints behind a TestClient."""

import warnings
from typing import Any

import pytest
from fastapi import FastAPI

from asyncjobs import AsyncJobs, Backoff, CircuitOpen, WaitTimeout, gather
from asyncjobs.testing import (
    MovableClock,
    assert_enqueued_sync,
    clear_sync,
    refute_enqueued_sync,
    run_until_idle_sync,
)
from tests.support.memory_and_server import SyncOpening, make

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another HTTP client
    from starlette.testclient import TestClient


def shop(**options: Any) -> tuple[AsyncJobs, Any, Any]:
    jobs = make(**options)

    @jobs.job("add", max_attempts=2, backoff=Backoff(60))
    async def add(left: int, right: int = 1) -> int:
        if left < 0:
            raise ValueError(left)
        return left + right

    @jobs.job("add later")
    def add_later(left: int) -> int:
        return int(add.using(delay=3600).enqueue_sync(left).id)

    return jobs, add, add_later


def app_of(jobs: AsyncJobs, add: Any, add_later: Any) -> FastAPI:
    app = FastAPI(lifespan=jobs.lifespan)

    @app.post("/add/{left}")
    def enqueue_sync(left: int) -> int:
        return int(add.enqueue_sync(left).id)

    @app.post("/later/{left}")
    async def enqueue(left: int) -> int:
        return int((await add_later.enqueue(left)).id)

    @app.get("/jobs/{job_id}")
    def status(job_id: int) -> str | None:
        job = jobs.get_sync(job_id)
        return None if job is None else job.status

    return app


def test_endpoints_enqueue_and_what_they_enqueue_runs_when_the_test_says_so(placed: SyncOpening) -> None:
    jobs, add, add_later = shop()
    with placed(jobs), TestClient(app_of(jobs, add, add_later)) as client:
        first = client.post("/add/1").json()
        assert client.get(f"/jobs/{first}").json() == "pending"
        assert_enqueued_sync(jobs, add, {"left": 1}, count=1)
        refute_enqueued_sync(jobs, add, {"left": 2})
        assert [(job.id, job.result) for job in run_until_idle_sync(jobs)] == [(first, 2)]
        assert client.get(f"/jobs/{first}").json() == "completed"
        assert client.get("/jobs/0").json() is None
        assert run_until_idle_sync(jobs) == []


def test_the_clock_moves(placed: SyncOpening) -> None:
    jobs, add, add_later = shop()
    with placed(jobs), MovableClock(jobs) as clock, TestClient(app_of(jobs, add, add_later)) as client:
        client.post("/later/4")
        [parent] = run_until_idle_sync(jobs)
        before = clock.now_sync()
        clock.advance_sync(3590)
        assert run_until_idle_sync(jobs) == []
        clock.set_sync(parent.created_at)
        assert abs((clock.now_sync() - before).total_seconds()) < 60
        [child] = run_until_idle_sync(jobs, clock=clock, ahead=3610)
        assert (child.id, child.result) == (parent.result, 5)
        client.post("/add/-1")
        [dead] = run_until_idle_sync(jobs, clock=clock, ahead=600)
        assert (dead.status, dead.attempts) == ("dead", 2)


def test_a_plain_test_needs_no_web_application(placed: SyncOpening) -> None:
    jobs, add, _ = shop()
    with placed(jobs), MovableClock(jobs) as clock, jobs.sync():
        handle, late = jobs.enqueue_many_sync([add.new(1), add.using(delay=60).new(5)])
        with pytest.raises(WaitTimeout):
            handle.wait_sync(timeout=0)
        run_until_idle_sync(jobs)
        assert handle.result_sync(timeout=5) == 2
        clock.advance_sync(61)
        [job] = run_until_idle_sync(jobs)
        assert (job.id, late.result_sync(timeout=5)) == (late.id, 6)


def test_circuit_breakers_are_used_where_there_is_no_loop(placed: SyncOpening) -> None:
    jobs, _, _ = shop()
    service = jobs.circuit_breaker("mail", failure_threshold=1)

    @jobs.job("calls", breaker="mail")
    def calls() -> None:
        with service.sync():
            pass

    with placed(jobs), jobs.sync():
        with service.sync():
            calls.enqueue_sync()
        assert len(run_until_idle_sync(jobs)) == 1
        with pytest.raises(ConnectionError), service.sync():
            raise ConnectionError
        with pytest.raises(CircuitOpen), service.sync():
            pass
        calls.enqueue_sync()
        assert run_until_idle_sync(jobs, timeout=5) == []


def test_clear_empties_what_tests_share(placed: SyncOpening) -> None:
    jobs, add, add_later = shop()
    with placed(jobs), TestClient(app_of(jobs, add, add_later)) as client:
        first = client.post("/add/1").json()
        clear_sync(jobs)
        refute_enqueued_sync(jobs, add)
        assert client.get(f"/jobs/{first}").json() is None
        again = client.post("/add/1").json()
        assert again > first
        assert [job.id for job in run_until_idle_sync(jobs)] == [again]


async def test_the_sync_forms_say_that_they_would_block_a_loop(placed: SyncOpening) -> None:
    jobs, add, _ = shop()
    with placed(jobs):
        async with jobs:
            handle = await add.enqueue(1)
            for call in (lambda: add.enqueue_sync(1), handle.wait_sync, lambda: jobs.get_sync(1), lambda: clear_sync(jobs)):
                with pytest.raises(Exception, match="would block"):
                    call()
            with pytest.raises(WaitTimeout):
                await gather([handle], timeout=0)


def test_a_workflow_in_a_plain_block(placed: SyncOpening) -> None:
    jobs, add, add_later = shop()
    with placed(jobs), TestClient(app_of(jobs, add, add_later)):
        with jobs.workflow("sum") as flow:
            first = flow.add(add.new(1))
            last = flow.add(add.new(first.result, 5))
        ran = run_until_idle_sync(jobs)
        assert [(job.id, job.result) for job in ran] == [(first.id, 2), (last.id, 7)]
        with pytest.raises(ZeroDivisionError), jobs.workflow("none") as flow:
            flow.add(add.new(1 // 0))
