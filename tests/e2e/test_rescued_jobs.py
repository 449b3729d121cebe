"""Jobs that were taken back from a dead runner: at the pace of other work, but for those that may have killed it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs import AsyncJobs, JobType, Retry
from asyncjobs.model import probation
from asyncjobs.store.database import Connection, Database, quote_identifier
from tests.support.claims import SUSPECT
from tests.support.eventually import eventually


class Crowd:
    """An app whose jobs stay until they are let go."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self.jobs = AsyncJobs(database.dsn, schema=database.schema, poll_interval=300)
        self.connection = connection
        self.table = f"{quote_identifier(database.schema)}.jobs"
        self.go = asyncio.Event()
        self.running = self.most = self.begun = 0
        self.stay = self.jobs.job("stay")(self._stay)
        self.fail: JobType[[], Retry] = self.jobs.job("fail")(self._fail)

    async def _stay(self, key: str = "") -> str:
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
        await self.go.wait()
        await asyncio.sleep(0.01)  # long enough for another to be seen beside it
        self.running -= 1
        return key

    async def _fail(self) -> Retry:
        return Retry(delay=3600)

    async def mark(self, **columns: int) -> None:
        """Whatever is pending was lost so often."""
        names = ", ".join(f"{name} = {value}" for name, value in columns.items())
        await self.connection.execute(f"UPDATE {self.table} SET {names}")

    async def marks(self) -> set[tuple[Any, ...]]:
        rows = await self.connection.fetch(f"SELECT status, losses, suspicion, outlived FROM {self.table}")
        return {tuple(row) for row in rows}


@pytest.fixture
async def crowd(database: Database, connection: Connection) -> AsyncGenerator[Crowd]:
    made = Crowd(database, connection)
    async with made.jobs:
        yield made


async def test_jobs_that_were_lost_once_run_beside_each_other(crowd: Crowd) -> None:
    handles = await crowd.jobs.enqueue_many([crowd.stay.new() for _ in range(10)])
    await crowd.mark(rescues=1, losses=1)
    async with crowd.jobs.runner():
        await eventually(lambda: crowd.running == 10, description="all run")
        crowd.go.set()
        assert {(await handle.wait(timeout=10)).status for handle in handles} == {"completed"}


async def test_suspects_follow_each_other_without_a_poll_beside_other_work(crowd: Crowd) -> None:
    suspects = await crowd.jobs.enqueue_many([crowd.stay.new() for _ in range(20)])
    await crowd.mark(**SUSPECT)
    crowd.go.set()
    async with crowd.jobs.runner():
        ended = [await handle.wait(timeout=10) for handle in suspects]
    assert ({job.status for job in ended}, crowd.most) == ({"completed"}, 1)


@pytest.mark.parametrize("key", [None, "k"])
async def test_suspect_that_has_hours_to_run_holds_up_nobody_for_long(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.setattr(probation, "OUTLIVED_SECONDS", 0.05)
    monkeypatch.setattr(probation, "PROBATION_SECONDS", 0.1)
    calls = [crowd.stay.using(serialization_key=key and f"{key}{n}").new() for n in range(6)]
    handles = await crowd.jobs.enqueue_many(calls)
    await crowd.mark(**SUSPECT)
    async with crowd.jobs.runner():
        await eventually(lambda: crowd.begun == 1, description="the first has begun")
        assert crowd.running == 1
        await eventually(lambda: crowd.running == 6, description="all run", timeout=5)
        await eventually(lambda: cleared(crowd), description="their rows say that they are cleared")
        crowd.go.set()
        assert {(await handle.wait(timeout=10)).status for handle in handles} == {"completed"}


async def cleared(crowd: Crowd) -> bool:
    return {(status, suspicion) for status, _, suspicion, outlived in await crowd.marks() if outlived} == {("processing", 0)}


async def test_suspect_is_cleared_by_an_ordinary_retry(crowd: Crowd) -> None:
    await crowd.fail.enqueue()
    await crowd.mark(**SUSPECT)
    async with crowd.jobs.runner():
        await eventually(lambda: has_failed(crowd), description="it has failed")
    assert await crowd.marks() == {("failed", 0, 0, 0)}


async def has_failed(crowd: Crowd) -> bool:
    return {status for status, *_ in await crowd.marks()} == {"failed"}
