"""Unfinished jobs as those see them who look often: few are counted at once, many come from the roll-up that a duty makes."""

import re
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from asyncjobs.errors import LeaseLost
from asyncjobs.store import overview
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.store.leases import Fence
from asyncjobs.testing import MovableClock
from tests.support.claims import Claims
from tests.support.factories import insert, insert_job, insert_place, insert_runner, insert_waiting
from tests.support.plans import Plans

MANY = 5


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "MANY", MANY)


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("depths")
    yield made
    await made.close()


async def put(connection: Connection, count: int, **columns: Any) -> None:
    for _ in range(count):
        await insert_job(connection, **columns)


async def counts(link: Link) -> dict[tuple[str, str, str], int]:
    return {(one.queue, one.type, one.status): one.count for one in (await overview.depths(link)).counts}


async def test_few_are_counted_when_somebody_looks(link: Link, connection: Connection) -> None:
    await insert_runner(connection, queues=["mail"], types=["email"])
    await put(connection, 2, queue="mail", type="email")
    await put(connection, 3, status="scheduled")
    await put(connection, 2, status="failed")
    await put(connection, 1, status="paused")
    head = await insert_job(connection, serialization_key="k")
    await insert_place(connection, "k", head, is_head=True)
    await insert_waiting(connection, "k")
    await put(connection, 9, status="completed")
    await overview.count_depths(link)
    found = await overview.depths(link)
    assert found == overview.Depths(await overview.counts(link), None)
    assert [(one.status, one.count, one.served) for one in found.counts if one.queue == "mail"] == [("pending", 2, True)]
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.job_depths") == 0


async def test_nothing_is_counted_when_the_term_is_over(link: Link, connection: Connection) -> None:
    await put(connection, MANY + 1)
    await insert(connection, "background_job_leases", job_name="rollup", held_by_worker_id="1", token=5)
    with pytest.raises(LeaseLost):
        await overview.count_depths(link, fence=Fence("rollup", 1, 4))
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.job_depths") == 0
    await overview.count_depths(link, fence=Fence("rollup", 1, 5))
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.job_depths") == 1


async def test_many_are_as_the_roll_up_counted_them_and_the_rest_as_it_is(link: Link, connection: Connection) -> None:
    await put(connection, 4, type="email")
    await put(connection, 2, type="sms")
    await overview.count_depths(link)
    await put(connection, 3, type="sms")
    await put(connection, 2, status="scheduled", type="sms")
    now = await connection.fetchval("SELECT asyncjobs.clock()")
    found = await overview.depths(link)
    assert [(one.type, one.status, one.count) for one in found.counts] == [
        ("email", "pending", 4), ("sms", "pending", 2), ("sms", "scheduled", 2),
    ]  # fmt: skip
    assert found.counted_at is not None
    assert timedelta() < now - found.counted_at < timedelta(minutes=1)
    await connection.execute("UPDATE asyncjobs.job_depths SET took = '0'")
    await overview.count_depths(link)
    assert await counts(link) == {
        ("default", "email", "pending"): 4, ("default", "sms", "pending"): 5, ("default", "sms", "scheduled"): 2,
    }  # fmt: skip


async def test_without_a_roll_up_all_are_counted(link: Link, connection: Connection) -> None:
    await put(connection, MANY + 2)
    found = await overview.depths(link)
    assert ([one.count for one in found.counts], found.counted_at) == ([MANY + 2], None)


async def test_a_roll_up_that_nobody_renews_is_not_believed(link: Link, connection: Connection, database: Database) -> None:
    async with MovableClock(database) as clock:
        await put(connection, MANY + 2)
        await overview.count_depths(link)
        await put(connection, 1)
        assert list((await counts(link)).values()) == [MANY + 2]
        await clock.advance(timedelta(minutes=3))
        assert list((await counts(link)).values()) == [MANY + 3]


async def test_what_is_not_many_any_more_leaves_the_roll_up(link: Link, connection: Connection) -> None:
    await put(connection, MANY + 1)
    await overview.count_depths(link)
    await connection.execute("DELETE FROM asyncjobs.jobs WHERE id = (SELECT min(id) FROM asyncjobs.jobs)")
    assert list((await counts(link)).values()) == [MANY], "it is counted as soon as it is few"
    await connection.execute("UPDATE asyncjobs.job_depths SET took = '0'")
    await overview.count_depths(link)
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.job_depths") == 0


async def test_a_count_that_took_long_is_not_made_often(link: Link, connection: Connection, database: Database) -> None:
    async with MovableClock(database) as clock:
        await put(connection, MANY + 1)
        await overview.count_depths(link)
        await connection.execute("UPDATE asyncjobs.job_depths SET took = '10 seconds'")
        await put(connection, 1)
        await clock.advance(timedelta(seconds=199))
        await overview.count_depths(link)
        assert list((await counts(link)).values()) == [MANY + 1]
        await clock.advance(timedelta(seconds=2))
        await overview.count_depths(link)
        assert list((await counts(link)).values()) == [MANY + 2]


async def test_looking_reads_a_bounded_number_of_live_rows_and_no_finished_one(claims: Claims, connection: Connection) -> None:
    await connection.execute(
        "INSERT INTO asyncjobs.jobs (enqueue_token, type, status, completed_at) "
        "SELECT 0, 'email', CASE WHEN n % 10 = 0 THEN 'pending' ELSE 'completed' END, now() FROM generate_series(1, 3000) AS n"
    )
    await connection.execute("ANALYZE asyncjobs.jobs")
    await overview.count_depths(claims.link)
    plans = await Plans(claims).watch()
    await overview.depths(claims.link)
    (plan,) = plans.take("WITH counted AS")
    assert "Seq Scan on jobs" not in plan, plan
    assert max(map(int, re.findall(r"on jobs.*actual rows=(\d+)", plan))) == MANY + 1, plan
