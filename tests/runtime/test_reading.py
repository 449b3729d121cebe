"""Callers that wait for a job, or look at it, while connections break."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from asyncjobs import AsyncJobs, DatabaseUnavailable, JobHandle
from asyncjobs.store.database import Connection
from asyncjobs.testing import Proxy
from tests.support.eventually import patience


@pytest.fixture
async def proxy(dsn: str) -> AsyncGenerator[Proxy]:
    async with Proxy(dsn) as made:
        yield made


async def enqueued(jobs: AsyncJobs) -> JobHandle[None]:
    @jobs.job("quick")
    async def quick() -> None: ...

    await jobs.lifecycle.enter()
    return await quick.enqueue()


async def complete(connection: Connection) -> None:
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'completed', attempts = 1, completed_at = now()")


@pytest.mark.parametrize("how", ["reset", "drop_next_response"])
async def test_a_wait_goes_on_when_its_connection_breaks(proxy: Proxy, connection: Connection, how: str) -> None:
    jobs = AsyncJobs(proxy.dsn, poll_interval=0.05)
    handle = await enqueued(jobs)
    waiting = asyncio.create_task(handle.wait())
    assert await jobs.get(handle.id)
    getattr(proxy, how)("pool")
    await complete(connection)
    async with patience(10):
        assert (await waiting).status == "completed"
    await jobs.lifecycle.leave()


async def test_a_look_is_repeated_when_its_connection_breaks(proxy: Proxy) -> None:
    jobs = AsyncJobs(proxy.dsn)
    handle = await enqueued(jobs)
    assert await jobs.get(handle.id)
    proxy.drop_next_response("pool")
    assert await jobs.get(handle.id)
    await jobs.lifecycle.leave()


async def test_a_wait_without_end_is_told_when_the_database_is_away_for_long(proxy: Proxy) -> None:
    jobs = AsyncJobs(proxy.dsn, connect_timeout=0.3)
    handle = await enqueued(jobs)
    waiting = asyncio.create_task(handle.wait())
    proxy.black_hole()
    async with patience(20):
        with pytest.raises(DatabaseUnavailable, match=r"did not answer within 0\.3 s"):
            await waiting
    proxy.heal()
    await jobs.lifecycle.leave()
