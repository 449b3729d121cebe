"""What one call of the enqueue statement does, and what it does when it is made again."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from asyncjobs.model.new_row import NewRow
from asyncjobs.store import jobs
from asyncjobs.store.database import Connection, Database, Link
from tests.support.backends import waits_for_lock
from tests.support.eventually import patience
from tests.support.factories import a_row, insert, insert_job, insert_place


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("test enqueue")
    await made.connection()
    yield made
    await made.close()


async def write(link: Link, rows: Sequence[NewRow], *, again: bool = False, first_id: int = 1000) -> jobs.EnqueueAnswer:
    """Enqueue under ids from 1000 on and tokens that belong to them."""
    ids = [first_id + at for at in range(len(rows))]
    return await jobs.enqueue(link, rows, ids, [-number for number in ids], again=again)


async def payloads(connection: Connection) -> dict[int, str]:
    found = await connection.fetch("SELECT id, payload FROM asyncjobs.jobs")
    return {row["id"]: row["payload"] for row in found}


async def test_ids_belong_to_rows_by_their_order(link: Link, connection: Connection) -> None:
    rows = [a_row(payload={"n": n}, serialization_key=f"k{n % 3}" if n % 2 else None) for n in range(50)]
    answer = await write(link, rows)
    assert [one.id for one in answer.enqueued] == list(range(1000, 1050))
    assert await payloads(connection) == {1000 + n: f'{{"n": {n}}}' for n in range(50)}


@pytest.mark.parametrize("key", [None, "k"])
async def test_the_same_call_made_again_writes_nothing_twice(link: Link, connection: Connection, key: str | None) -> None:
    rows = [a_row(payload={"n": n}, serialization_key=key, dedup_key=f"d{n}") for n in range(5)]
    first = await write(link, rows)
    again = await write(link, rows, again=True)
    assert again.enqueued == first.enqueued
    assert all(one.created for one in again.enqueued)
    assert (again.taken, again.refused) == ([], [])
    assert len(await payloads(connection)) == 5


async def test_made_again_it_writes_what_the_first_did_not(link: Link, connection: Connection) -> None:
    rows = [a_row(payload={"n": n}, serialization_key="k" if n == 1 else None) for n in range(3)]
    answer = await write(link, rows, again=True)
    assert ([one.id for one in answer.enqueued], answer.taken) == ([1000, 1001, 1002], [])
    assert len(await payloads(connection)) == 3


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("key", [None, "k"])
async def test_made_again_it_does_not_start_over_a_job_that_has_run(
    link: Link, connection: Connection, key: str | None, *, is_late: bool
) -> None:
    """Neither does the first call, when it is carried out after the second."""
    rows = [a_row(serialization_key=key, dedup_key="d")]
    await write(link, rows, again=is_late)
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now()")
    await connection.execute("DELETE FROM asyncjobs.serialized_jobs; DELETE FROM asyncjobs.dedup_keys")
    answer = await write(link, rows, again=not is_late)
    assert answer.enqueued[0].created
    assert answer.taken == []
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 1
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs") == 0, "its key was held by what had ended"
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 0, "its key was taken for ever"


async def test_made_again_it_looks_once_more_after_it_waited_for_the_key(
    link: Link, connection: Connection, database: Database
) -> None:
    """The first commits, and its job runs, between the look and the lock of the second."""
    rows = [a_row(serialization_key="k")]
    async with connection.transaction():
        await connection.execute("SELECT asyncjobs.lock_keys('{k}')")
        again = asyncio.create_task(write(link, rows, again=True))
        await waits_for_lock(link, connection)
        other = await database.connect("first")
        await insert_job(other, id=1000, enqueue_token=-1000, serialization_key="k", status="completed")
        await other.close()
    answer = await again
    assert (answer.enqueued[0].created, answer.taken) == (True, [])
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs") == 0


async def test_made_again_after_its_delay_it_keeps_the_delayed_job(link: Link, connection: Connection) -> None:
    rows = [a_row(serialization_key="k", run_at=datetime.now(UTC) + timedelta(hours=1))]
    await write(link, rows)
    late = [a_row(serialization_key="k", run_at=datetime.now(UTC) - timedelta(seconds=1))]
    answer = await write(link, late, again=True)
    assert (answer.enqueued[0].id, answer.taken) == (1000, [])
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs") == 0


@pytest.mark.parametrize("waits", [False, True])
async def test_ids_that_others_have_are_named_and_nothing_is_written(link: Link, connection: Connection, *, waits: bool) -> None:
    if waits:
        await insert_place(connection, "other", 1001, is_head=True)
        await insert_job(connection, id=1001, serialization_key="other", enqueue_token=7)
    else:
        await insert_job(connection, id=1001, enqueue_token=7)
    rows = [a_row(dedup_key=f"d{n}", payload={"n": n}) for n in range(3)]
    answer = await write(link, rows, again=True)
    assert answer.taken == [0, 1, 2]
    assert await payloads(connection) == {1001: "{}"}
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 0


async def test_ids_that_are_taken_at_the_first_try_make_the_call_fail_as_one_to_be_made_again(
    link: Link, connection: Connection
) -> None:
    await insert_job(connection, id=1001)
    with pytest.raises(asyncpg.SerializationError):
        await write(link, [a_row(dedup_key=f"d{n}") for n in range(3)])
    assert await payloads(connection) == {1001: "{}"}
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 0


async def test_made_again_while_the_first_is_about_to_commit_it_counts_the_firsts_rows_as_its_own(
    link: Link, connection: Connection, database: Database
) -> None:
    rows = [a_row(dedup_key="d"), a_row(serialization_key="k"), a_row()]
    other = database.link("first")
    slow = await other.connection()
    async with slow.transaction():
        await write(other, rows)
        again = asyncio.create_task(write(link, rows, again=True))
        await waits_for_lock(link, connection)
    answer = await again
    assert [one.created for one in answer.enqueued] == [True, True, True]
    assert [one.id for one in answer.enqueued] == [1000, 1001, 1002]
    await other.close()


async def test_made_again_while_the_first_rolls_back_it_writes_the_rows(
    link: Link, connection: Connection, database: Database
) -> None:
    rows = [a_row(dedup_key="d"), a_row(serialization_key="k"), a_row()]
    other = database.link("first")
    slow = await other.connection()
    transaction = slow.transaction()
    await transaction.start()
    await write(other, rows)
    again = asyncio.create_task(write(link, rows, again=True))
    await waits_for_lock(link, connection)
    await transaction.rollback()
    answer = await again
    assert [one.created for one in answer.enqueued] == [True, True, True]
    assert len(await payloads(connection)) == 3
    await other.close()


async def test_the_dedup_row_comes_before_the_lock_of_the_key(link: Link, connection: Connection, database: Database) -> None:
    """A call that waits for a dedup key holds no key's lock, so a stranger's transaction delays no other job of that key."""
    async with connection.transaction():
        await insert(connection, "dedup_keys", type="email", dedup_key="held", job_id=1)
        held = asyncio.create_task(write(link, [a_row(dedup_key="held", serialization_key="k")]))
        await waits_for_lock(link, connection)
        other = database.link("other")
        async with patience(1):
            answer = await write(other, [a_row(serialization_key="k")], first_id=2000)
        assert answer.enqueued[0].created
        await other.close()
        await connection.execute("DELETE FROM asyncjobs.dedup_keys")
    assert (await held).enqueued[0].id == 1000


async def test_two_calls_that_take_keys_and_dedup_keys_in_opposite_orders_both_succeed(database: Database) -> None:
    forth = [a_row(dedup_key=f"d{n}", serialization_key=f"k{n}") for n in range(20)]
    back = [a_row(dedup_key=f"d{n}", serialization_key=f"k{n}") for n in reversed(range(20))]
    sides = [(database.link("forth"), forth), (database.link("back"), back)]
    for turn in range(5):
        answers = await asyncio.gather(
            *(write(link, rows, first_id=10_000 * (turn * 2 + at + 1)) for at, (link, rows) in enumerate(sides))
        )
        assert {one.id for one in answers[0].enqueued} == {one.id for one in answers[1].enqueued}
    for link, _ in sides:
        await link.close()


async def test_a_lock_that_is_held_longer_than_the_lock_timeout_ends_the_call(link: Link, connection: Connection) -> None:
    async with connection.transaction():
        await insert(connection, "dedup_keys", type="email", dedup_key="held", job_id=1)
        with pytest.raises(asyncpg.LockNotAvailableError):
            await jobs.enqueue(link, [a_row(dedup_key="held")], [1], [1], lock_timeout="20ms")
        await connection.execute("DELETE FROM asyncjobs.dedup_keys")
    assert await (await link.connection()).fetchval("SHOW lock_timeout") == "0"


@pytest.mark.parametrize("count", [1, 2])
async def test_jobs_of_a_paused_type_are_paused(link: Link, connection: Connection, count: int) -> None:
    await insert(connection, "pauses", kind="type", name="email")
    await insert(connection, "pauses", kind="queue", name="default")
    await write(link, [a_row(), a_row("other")][:count])
    await write(link, [a_row("other"), a_row()][:count], first_id=2000)
    await write(link, [a_row(delay_seconds=60.0)] * count, first_id=3000)
    rows = await connection.fetch("SELECT id, status FROM asyncjobs.jobs WHERE id % 1000 < $1 ORDER BY id", count)
    statuses = {row["id"]: row["status"] for row in rows}
    assert [statuses[1000], statuses[2000], statuses[3000]] == ["paused", "pending", "scheduled"]
    if count == 2:
        assert [statuses[1001], statuses[2001], statuses[3001]] == ["pending", "paused", "scheduled"]


async def test_jobs_of_a_paused_type_are_paused_also_when_they_wait_in_a_line(link: Link, connection: Connection) -> None:
    await insert(connection, "pauses", kind="type", name="email")
    await write(link, [a_row(), a_row("other"), a_row(serialization_key="k"), a_row(delay_seconds=60.0)])
    rows = await connection.fetch("SELECT id, status FROM asyncjobs.jobs ORDER BY id")
    assert [tuple(row) for row in rows] == [(1000, "paused"), (1001, "pending"), (1002, "paused"), (1003, "scheduled")]


async def test_every_column_of_a_row_is_written_on_both_ways(link: Link, connection: Connection) -> None:
    fields = {
        "queue": "mail", "lane": "fast", "version": 3, "payload": '{"a": 1}', "priority": 7, "max_attempts": 9,
        "timeout_seconds": 2.5, "correlation_id": "c", "parent_job_id": 5, "created_by": "me", "trace_context": "t",
        "on_dead": "halt",
    }  # fmt: skip
    columns = (
        "queue, lane, version, payload::text AS payload, priority, max_attempts, extract(epoch FROM timeout)::float8 "
        "AS timeout_seconds, correlation_id, parent_job_id, created_by, trace_context, on_dead"
    )
    keyed = [a_row(**fields, dedup_key=key, serialization_key="k") for key in "de"]
    await write(link, [a_row(**fields), *keyed, a_row()])
    for number in (1000, 1001, 1002):
        row = await connection.fetchrow(f"SELECT {columns} FROM asyncjobs.jobs WHERE id = $1", number)
        assert row is not None
        assert dict(row) == fields


async def test_delays_and_times_are_kept(link: Link, connection: Connection) -> None:
    at = datetime(2040, 2, 29, 12, 0, 0, 1, tzinfo=UTC)
    await write(link, [a_row(run_at=at), a_row(delay_seconds=90.0), a_row(run_at=datetime(2020, 1, 1, tzinfo=UTC)), a_row()])
    rows = await connection.fetch(
        "SELECT status, run_at, run_at = scheduled_at AS same, extract(epoch FROM run_at - created_at)::float8 AS delay "
        "FROM asyncjobs.jobs ORDER BY id"
    )
    assert [row["status"] for row in rows] == ["scheduled", "scheduled", "pending", "pending"]
    assert rows[0]["run_at"] == at
    assert (rows[1]["delay"], rows[3]["delay"]) == (90.0, 0.0)
    assert all(row["same"] for row in rows)


async def test_the_call_reserves_ids_for_the_next(link: Link) -> None:
    for key in (None, "k"):
        rows = [a_row(serialization_key=key), a_row()]
        answer = await jobs.enqueue(link, rows, await jobs.reserve_ids(link, 2), [1, 2], reserve=3)
        assert len(set(answer.reserved)) == 3
        assert min(answer.reserved) > answer.enqueued[1].id


async def test_a_row_alone_reserves_an_id_for_the_next(link: Link) -> None:
    [number] = await jobs.reserve_ids(link, 1)
    assert (await jobs.enqueue(link, [a_row()], [number], [1])).reserved == [number + 1]


@pytest.mark.parametrize("count", [1, 3])
async def test_an_id_that_another_job_has_refuses_a_first_try_as_what_passes(
    link: Link, connection: Connection, count: int
) -> None:
    theirs = await insert_job(connection)
    ids = [theirs, theirs + 1, theirs + 2][:count]
    with pytest.raises(asyncpg.SerializationError):
        await jobs.enqueue(link, [a_row()] * count, ids, ids)
    assert (await jobs.enqueue(link, [a_row()] * count, ids, ids, again=True)).taken == list(range(count))


@pytest.mark.parametrize("count", [1, 2])
async def test_rows_that_wait_for_nobody_are_written_as_they_are(link: Link, connection: Connection, count: int) -> None:
    rows = [
        a_row(
            "t", queue="q", lane="l", version=4, payload={"a": [1]}, priority=7, max_attempts=9, timeout_seconds=1.5,
            correlation_id="c", parent_job_id=5, created_by="me", on_dead="halt", trace_context="00-1", delay_seconds=60.0,
        ),
        a_row("u", queue="r"),
    ][:count]  # fmt: skip
    await jobs.enqueue(link, rows, [11, 12][:count], [-1, -2][:count])
    found = await connection.fetch(
        "SELECT id, enqueue_token, type, queue, lane, version, payload::text, priority, max_attempts, timeout, correlation_id, "
        "parent_job_id, created_by, on_dead, trace_context, status, run_at - created_at AS delay, scheduled_at = run_at AS same "
        "FROM asyncjobs.jobs ORDER BY id"
    )
    minute, nothing = timedelta(seconds=60), timedelta(0)
    assert [tuple(row) for row in found] == [
        (
            11,
            -1,
            "t",
            "q",
            "l",
            4,
            '{"a": [1]}',
            7,
            9,
            timedelta(seconds=1.5),
            "c",
            5,
            "me",
            "halt",
            "00-1",
            "scheduled",
            minute,
            True,
        ),
        (12, -2, "u", "r", None, 1, "{}", 100, 3, None, None, None, None, "advance", None, "pending", nothing, True),
    ][:count]
