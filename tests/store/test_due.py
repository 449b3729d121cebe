"""The promotion as one call each: of jobs that are heads or have no key, and of jobs that join their key's line."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import ANY

import pytest

from asyncjobs.store import due
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.testing import MovableClock
from tests.support.eventually import patience
from tests.support.factories import insert, insert_job, insert_place, insert_waiting


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("duties")
    yield made
    await made.close()


async def promote(link: Link, batch: int, **options: Any) -> due.Promoted:
    promoted, _ = await due.promote(link, batch, **options)
    return promoted


async def delayed(connection: Connection, seconds: float, **columns: Any) -> int:
    """A scheduled job that is due in so many seconds."""
    run_at = await connection.fetchval("SELECT now() + make_interval(secs => $1)", seconds)
    return await insert_job(connection, **({"status": "scheduled", "run_at": run_at} | columns))


async def statuses(connection: Connection, *ids: int) -> list[str]:
    rows = await connection.fetch("SELECT id, status FROM asyncjobs.jobs")
    found = {row["id"]: row["status"] for row in rows}
    return [found[id] for id in ids]


@pytest.mark.matrix("schema")
async def test_nothing_is_due(link: Link) -> None:
    assert await promote(link, 100) == due.Promoted()


@pytest.mark.parametrize("status", ["scheduled", "failed"])
async def test_due_job_becomes_pending_with_a_new_place(link: Link, connection: Connection, status: str) -> None:
    job_id = await delayed(connection, -1, status=status, queue="mail")
    place = await connection.fetchval("SELECT place FROM asyncjobs.jobs")
    assert await promote(link, 100) == due.Promoted(count=1, queues=["mail"])
    assert await statuses(connection, job_id) == ["pending"]
    assert await connection.fetchval("SELECT place FROM asyncjobs.jobs") > place


async def test_answer_tells_when_the_next_job_is_due(link: Link, connection: Connection) -> None:
    ids = [await delayed(connection, seconds, status=status) for seconds, status in ((50, "scheduled"), (20, "failed"))]
    answer = await promote(link, 100)
    assert answer.count == 0
    assert answer.next_due_seconds is not None
    assert 0 < answer.next_due_seconds <= 20
    assert await statuses(connection, *ids) == ["scheduled", "failed"]


async def test_next_due_time_is_the_servers(link: Link, connection: Connection, database: Database) -> None:
    job_id = await delayed(connection, 3600)
    async with MovableClock(database) as clock:
        await clock.advance(timedelta(minutes=59))
        answer = await promote(link, 100)
        assert answer.next_due_seconds is not None
        assert 30 < answer.next_due_seconds <= 60
        await clock.advance(timedelta(minutes=1))
        assert (await promote(link, 100)).count == 1
    assert await statuses(connection, job_id) == ["pending"]


async def test_jobs_get_their_places_in_the_order_in_which_they_were_due(link: Link, connection: Connection) -> None:
    ids = [await delayed(connection, seconds) for seconds in (-1, -3, -2)]
    await promote(link, 100)
    rows = await connection.fetch("SELECT id FROM asyncjobs.jobs ORDER BY place")
    assert [row["id"] for row in rows] == [ids[1], ids[2], ids[0]]


async def test_batch_takes_those_that_are_due_for_longest(link: Link, connection: Connection) -> None:
    late, later, latest = [await delayed(connection, seconds) for seconds in (-1, -2, -3)]
    assert (await promote(link, 2)).count == 2
    assert await statuses(connection, late, later, latest) == ["scheduled", "pending", "pending"]


async def test_better_priority_than_most_is_told(link: Link, connection: Connection) -> None:
    await delayed(connection, -1, queue="a", priority=99)
    await delayed(connection, -1, queue="a")
    await delayed(connection, -1, queue="b")
    promoted = await promote(link, 100)
    assert (sorted(promoted.queues), {*promoted.urgent}) == (["a", "a", "b"], {"a"})


async def test_row_that_others_hold_is_left_to_them_and_starves_nobody(link: Link, connection: Connection) -> None:
    held, free = await delayed(connection, -2), await delayed(connection, -1)
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", held)
        async with patience(2):
            assert (await promote(link, 1)).count == 1
        assert await statuses(connection, free) == ["pending"]
    assert (await promote(link, 1)).count == 1


async def test_next_call_goes_on_where_the_last_one_got_to(link: Link, connection: Connection) -> None:
    await delayed(connection, -10)
    _, reached = await due.promote(link, 100)
    late = await delayed(connection, -5)  # commits after its time, and after the call
    now = await delayed(connection, 0)
    assert (await promote(link, 100, since=reached.at)).count == 1
    assert await statuses(connection, late, now) == ["scheduled", "pending"]
    assert (await promote(link, 100)).count == 1


async def test_call_after_a_full_batch_leaves_nobody_out_that_was_due_at_the_same_time(
    link: Link, connection: Connection
) -> None:
    run_at = await connection.fetchval("SELECT now() - interval '1 second'")
    for _ in range(5):
        await insert_job(connection, status="scheduled", run_at=run_at)
    since: datetime | None = None
    counts: list[int] = []
    for _ in range(3):
        promoted, reached = await due.promote(link, 2, since=since)
        counts.append(promoted.count)
        since = reached.at
    assert counts == [2, 2, 1]


async def test_two_promote_each_job_once(database: Database, link: Link, connection: Connection) -> None:
    for _ in range(60):
        await delayed(connection, -1)
    other = database.link("duties")
    count = 0
    while count < 60:
        count += sum(answer.count for answer in await asyncio.gather(promote(link, 7), promote(other, 7)))
    assert count == 60
    assert await connection.fetchval("SELECT count(DISTINCT place) FROM asyncjobs.jobs WHERE status = 'pending'") == 60
    await other.close()


async def test_held_back_jobs_become_paused_and_nobody_is_woken(link: Link, connection: Connection) -> None:
    await insert(connection, "pauses", kind="type", name="email")
    job_id = await delayed(connection, -1)
    assert await promote(link, 100) == due.Promoted(count=1)
    assert await statuses(connection, job_id) == ["paused"]


async def test_job_that_is_due_never_does_not_break_the_others(link: Link, connection: Connection) -> None:
    await connection.execute(
        "INSERT INTO asyncjobs.jobs (enqueue_token, type, status, run_at) VALUES (0, 'email', 'scheduled', 'infinity')"
    )
    await delayed(connection, -1)
    assert await promote(link, 100) == due.Promoted(count=1, queues=["default"])
    await connection.execute("DELETE FROM asyncjobs.jobs WHERE status = 'scheduled'")


async def test_head_that_failed_or_snoozed_becomes_pending_and_keeps_its_line(link: Link, connection: Connection) -> None:
    head = await delayed(connection, -1, status="failed", serialization_key="k")
    await insert_place(connection, "k", head, is_head=True, place=1)
    waiting = await insert_waiting(connection, "k", place=2)
    assert await promote(link, 100) == due.Promoted(count=1, queues=["default"])
    rows = await connection.fetch("SELECT id, dispatched_at IS NOT NULL FROM asyncjobs.serialized_jobs ORDER BY place")
    assert [tuple(row) for row in rows] == [(head, True), (waiting, False)]


async def test_keyed_job_that_has_no_place_in_its_line_is_named_and_not_promoted(link: Link, connection: Connection) -> None:
    job_id = await delayed(connection, -1, serialization_key="k")
    assert await promote(link, 100) == due.Promoted(keys=["k"])
    assert await promote(link, 100, blocked=["k"]) == due.Promoted()
    assert await statuses(connection, job_id) == ["scheduled"]


async def test_keyed_jobs_and_others_do_not_starve_each_other(link: Link, connection: Connection) -> None:
    for number in range(5):
        await delayed(connection, -100, serialization_key=f"k{number}")
        await delayed(connection, -200, queue="plain")
    answer = await promote(link, 2)
    assert answer.count == 2
    assert len(answer.keys) == 2


async def test_due_job_of_an_idle_key_becomes_its_pending_head(link: Link, connection: Connection) -> None:
    job_id = await delayed(connection, -1, serialization_key="k", queue="mail", priority=5)
    assert await due.promote_keyed(link, ["k"], 100) == due.Promoted(count=1, queues=["mail"], urgent=frozenset({"mail"}))
    assert await statuses(connection, job_id) == ["pending"]
    assert await connection.fetchval("SELECT id FROM asyncjobs.serialized_jobs WHERE dispatched_at IS NOT NULL") == job_id


async def test_due_job_waits_behind_the_head_of_its_key(link: Link, connection: Connection) -> None:
    head = await insert_job(connection, serialization_key="k")
    await insert_place(connection, "k", head, is_head=True)
    before = await insert_waiting(connection, "k")
    job_id = await delayed(connection, -1, serialization_key="k")
    assert await due.promote_keyed(link, ["k"], 100) == due.Promoted(count=1)
    assert await statuses(connection, head, job_id) == ["pending", "waiting"]
    rows = await connection.fetch("SELECT id FROM asyncjobs.serialized_jobs ORDER BY place")
    assert [row["id"] for row in rows] == [head, before, job_id]


async def test_jobs_join_their_line_in_the_order_in_which_they_were_due(link: Link, connection: Connection) -> None:
    first, third, second = [await delayed(connection, seconds, serialization_key="k") for seconds in (-3, -1, -2)]
    await due.promote_keyed(link, ["k"], 100)
    rows = await connection.fetch("SELECT id FROM asyncjobs.serialized_jobs ORDER BY place")
    assert [row["id"] for row in rows] == [first, second, third]
    assert await statuses(connection, first, second, third) == ["pending", "waiting", "waiting"]


async def test_job_joins_under_the_lock_of_its_key_and_does_not_wait_long_for_it(link: Link, connection: Connection) -> None:
    await delayed(connection, -1, serialization_key="k")
    async with connection.transaction():
        await connection.execute("SELECT asyncjobs.lock_keys('{k}')")
        async with patience(2):
            assert await due.promote_keyed(link, ["k"], 100) is None
    assert await due.promote_keyed(link, ["k"], 100) == due.Promoted(count=1, queues=["default"])


async def test_joining_sees_the_head_that_was_dispatched_while_it_waited_for_the_lock(link: Link, connection: Connection) -> None:
    job_id = await delayed(connection, -1, serialization_key="k")
    await connection.execute("ALTER FUNCTION asyncjobs.promote_keyed(text[], integer) RESET lock_timeout")
    async with connection.transaction():
        await connection.execute("SELECT asyncjobs.lock_keys('{k}')")
        joining = asyncio.create_task(due.promote_keyed(link, ["k"], 100))
        while not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"):
            await asyncio.sleep(0.01)
        head = await insert_job(connection, serialization_key="k")
        await insert_place(connection, "k", head, is_head=True)
    assert await joining == due.Promoted(count=1)
    assert await statuses(connection, head, job_id) == ["pending", "waiting"]


async def test_due_job_of_a_paused_key_waits_in_its_line(link: Link, connection: Connection) -> None:
    await insert(connection, "pauses", kind="key", name="k")
    job_id = await delayed(connection, -1, serialization_key="k")
    assert await due.promote_keyed(link, ["k"], 100) == due.Promoted(count=1)
    assert await statuses(connection, job_id) == ["waiting"]
    await connection.execute("DELETE FROM asyncjobs.pauses")
    await connection.execute("SELECT asyncjobs.dispatch_keys('{k}')")


async def test_promoting_reads_what_is_due_and_not_what_is_scheduled(link: Link, connection: Connection) -> None:
    await connection.execute(
        """INSERT INTO asyncjobs.jobs (enqueue_token, type, status, run_at)
           SELECT 0, 'email', 'scheduled', now() + make_interval(hours => n) FROM generate_series(1, 20000) AS n"""
    )
    ids = [await delayed(connection, -n) for n in range(1, 11)]
    own = await link.connection()
    read = (
        "SELECT pg_stat_get_xact_tuples_returned('asyncjobs.jobs_due'::regclass)"
        " + pg_stat_get_xact_tuples_returned('asyncjobs.jobs'::regclass)"
    )
    async with own.transaction():  # which the link is then in
        assert await promote(link, 100) == due.Promoted(count=10, queues=["default"] * 10, next_due_seconds=ANY)
        assert 10 <= await own.fetchval(read) <= 40
    assert await statuses(connection, *ids) == ["pending"] * 10
    await connection.execute("TRUNCATE asyncjobs.jobs")
