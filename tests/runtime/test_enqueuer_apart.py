"""Rows that come one after another are sent by their callers' own tasks: what if they are lost, refused, cancelled, closed?"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from asyncjobs.errors import DatabaseUnavailable, EnqueueError
from asyncjobs.model.new_row import NewRow
from asyncjobs.runtime import sender
from asyncjobs.store.database import Connection, Database
from asyncjobs.testing import Proxy
from tests.support.enqueuing import Enqueuing, enqueuing
from tests.support.eventually import eventually, patience
from tests.support.factories import a_row, insert_job


@pytest.fixture
async def proxy(database: Database) -> AsyncGenerator[Proxy]:
    async with Proxy(database.dsn) as made:
        yield made


async def refuse(rows: Sequence[NewRow]) -> list[Exception]:
    return [AssertionError("it was handed to the batcher's task") for _ in rows]


@asynccontextmanager
async def apart(proxy: Proxy, database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Enqueuing]:
    """An enqueuer through the proxy, whose next row is sent by its caller."""
    monkeypatch.setattr(sender, "_FRESH_SECONDS", 600.0)  # however slow the machine is, ids that were reserved are used
    async with enqueuing(Database(proxy.dsn, schema=database.schema, connect_timeout=2.0)) as made:
        for n in (1, 2):
            await made.enqueue(a_row(payload={"n": n}))
        batcher = made.enqueuer._lines["plain"].batcher
        with monkeypatch.context() as patched:
            patched.setattr(batcher, "_send", refuse)
            yield made


async def written(connection: Connection) -> list[int]:
    return [row["n"] for row in await connection.fetch("SELECT (payload ->> 'n')::integer AS n FROM asyncjobs.jobs ORDER BY id")]


async def test_a_lost_answer_makes_neither_two_jobs_nor_none(
    proxy: Proxy, database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with apart(proxy, database, monkeypatch) as made:
        for n in (3, 4, 5):
            proxy.drop_next_response()
            assert (await made.enqueue(a_row(payload={"n": n}))).created
    assert await written(connection) == [1, 2, 3, 4, 5]


async def test_its_caller_is_told_what_is_wrong_with_it(
    proxy: Proxy, database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with apart(proxy, database, monkeypatch) as made:
        with pytest.raises(EnqueueError):
            await made.enqueue(a_row(payload={"n": "\0"}))
        await made.enqueue(a_row(payload={"n": 3}, priority=7))
    assert await written(connection) == [1, 2, 3]
    assert await connection.fetchval("SELECT array_agg(priority ORDER BY id) FROM asyncjobs.jobs") == [100, 100, 7]


async def test_an_id_that_went_to_another_job_is_not_ours(
    proxy: Proxy, database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with apart(proxy, database, monkeypatch) as made:
        _, [reserved] = made.enqueuer._lines["plain"].sender._ids._blocks[0]
        await insert_job(connection, id=reserved, enqueue_token=1, payload='{"n": 99}')
        third = await made.enqueue(a_row(payload={"n": 3}))
        assert third.created
        assert third.id != reserved
    assert sorted(await written(connection)) == [1, 2, 3, 99]


async def test_a_cancelled_caller_takes_its_connection_with_it_and_nothing_else(
    proxy: Proxy, database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with apart(proxy, database, monkeypatch) as made:
        proxy.black_hole("enqueue plain")
        cancelled = asyncio.create_task(made.enqueue(a_row(payload={"n": 3})))
        await eventually(lambda: made.enqueuer._lines["plain"].batcher.is_sent_apart, description="it is on its way")
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        assert cancelled.cancelled()
        proxy.heal()
        async with patience(5):
            assert (await made.enqueue(a_row(payload={"n": 4}))).created
            await made.enqueuer.flush()
    assert [n for n in await written(connection) if n != 3] == [1, 2, 4]


async def test_at_the_end_its_caller_is_told_that_the_job_may_exist(
    proxy: Proxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with apart(proxy, database, monkeypatch) as made:
        proxy.black_hole("enqueue plain")
        sent = asyncio.create_task(made.enqueue(a_row(payload={"n": 3})))
        await eventually(lambda: made.enqueuer._lines["plain"].batcher.is_sent_apart, description="it is on its way")
        async with patience(5):
            await made.close()
            with pytest.raises(DatabaseUnavailable, match="may have been written"):
                await sent
