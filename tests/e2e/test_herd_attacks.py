"""What may go wrong with who is called, in a herd of processes of which each would poll after five minutes only."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Queue
from asyncjobs.store.database import Connection, Database
from asyncjobs.testing import Proxy
from tests.programs import worker
from tests.support.eventually import eventually, patience
from tests.support.factories import insert_job
from tests.support.program import Program

#: One is called, and the three that come next see to it: of so many each has a part in each job.
COUNT = 4


@asynccontextmanager
async def herd(*dsns: str, connection: Connection) -> AsyncGenerator[list[Program]]:
    """Workers that know of each other, one for each DSN."""
    async with AsyncExitStack() as stack:
        programs = [
            await stack.enter_async_context(
                Program.python(
                    "-m", "tests.programs.worker",
                    env={"ASYNCJOBS_DSN": dsn, "POLL_INTERVAL": "300", "LISTENER_KEEPALIVE": "60"},
                )
            )
            for dsn in dsns
        ]  # fmt: skip
        for program in programs:
            await program.line("registered")
        first = await connection.fetchval("SELECT min(beat) FROM asyncjobs.runners")

        async def beat() -> bool:
            """Each has beaten once more since all were there."""
            return bool(await connection.fetchval("SELECT min(beat) > $1 + 1 FROM asyncjobs.runners", first))

        await eventually(beat, description="they know of each other")
        for _ in range(2 * len(programs)):
            await (await worker.quick.enqueue()).wait(timeout=10)
        yield programs


async def run(count: int) -> None:
    """Jobs, one after another: each is run, though nobody polls."""
    for _ in range(count):
        async with patience(10):
            await (await worker.quick.enqueue()).wait()


def freeze(program: Program) -> None:
    program.pause()


def kill(program: Program) -> None:
    program.kill()


@pytest.mark.direct("is about LISTEN", only="poll")
@pytest.mark.parametrize("attack", [freeze, kill])
async def test_jobs_whose_called_runners_are_frozen_or_killed_are_run_by_others(
    worker_app: Any, dsn: str, connection: Connection, attack: Callable[[Program], None]
) -> None:
    """Their peers take them for awake still: two in four jobs call one that does nothing."""
    async with herd(*[dsn] * COUNT, connection=connection) as programs:
        for program in programs[:2]:
            attack(program)
        await run(12)
        if attack is freeze:
            for program in programs[:2]:
                program.unpause()


@pytest.mark.direct("is about LISTEN", only="poll")
async def test_jobs_whose_called_runner_is_deaf_are_run_by_others(worker_app: Any, dsn: str, connection: Connection) -> None:
    """It beats, and claims what it may, but hears nothing."""
    async with Proxy(dsn) as proxy, herd(proxy.dsn, dsn, dsn, connection=connection):
        proxy.black_hole("listener")
        await run(12)
        proxy.heal()


def an_app(database: Database, *queues: str, poll_interval: float = 300) -> AsyncJobs:
    jobs = AsyncJobs(
        database.dsn, schema=database.schema, queues=[Queue(queue) for queue in queues], poll_interval=poll_interval,
        heartbeat=0.5, promote_interval=60, metrics_interval=60,
    )  # fmt: skip

    @jobs.job("work", queue=queues[-1])
    async def work() -> None: ...

    return jobs


@asynccontextmanager
async def running(*apps: AsyncJobs) -> AsyncGenerator[None]:
    """Runners that listen, and know of those that serve the same."""
    async with AsyncExitStack() as stack:
        runners = [await stack.enter_async_context(app.runner()) for app in apps]
        for runner in runners:
            await runner.listening.wait_decided()
        served = [tuple(runner.queues) for runner in runners]
        await eventually(
            lambda: all(len(runner.heartbeat.peers) == served.count(tuple(runner.queues)) for runner in runners),
            description="they know of each other",
            timeout=30,
        )
        yield


@pytest.mark.direct("a pooler has fewer connections", only="poll")
async def test_runners_of_other_queues_take_no_lot_of_those_that_serve_the_job(database: Database) -> None:
    """Those who serve less or more hear of the same jobs, and are no peers: of each kind one is called."""
    mail, both = [an_app(database, "mail") for _ in range(2)], [an_app(database, "default", "mail") for _ in range(2)]
    async with running(*mail, *both, *(an_app(database, "default") for _ in range(2))), patience(20):
        for app in (*mail, *both):
            for _ in range(5):
                await (await app.enqueue("work", {})).wait()


@pytest.mark.direct("a pooler has fewer connections", only="poll")
async def test_a_job_of_which_no_runner_was_told_is_found_by_one_of_many(database: Database, connection: Connection) -> None:
    apps = [an_app(database, "default", poll_interval=0.2) for _ in range(6)]
    async with running(*apps):
        for _ in range(5):
            job_id = await insert_job(connection, type="work")

            async def has_run(job_id: int = job_id) -> bool:
                return bool(await connection.fetchval("SELECT status = 'completed' FROM asyncjobs.jobs WHERE id = $1", job_id))

            await eventually(has_run, description="it was found")
