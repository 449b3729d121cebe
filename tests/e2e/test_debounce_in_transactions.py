"""Debounce from the transaction of a caller: with its commit, without it, and two at once; and of jobs with a key."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs import AsyncJobs, Debounce, JobHandle, Queue
from asyncjobs.store.database import Connection, Database
from tests.support.eventually import eventually


class Site:
    """A page that is built: `built` has what was built. `may_end` holds what is built in the queue `slow`."""

    def __init__(self, dsn: str) -> None:
        self.app = AsyncJobs(dsn, queues=[Queue(concurrency=4)], poll_interval=0.2, promote_interval=0.5)
        self.built: list[int] = []
        self.may_end = asyncio.Event()

        @self.app.job("page")
        async def page(number: int) -> int:
            self.built.append(number)
            if number < 0:
                await self.may_end.wait()
            return number

        self.page = page

    def debounced(self, *, quiet: float = 0.6, **options: Any) -> Any:
        """The type, debounced by one dedup key."""
        return self.page.using(dedup_key="page-7", debounce=Debounce(quiet=quiet, at_most=30), **options)


KEYS = pytest.mark.parametrize("key", [None, "k"])


@pytest.fixture
async def site(dsn: str) -> AsyncGenerator[Site]:
    made = Site(dsn)
    async with made.app:
        yield made
        made.may_end.set()


@pytest.fixture
async def other(database: Database) -> AsyncGenerator[Connection]:
    """The connection of another caller."""
    link = database.link("other")
    yield await link.connection()
    await link.close()


async def row(connection: Connection) -> dict[str, Any]:
    rows = await connection.fetch("SELECT id, payload, status, run_at FROM asyncjobs.jobs")
    assert len(rows) == 1
    return dict(rows[0])


async def run(site: Site, handle: JobHandle[int]) -> int:
    async with site.app.runner(grace=5):
        return await handle.result(timeout=10)


@KEYS
async def test_the_first_is_made_with_the_commit(site: Site, connection: Connection, other: Connection, key: str | None) -> None:
    async with connection.transaction():
        handle = await site.debounced(serialization_key=key, connection=connection).enqueue(1)
        assert not await other.fetchval("SELECT count(*) FROM asyncjobs.jobs")
    assert (handle.did, (await row(connection))["status"]) == ("made", "scheduled")
    assert await run(site, handle) == 1


@KEYS
async def test_a_duplicate_counts_with_its_commit(site: Site, connection: Connection, other: Connection, key: str | None) -> None:
    first = await site.debounced(serialization_key=key).enqueue(1)
    before = await row(other)
    await asyncio.sleep(0.1)
    async with connection.transaction():
        second = await site.debounced(serialization_key=key, connection=connection).enqueue(2)
        assert (second.id, second.did) == (first.id, "replaced")
        assert await row(other) == before
    after = await row(other)
    assert (after["payload"], after["run_at"] > before["run_at"]) == ('{"number": 2}', True)
    assert await run(site, first) == 2
    assert site.built == [2]


@KEYS
async def test_a_duplicate_that_is_rolled_back_leaves_payload_and_time(
    site: Site, connection: Connection, key: str | None
) -> None:
    first = await site.debounced(serialization_key=key).enqueue(1)
    before = await row(connection)
    transaction = connection.transaction()
    await transaction.start()
    await site.debounced(serialization_key=key, connection=connection).enqueue(2)
    await transaction.rollback()
    assert await row(connection) == before
    assert await run(site, first) == 1


@KEYS
async def test_the_first_rolled_back_leaves_nothing_and_the_next_is_made(
    site: Site, connection: Connection, key: str | None
) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await site.debounced(serialization_key=key, connection=connection).enqueue(1)
    await transaction.rollback()
    handle = await site.debounced(serialization_key=key).enqueue(2)
    assert handle.did == "made"
    assert await run(site, handle) == 2


@KEYS
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("is_there", [True, False])
async def test_of_two_transactions_at_once_the_one_that_comes_second_counts(
    site: Site, connection: Connection, other: Connection, *, key: str | None, commits: bool, is_there: bool
) -> None:
    """It waits for the first where there is no job yet, or one whose row can be held; else the order of the commits decides."""
    if is_there:
        await site.debounced(serialization_key=key).enqueue(0)
    first, second = connection.transaction(), other.transaction()
    await first.start()
    one = await site.debounced(serialization_key=key, connection=connection).enqueue(1)
    await second.start()
    waiting = asyncio.create_task(site.debounced(serialization_key=key, connection=other).enqueue(2))
    waits_not = is_there and key is not None
    await asyncio.wait([waiting], timeout=10 if waits_not else 0.2)
    assert waiting.done() == waits_not
    await (first.commit() if commits else first.rollback())
    two = await asyncio.wait_for(waiting, 5)
    await second.commit()
    assert two.did == ("replaced" if is_there or commits else "made")
    assert (two.id == one.id) == (is_there or commits)
    assert (await row(connection))["payload"] == '{"number": 2}'
    assert await run(site, two) == 2
    assert site.built == [2]


@KEYS
async def test_a_start_waits_for_a_transaction_or_that_one_fails(site: Site, connection: Connection, key: str | None) -> None:
    """A job whose row is held is passed over until the commit; one of a line starts, and the transaction is to be made again."""
    first = await site.debounced(serialization_key=key, quiet=0.3).enqueue(1)
    transaction = connection.transaction()
    await transaction.start()
    await site.debounced(serialization_key=key, quiet=0.3, connection=connection).enqueue(2)
    async with site.app.runner(grace=5):
        if key is None:
            await asyncio.sleep(0.7)
            assert site.built == []
            await transaction.commit()
            assert await first.result(timeout=10) == 2
        else:
            assert await first.result(timeout=10) == 1
            with pytest.raises(Exception, match="has started"):
                await transaction.commit()
    assert site.built == [2 if key is None else 1]


# With a serialization key.


async def test_a_debounced_job_of_a_key_is_in_nobodys_way_until_it_is_due(site: Site) -> None:
    debounced = await site.debounced(serialization_key="k", quiet=1).enqueue(9)
    async with site.app.runner(grace=5):
        for number in range(3):
            assert await (await site.page.using(serialization_key="k").enqueue(number)).result(timeout=5) == number
        assert await debounced.result(timeout=10) == 9
    assert site.built == [0, 1, 2, 9]


async def test_one_that_is_due_and_waits_in_its_line_leaves_it_when_it_is_replaced(site: Site, connection: Connection) -> None:
    async with site.app.runner(grace=5):
        await site.page.using(serialization_key="k").enqueue(-1)
        debounced = await site.debounced(serialization_key="k", quiet=0.2).enqueue(8)

        async def waits() -> bool:
            return bool(await connection.fetchval("SELECT status = 'waiting' FROM asyncjobs.jobs WHERE id = $1", debounced.id))

        await eventually(waits, description="it is due, and behind another")
        behind = await site.page.using(serialization_key="k").enqueue(1)
        again = await site.debounced(serialization_key="k", quiet=0.8).enqueue(9)
        assert (again.id, again.did) == (debounced.id, "replaced")
        site.may_end.set()
        assert await behind.result(timeout=10) == 1
        assert await debounced.result(timeout=10) == 9
    assert site.built == [-1, 1, 9]


async def test_debounced_jobs_of_one_key_run_one_at_a_time_with_their_newest_payloads(site: Site) -> None:
    async with site.app.runner(grace=5):
        handles = [
            await site.page.using(
                dedup_key=f"page-{number % 3}", serialization_key="k", debounce=Debounce(quiet=0.3, at_most=5)
            ).enqueue(number)
            for number in range(30)
        ]
        assert sorted([await handle.result(timeout=10) for handle in handles[-3:]]) == [27, 28, 29]
    assert sorted(site.built) == [27, 28, 29]
