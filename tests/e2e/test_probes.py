"""Health and probes: what makes a process unready, and what makes it dead."""

import asyncio
import socket
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import pytest

from asyncjobs import AsyncJobs, DatabaseUnavailable
from asyncjobs.integrations.probes import serve_probes
from asyncjobs.runtime.health import Health, RunnerHealth
from asyncjobs.telemetry.events import DatabaseFailed
from asyncjobs.testing import Proxy, Recorder
from tests.support.eventually import eventually


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode().strip()


async def probe(port: int, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(ask, port, path)


async def test_process_is_ready_once_its_runner_listens_and_no_longer_when_it_is_closed(dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    with serve_probes(jobs, host="127.0.0.1", port=0) as port:
        assert await probe(port, "/ready") == (503, "the app is not open")
        assert await probe(port, "/live") == (200, "ok")
        async with jobs.runner():
            await eventually(lambda: jobs.health().is_ready, description="it is ready")
            assert await probe(port, "/ready") == (200, "ok")
            assert await probe(port, "/ready?verbose") == (200, "ok")
            assert (await probe(port, "/metrics"))[0] == HTTPStatus.NOT_FOUND
        assert await probe(port, "/ready") == (503, "the app is not open")
        assert await probe(port, "/live") == (200, "ok")
    with pytest.raises(urllib.error.URLError):
        ask(port, "/live")


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_database_that_is_away_makes_a_process_unready_and_never_dead(dsn: str) -> None:
    async with Proxy(dsn) as proxy:
        jobs = AsyncJobs(proxy.dsn, poll_interval=0.1)
        with serve_probes(jobs, host="127.0.0.1", port=0) as port:
            await check_away(jobs, proxy, port)


async def check_away(jobs: AsyncJobs, proxy: Proxy, port: int) -> None:
    async with jobs.runner(grace=0):
        await eventually(lambda: jobs.health().is_ready, description="it is ready")
        proxy.refuse()
        proxy.reset()
        await eventually(lambda: len(jobs.health().problems) >= 2, description="listener and database are missed")
        status, text = await probe(port, "/ready")
        assert status == HTTPStatus.SERVICE_UNAVAILABLE
        assert "its listener is not connected" in text
        assert await probe(port, "/live") == (200, "ok")
        proxy.heal()
        await eventually(lambda: jobs.health().is_ready, description="it is ready again", timeout=30.0)


async def test_process_that_waits_for_its_database_is_alive_and_not_ready_until_it_is_there(dsn: str, recorder: Recorder) -> None:
    async with Proxy(dsn) as proxy:
        proxy.refuse()
        jobs = AsyncJobs(proxy.dsn, connect_timeout=None)

        @jobs.job("double")
        async def double(n: int) -> int:
            return 2 * n

        async def run() -> int:
            async with jobs.runner():
                return await (await double.enqueue(1)).result(timeout=10)

        with serve_probes(jobs, host="127.0.0.1", port=0) as port:
            ran = asyncio.create_task(run())
            told = await recorder.wait_for(DatabaseFailed)
            assert told.during == "open"
            assert (await probe(port, "/live"))[0] == HTTPStatus.OK
            assert (await probe(port, "/ready"))[0] == HTTPStatus.SERVICE_UNAVAILABLE
            proxy.heal()
            assert await ran == 2


async def test_database_that_is_not_there_in_time_is_told_with_the_way_to_wait_for_it(dsn: str) -> None:
    async with Proxy(dsn) as proxy:
        proxy.refuse()
        with pytest.raises(DatabaseUnavailable, match=r"With connect_timeout=None opening waits until it does\.$"):
            async with AsyncJobs(proxy.dsn, connect_timeout=0.3):
                pass


async def test_runner_that_polls_needs_no_listener(dsn: str) -> None:
    jobs = AsyncJobs(dsn, notify="poll")
    async with jobs.runner():
        assert jobs.health().is_ready


async def test_app_that_only_enqueues_is_ready_when_it_is_open(dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    with serve_probes(jobs, port=0, runs=False) as port, serve_probes(jobs, port=0) as runs_port:
        async with jobs:
            assert await probe(port, "/ready") == (200, "ok")
            assert await probe(runs_port, "/ready") == (503, "no runner has started")


async def test_process_that_is_to_run_jobs_is_ready_only_while_a_runner_runs(dsn: str) -> None:
    jobs = AsyncJobs(dsn, notify="poll")
    assert jobs.health(runs=True).problems == ["the app is not open"]
    async with jobs:
        assert jobs.health().is_ready, "it can enqueue"
        assert jobs.health(runs=True).problems == ["no runner has started"]
        async with jobs.runner():
            assert jobs.health(runs=True).is_ready
        assert jobs.health(runs=True).problems == ["no runner has started"]
        assert jobs.health(runs=True).is_alive
    seen: list[bool] = []

    async def served() -> None:  # what answers requests, once the start-up of the lifespan is over
        seen.append(jobs.health(runs=True).is_ready)

    async with jobs.lifespan(None):
        await served()
    assert seen == [True]


async def test_loop_that_stands_still_is_not_ready_at_once_and_dead_after_the_limit(dsn: str) -> None:
    jobs = AsyncJobs(dsn, heartbeat=0.1, runner_timeout=30, stall_after=0.2, stall_limit=2)
    with serve_probes(jobs, host="127.0.0.1", port=0) as port:
        async with jobs.runner():
            await eventually(lambda: jobs.health().is_ready, description="it is ready")
            with ThreadPoolExecutor(1) as threads:  # the loop does not turn until the thread has seen it dead
                ready, live = threads.submit(lambda: (ask(port, "/ready"), died(port))).result(timeout=60)
            assert ready == (503, "the event loop does not answer")
            assert live[0] == HTTPStatus.SERVICE_UNAVAILABLE
            assert "the event loop has not turned for" in live[1]
            await eventually(lambda: jobs.health().is_alive, description="it is alive again")


def died(port: int) -> tuple[int, str]:
    answer, ends = ask(port, "/live"), time.monotonic() + 30
    while answer[0] == HTTPStatus.OK and time.monotonic() < ends:
        time.sleep(0.05)
        answer = ask(port, "/live")
    return answer


async def test_client_that_says_nothing_holds_up_nobody(dsn: str) -> None:
    jobs = AsyncJobs(dsn)
    with serve_probes(jobs, host="127.0.0.1", port=0) as port, socket.create_connection(("127.0.0.1", port)):
        assert await probe(port, "/live") == (200, "ok")


def runner(**changes: object) -> RunnerHealth:
    fields = {
        "id": 7, "queues": ["default"], "notify": "listen", "is_listening": True, "running": 0, "waiting": 0, "stuck": 0,
        "free_slots": 1, "unwritten": 0, "answered_age_seconds": 0.0, "turn_age_seconds": 0.0, "beat_age_seconds": 0.0,
        "loop_stalled_seconds": 0.0, "is_alive": True, "leases": [], "schedules_age_seconds": None, "is_confirmed": True,
        "is_stopping": False, "error": None,
    }  # fmt: skip
    return RunnerHealth(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"is_stopping": True}, "it is stopping"),
        ({"notify": "probing"}, "it does not know yet whether notifications arrive"),
        ({"is_listening": False}, "its listener is not connected"),
        ({"is_confirmed": False}, "it may have been declared dead: no beat was confirmed for too long"),
        ({"error": "ConnectionError"}, "the last call of the database failed"),
        ({"turn_age_seconds": 61.0}, "the loop that claims jobs and writes outcomes stands still"),
    ],
)
def test_problems_say_why_it_is_not_ready(changes: dict[str, object], problem: str) -> None:
    health = Health(is_open=True, runners=[runner(), runner(**changes)])
    assert (health.problems, health.is_ready, health.is_alive) == ([f"runner 7: {problem}"], False, True)


def test_one_loop_that_stands_still_is_enough_to_be_dead() -> None:
    assert not Health(is_open=True, runners=[runner(), runner(is_alive=False)]).is_alive
    assert Health(is_open=True, runners=[runner(notify="poll", is_listening=False)]).is_ready
