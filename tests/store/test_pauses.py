"""Rows follow what is paused: batch by batch, whoever calls, and only those that have to."""

import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from asyncjobs.store import pauses, runners, serialized
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.store.pauses import Kind, Pause, Paused
from tests.support.eventually import eventually
from tests.support.factories import insert_job, insert_place, insert_runner
from tests.support.holding import pause_key


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("pauses")
    yield made
    await made.close()


@pytest.fixture(autouse=True)
async def served(connection: Connection, schema: str) -> None:
    await insert_runner(connection, schema=schema, id=1, queues=["default"], types=["email", "sms"])


async def converge(link: Link, *, batch: int = 100, window: int = 100) -> tuple[int, int, list[str], bool]:
    found = await pauses.converge(link, batch, window=window, grace_seconds=300.0)
    return found.held, found.resumed, found.queues, found.more


async def was_paused(connection: Connection, *types: str) -> None:
    """Types that were paused until now."""
    for type in types:
        await connection.execute("INSERT INTO asyncjobs.pauses (kind, name) VALUES ('type', $1)", type)
        await connection.execute("DELETE FROM asyncjobs.pauses WHERE name = $1", type)


async def statuses(connection: Connection) -> list[tuple[str, str]]:
    return [tuple(row) for row in await connection.fetch("SELECT type, status FROM asyncjobs.jobs ORDER BY place, id")]


@pytest.mark.matrix("schema")
async def test_a_pause_is_written_once_and_listed(link: Link) -> None:
    assert await pauses.pause(link, "type", "email", "too many", "ada") == Paused(is_new=True, served=True)
    assert await pauses.pause(link, "type", "email", "again", "bob") == Paused(is_new=False, served=True)
    assert await pauses.pause(link, "queue", "nowhere", None, None) == Paused(is_new=True, served=False)
    found = await pauses.pauses(link)
    assert [(one.kind, one.name, one.reason, one.paused_by) for one in found] == [
        ("type", "email", "too many", "ada"),
        ("queue", "nowhere", None, None),
    ]
    assert isinstance(found[0], Pause)
    assert await pauses.resume(link, "type", "email")
    assert not await pauses.resume(link, "type", "email")
    assert await converge(link) == (0, 0, [], False)


async def test_pending_jobs_of_a_paused_type_are_moved_a_batch_at_a_time_and_come_back_in_order(
    link: Link, connection: Connection
) -> None:
    ids = [await insert_job(connection, type=type) for type in ("email", "sms", "email", "email")]
    await pauses.pause(link, "type", "email", None, None)
    assert (await converge(link, batch=2))[0] == 2
    assert await converge(link, batch=2) == (1, 0, [], True)
    assert await converge(link, batch=2) == (0, 0, [], False)
    assert sorted(await statuses(connection)) == [("email", "paused")] * 3 + [("sms", "pending")]
    await pauses.resume(link, "type", "email")
    assert await converge(link, batch=2) == (0, 2, ["default"], True)
    assert await converge(link, batch=2) == (0, 1, ["default"], False)
    order = [row["id"] for row in await connection.fetch("SELECT id FROM asyncjobs.jobs ORDER BY place")]
    assert order == [ids[1], ids[0], ids[2], ids[3]]


async def test_jobs_of_a_paused_queue_stay_as_they_are(link: Link, connection: Connection) -> None:
    await insert_job(connection)
    await pauses.pause(link, "queue", "default", None, None)
    assert await converge(link) == (0, 0, [], False)
    assert await connection.fetchval("SELECT asyncjobs.is_paused('email', NULL)") is False


async def test_what_another_pause_holds_back_stays_paused(link: Link, connection: Connection) -> None:
    head = await insert_job(connection, status="paused", serialization_key="k")
    await insert_place(connection, "k", head, is_head=True)
    await insert_job(connection, type="sms", status="paused")
    await pause_key(link, "k", None, None)
    await pauses.pause(link, "type", "sms", None, None)
    assert await converge(link) == (0, 0, [], False)
    await serialized.resume_key(link, "k")
    assert dict(await statuses(connection)) == {"email": "pending", "sms": "paused"}


async def test_a_head_that_a_hand_made_pending_under_a_pause_of_its_key_is_held_back(link: Link, connection: Connection) -> None:
    head = await insert_job(connection, status="paused", serialization_key="k")
    await insert_place(connection, "k", head, is_head=True)
    await pause_key(link, "k")
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'pending' WHERE id = $1", head)
    assert await converge(link) == (1, 0, [], True)
    assert await converge(link) == (0, 0, [], False)
    assert await statuses(connection) == [("email", "paused")]
    await serialized.resume_key(link, "k")


async def test_a_key_whose_lock_is_held_is_left_for_later(link: Link, connection: Connection) -> None:
    """Whoever holds it may be about to pause the key."""
    await was_paused(connection, "email", "sms")
    head = await insert_job(connection, status="paused", serialization_key="k")
    await insert_place(connection, "k", head, is_head=True)
    await insert_job(connection, type="sms", status="paused")
    async with connection.transaction():
        await connection.execute("SELECT asyncjobs.lock_keys(ARRAY['k'])")
        assert await converge(link) == (0, 1, ["default"], False)
        await connection.execute("INSERT INTO asyncjobs.pauses (kind, name) VALUES ('key', 'k')")
    assert await converge(link) == (0, 0, [], False)
    await serialized.resume_key(link, "k")
    assert dict(await statuses(connection)) == {"email": "pending", "sms": "pending"}


async def by_hand(connection: Connection, text: str) -> None:
    """What an operator does in a session of psql."""
    await connection.execute(f"SET search_path = asyncjobs; {text}; RESET search_path")


PAUSE_ALL = "UPDATE jobs SET status = 'paused' WHERE status = 'pending'"


async def test_an_enqueue_that_saw_the_pause_beside_a_look_that_began_before_it_is_let_go(
    link: Link, connection: Connection, database: Database
) -> None:
    await pauses.pause(link, "type", "email", None, None)
    looking, enqueuing = database.link("looking"), database.link("enqueuing")
    async with (await looking.connection()).transaction():
        await looking.fetch("list_pauses")
        async with (enqueues := await enqueuing.connection()).transaction():
            job_id = await insert_job(enqueues, status="paused")
            await enqueues.execute("UPDATE asyncjobs.jobs SET updated_at = clock_timestamp() WHERE id = $1", job_id)
            await pauses.resume(link, "type", "email")
            assert (await converge(looking))[1] == 0
    await looking.close()
    await enqueuing.close()
    assert (await converge(link))[1] == 1
    assert await statuses(connection) == [("email", "pending")]


@pytest.mark.parametrize("before", ["never", "type", "key"])
async def test_what_a_hand_has_paused_stays_until_a_hand_lets_it_go(link: Link, connection: Connection, before: str) -> None:
    """Also when its type or key was paused before, and went on."""
    head = await insert_job(connection, serialization_key="k")
    await insert_place(connection, "k", head, is_head=True)
    await insert_job(connection, type="sms")
    if before == "type":
        await by_hand(connection, "INSERT INTO pauses (kind, name) VALUES ('type', 'email'), ('type', 'sms')")
        await converge(link)
        await by_hand(connection, "DELETE FROM pauses")
        assert (await converge(link))[1] == 2
    if before == "key":
        await pause_key(link, "k")
        await by_hand(connection, "DELETE FROM pauses")
        assert (await converge(link))[1] == 1
    await by_hand(connection, PAUSE_ALL)
    for _ in range(3):
        assert await converge(link) == (0, 0, [], False)
    assert dict(await statuses(connection)) == {"email": "paused", "sms": "paused"}
    await by_hand(connection, "UPDATE jobs SET status = 'pending' WHERE status = 'paused'")
    assert await converge(link) == (0, 0, [], False)


async def test_a_verb_lets_go_what_a_hand_has_paused(link: Link, connection: Connection) -> None:
    await insert_job(connection)
    await insert_job(connection, type="sms")
    await by_hand(connection, PAUSE_ALL)
    assert not await pauses.resume(link, "type", "email"), "it was not paused"
    assert await converge(link) == (0, 1, ["default"], False)
    assert dict(await statuses(connection)) == {"email": "pending", "sms": "paused"}


async def test_who_had_still_seen_a_pause_when_it_ended_leaves_nothing_paused(
    link: Link, connection: Connection, dsn: str
) -> None:
    late = await asyncpg.connect(dsn)
    await pauses.pause(link, "type", "email", None, None)
    async with late.transaction(isolation="repeatable_read"):
        await late.execute("SELECT FROM asyncjobs.pauses")
        await by_hand(connection, "DELETE FROM pauses")
        assert await converge(link) == (0, 0, [], False)
        await late.execute(
            "INSERT INTO asyncjobs.jobs (type, status, enqueue_token) "
            "SELECT 'email', 'paused', 1 WHERE asyncjobs.is_paused('email', NULL)"
        )
    await late.close()
    assert await converge(link) == (0, 1, ["default"], False)


@pytest.mark.parametrize("kind", ["type", "key"])
async def test_what_a_pause_held_goes_on_when_the_clock_was_set_back_meanwhile(
    link: Link, connection: Connection, kind: str
) -> None:
    head = await insert_job(connection, serialization_key="k")
    await insert_place(connection, "k", head, is_head=True)
    await (pause_key(link, "k") if kind == "key" else pauses.pause(link, "type", "email", None, None))
    await converge(link)
    await connection.execute("UPDATE asyncjobs.jobs SET updated_at = updated_at + interval '1 hour'")  # by the clock of before
    await by_hand(connection, "DELETE FROM pauses")
    assert (await converge(link))[1] == 1
    assert dict(await statuses(connection)) == {"email": "pending"}


async def test_a_pause_is_forgotten_ten_minutes_after_its_end(link: Link, connection: Connection) -> None:
    await insert_job(connection, type="fax", status="paused")
    await pauses.pause(link, "type", "email", None, None)
    await pauses.pause(link, "type", "fax", None, None)
    await pauses.resume(link, "type", "email")
    await converge(link)
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.holds") == 2
    await connection.execute(
        "UPDATE asyncjobs.holds SET ended_at = ended_at - interval '11 minutes', since = since - interval '1 day'"
    )
    await converge(link)
    assert await connection.fetchval("SELECT array_agg(name) FROM asyncjobs.holds") == ["fax"]


@pytest.mark.parametrize("change", ["INSERT INTO pauses (kind, name) VALUES ('type', 'sms')", "DELETE FROM pauses"])
async def test_a_hand_that_changes_pauses_wakes_the_duty(link: Link, connection: Connection, change: str) -> None:
    await pauses.pause(link, "type", "email", None, None)
    heard: list[str] = []
    await connection.add_listener(link.database.channel, lambda *args: heard.append(str(args[-1])))
    await by_hand(connection, change)
    await eventually(lambda: heard == ["p"], description="it is told")
    await connection.reset()


async def test_locked_rows_are_left_for_the_next_call(link: Link, connection: Connection) -> None:
    await insert_job(connection)
    await pauses.pause(link, "type", "email", None, None)
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.jobs FOR UPDATE")
        assert (await converge(link))[0] == 0
    assert (await converge(link))[0] == 1


@pytest.mark.parametrize("kind", ["type", "queue"])
async def test_what_runs_and_what_has_ended_is_not_touched(link: Link, connection: Connection, kind: Kind) -> None:
    for status in ("processing", "completed", "scheduled", "failed", "cancelled"):
        columns: dict[str, Any] = {"claim_token": 1, "runner_id": 1, "attempts": 1} if status == "processing" else {}
        await insert_job(connection, status=status, **columns)
    before = await statuses(connection)
    await pauses.pause(link, kind, "email" if kind == "type" else "default", None, None)
    assert await converge(link) == (0, 0, [], False)
    assert await statuses(connection) == before
    assert await pauses.processing(link, kind, "email" if kind == "type" else "default") == 1
    assert await pauses.processing(link, kind, "another") == 0


async def test_what_nobody_serves_is_moved_out_of_the_way_and_comes_back_with_a_runner(
    link: Link, connection: Connection
) -> None:
    now = await connection.fetchval("SELECT now()")
    for minutes in (1, 10, 20):
        await insert_job(connection, type="fax", run_at=now - timedelta(minutes=minutes))
    await insert_job(connection, type="email", run_at=now - timedelta(minutes=20))
    await insert_job(connection, type="fax", queue="other", run_at=now - timedelta(minutes=20))
    await insert_job(connection, type="fax", suspicion=1, run_at=now - timedelta(minutes=20))
    assert await converge(link) == (3, 0, [], True)
    assert await converge(link) == (0, 0, [], False)
    assert sorted(await statuses(connection)) == [
        ("email", "pending"), ("fax", "paused"), ("fax", "paused"), ("fax", "paused"), ("fax", "pending"), ("fax", "pending"),
    ]  # fmt: skip
    await insert_runner(connection, id=2, queues=["default"], types=["fax"])
    assert await converge(link) == (0, 3, ["default"], False)


async def test_what_was_served_a_moment_ago_is_left_alone(link: Link, connection: Connection) -> None:
    now = await connection.fetchval("SELECT now()")
    await insert_job(connection, type="fax", run_at=now - timedelta(minutes=20))
    await insert_runner(connection, id=2, queues=["default"], types=["fax"])
    await connection.execute(
        "WITH gone AS (DELETE FROM asyncjobs.runners WHERE id = 2 RETURNING *) "
        "INSERT INTO asyncjobs.former_runners (id, host, pid, version, queues, types, started_at, ended_at) "
        "SELECT id, host, pid, version, queues, types, started_at, now() - interval '4 minutes' FROM gone"
    )
    assert await converge(link) == (0, 0, [], False)
    await connection.execute("UPDATE asyncjobs.former_runners SET ended_at = now() - interval '6 minutes'")
    assert await converge(link) == (1, 0, [], True)


async def many(connection: Connection, count: int, status: str) -> None:
    await connection.execute(
        "INSERT INTO asyncjobs.jobs (enqueue_token, queue, type, payload, status, place) "
        "SELECT 0, 'default', 'email', '{}', $2, n - 1000000000 FROM generate_series(1, $1) AS n",
        count,
        status,
    )


async def buffers(connection: Connection, call: str) -> int:
    """Pages that the call touches; what it does is undone."""
    transaction = connection.transaction()
    await transaction.start()
    (row,) = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM {call}")
    await transaction.rollback()
    (plan,) = json.loads(row[0])
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


async def test_many_that_stay_paused_cost_those_that_come_back_nothing(link: Link, connection: Connection) -> None:
    await pauses.pause(link, "type", "email", None, None)
    await insert_job(connection, type="sms", status="paused")
    call = "asyncjobs.converge_pauses(100, 100, interval '5 minutes')"
    few = min([await buffers(connection, call) for _ in range(3)])
    await many(connection, 20_000, "paused")
    assert min([await buffers(connection, call) for _ in range(3)]) <= few + 20


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.proof)])
async def test_pausing_a_type_with_a_backlog_leaves_the_claims_of_others_as_cheap_as_without_it(
    link: Link, connection: Connection, count: int
) -> None:
    claim = "asyncjobs.claim(1, 'default', NULL, 10, -1, -1, '{sms}', false, 1, 1)"
    for _ in range(20):
        await insert_job(connection, type="sms")
    await many(connection, count, "paused")
    # There and back once before, as below: what the moves leave behind makes the indexes' trees higher for everybody.
    for status in ("pending", "paused"):
        await connection.execute("UPDATE asyncjobs.jobs SET status = $1 WHERE type = 'email'", status)
    await connection.execute("VACUUM asyncjobs.jobs")
    alone = min([await buffers(connection, claim) for _ in range(3)])
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'pending' WHERE type = 'email'")
    assert await buffers(connection, claim) > alone + count / 100, "the claim walks over the backlog"
    await pauses.pause(link, "type", "email", None, None)
    while (await converge(link, batch=1_000))[3]:
        pass
    await connection.execute("VACUUM asyncjobs.jobs")
    assert min([await buffers(connection, claim) for _ in range(3)]) <= 1.15 * alone


async def test_what_only_newer_programs_can_run_is_moved_away_and_comes_back(link: Link, connection: Connection) -> None:
    long_ago = await connection.fetchval("SELECT now() - interval '6 minutes'")
    for version in (1, 3, 2):
        await insert_job(connection, version=version, run_at=long_ago)
    await insert_job(connection, version=2)
    assert (await converge(link))[:2] == (2, 0)  # the last one is not due for long
    assert await converge(link) == (0, 0, [], False)
    await insert_runner(connection, id=2, types=["email"], versions='{"email": 2}')
    assert (await converge(link))[:2] == (0, 1)
    rows = await connection.fetch("SELECT version FROM asyncjobs.jobs WHERE status = 'paused'")
    assert [row["version"] for row in rows] == [3]
    await connection.execute("UPDATE asyncjobs.runners SET versions = '{\"email\": 3}' WHERE id = 2")
    assert (await converge(link))[:2] == (0, 1)


async def test_a_version_that_a_runner_knew_a_moment_ago_stays(link: Link, connection: Connection) -> None:
    await insert_job(connection, version=2, run_at=await connection.fetchval("SELECT now() - interval '6 minutes'"))
    await insert_runner(connection, id=2, types=["email"], versions='{"email": 2}')
    await runners.leave(link, 2)
    assert await converge(link) == (0, 0, [], False)
    await connection.execute("UPDATE asyncjobs.former_runners SET ended_at = now() - interval '6 minutes'")
    assert (await converge(link))[:2] == (1, 0)
