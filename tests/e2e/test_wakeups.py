"""A runner in another process hears of work at once, whatever happened to its connection: it polls every five minutes here."""

import asyncio
from typing import Any

import pytest

from asyncjobs.store.database import Connection
from asyncjobs.testing import Proxy
from tests.programs import worker
from tests.support.eventually import eventually, patience
from tests.support.program import Program

#: After a silent partition the listener is replaced within keepalive + 10 % + 2 s; then everybody is woken.
KEEPALIVE = 1.0
SILENCE_SECONDS = KEEPALIVE * 1.1 + 2.0 + 1.0


def a_worker(dsn: str) -> Program:
    env = {"ASYNCJOBS_DSN": dsn, "POLL_INTERVAL": "300", "LISTENER_KEEPALIVE": str(KEEPALIVE)}
    return Program.python("-m", "tests.programs.worker", env=env)


async def run(count: int, *, timeout: float = 5.0) -> None:
    """Enqueue quick jobs one after another, each when the one before was run."""
    for _ in range(count):
        handle = await worker.quick.enqueue()
        async with patience(timeout):
            await handle.wait()


async def queue_seconds(connection: Connection) -> list[float]:
    """How long the jobs waited to be started, shortest first."""
    rows = await connection.fetch(
        "SELECT extract(epoch FROM started_at - run_at)::float8 AS seconds FROM asyncjobs.jobs ORDER BY 1"
    )
    return [row["seconds"] for row in rows]


async def settled(program: Program) -> None:
    """Wait until the worker listens and has run a job."""
    await program.line("registered")
    async with patience(10):
        await (await worker.quick.enqueue()).wait()


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_jobs_of_other_processes_need_no_poll_to_start(worker_app: Any, dsn: str) -> None:
    async with a_worker(dsn) as program:
        await settled(program)
        await run(100)
        program.terminate()
        await program.wait()


@pytest.mark.proof
async def test_thousand_jobs_of_other_processes_start_at_once(worker_app: Any, dsn: str, connection: Connection) -> None:
    async with a_worker(dsn) as program:
        await settled(program)
        await connection.execute("DELETE FROM asyncjobs.jobs")
        await run(1000)
        program.terminate()
        await program.wait()
    waited = await queue_seconds(connection)
    assert waited[989] <= 0.1, waited[-20:]
    assert waited[-1] <= 1.0


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_jobs_start_at_once_after_the_listeners_backend_was_terminated(
    worker_app: Any, dsn: str, connection: Connection
) -> None:
    async def terminated() -> int:
        count: int = await connection.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name = 'asyncjobs listener' AND datname = current_database()"
        )
        return count

    async with a_worker(dsn) as program:
        await settled(program)
        for _ in range(3):
            # The one before was given time to be replaced: to end none would say nothing.
            assert await eventually(terminated, description="a listener") == 1
            await run(3, timeout=2.0)
        program.terminate()
        await program.wait()


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_jobs_start_within_the_bound_after_the_listeners_socket_fell_silent(worker_app: Any, dsn: str) -> None:
    async with Proxy(dsn) as proxy, a_worker(proxy.dsn) as program:
        await settled(program)
        proxy.black_hole("listener")
        handle = await worker.quick.enqueue()
        lost = asyncio.create_task(program.line("asyncjobs.listener.lost", timeout=SILENCE_SECONDS))
        await lost
        proxy.heal()
        async with patience(SILENCE_SECONDS):
            await handle.wait()
        await run(3, timeout=1.0)
        program.terminate()
        await program.wait()


@pytest.mark.proof
async def test_delayed_jobs_of_other_processes_start_when_they_are_due(worker_app: Any, dsn: str, connection: Connection) -> None:
    async with a_worker(dsn) as program:
        await settled(program)
        await connection.execute("DELETE FROM asyncjobs.jobs")
        handles = [await worker.quick.using(delay=0.5 + 0.01 * number).enqueue() for number in range(100)]
        async with patience(10):
            for handle in handles:
                await handle.wait()
        program.terminate()
        await program.wait()
    late = await queue_seconds(connection)
    # `started_at` is when the claim's transaction began; it may see what was promoted while it ran.
    assert late[0] > -0.05
    assert late[94] <= 0.05, late[-10:]
