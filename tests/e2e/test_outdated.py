"""A migration that breaks older programs stops those that run, not only those that start after it."""

import asyncio

import pytest

from asyncjobs import AsyncJobs, Queue, SchemaTooNew
from asyncjobs.store.database import Connection
from asyncjobs.telemetry.events import RunnerOutdated
from asyncjobs.testing import Recorder
from tests.support.eventually import eventually

NEWER = "9001_newer.sql"


async def make_newer(connection: Connection) -> None:
    await connection.execute("INSERT INTO asyncjobs.migrations (number, name, breaking) VALUES (9001, $1, true)", NEWER)


@pytest.mark.unaudited("jobs wait for a program that is not too old")
async def test_runner_that_became_too_old_for_the_schema_begins_nothing_and_says_why(
    dsn: str, connection: Connection, recorder: Recorder
) -> None:
    jobs = AsyncJobs(dsn, queues=[Queue(concurrency=1, prefetch=2)], heartbeat=0.5)
    begun, end = asyncio.Event(), asyncio.Event()

    @jobs.job("works")
    async def works() -> str:
        begun.set()
        await end.wait()
        return "done"

    async with jobs.runner(grace=1):
        first = await works.enqueue()
        await begun.wait()
        others = await jobs.enqueue_many([works.new() for _ in range(3)])
        await make_newer(connection)
        told = await recorder.wait_for(RunnerOutdated)
        assert told.migration == NEWER
        health = jobs.health()
        assert not health.is_ready
        assert any(NEWER in problem and "update this program" in problem for problem in health.problems)
        end.set()
        assert await first.result() == "done", "what runs may end"
        await eventually(lambda: nothing_waits_here(jobs), description="what was claimed ahead is given back")
        assert await statuses(connection, [one.id for one in others]) == {"pending"}
        assert await leases_are_left(connection, health.runners[0].id)
    with pytest.raises(SchemaTooNew, match=NEWER):
        await jobs.__aenter__()


def nothing_waits_here(jobs: AsyncJobs) -> bool:
    [runner] = jobs.health().runners
    return runner.waiting == 0 and runner.unwritten == 0


async def statuses(connection: Connection, ids: list[int]) -> set[str]:
    return {row["status"] for row in await connection.fetch("SELECT status FROM asyncjobs.jobs WHERE id = ANY ($1)", ids)}


async def leases_are_left(connection: Connection, runner_id: int) -> bool:
    """Whether none of its leases is renewed any more: others may take them."""
    renewals = "SELECT sum(renewals) FROM asyncjobs.background_job_leases WHERE held_by_worker_id = $1"
    beats = "SELECT beat FROM asyncjobs.runners WHERE id = $1"
    before, beat = await connection.fetchval(renewals, str(runner_id)), await connection.fetchval(beats, runner_id)

    async def beaten_twice() -> bool:
        return bool(await connection.fetchval(beats, runner_id) >= beat + 2)

    await eventually(beaten_twice, description="it goes on beating")
    return bool(before == await connection.fetchval(renewals, str(runner_id)))
