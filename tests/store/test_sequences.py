"""Sequences that stand behind their rows: the sentences of `store/sequences.py`."""

import json
import secrets
from collections.abc import AsyncGenerator

import asyncpg
import pytest

from asyncjobs.model.new_row import NewRow
from asyncjobs.store import callers, dead_letters, jobs, sequences, serialized
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.store.due import promote_keyed
from asyncjobs.store.sequences import Moved
from tests.support.factories import a_row, insert, insert_job, insert_waiting
from tests.support.sequences import fill, reset_sequences

pytestmark = pytest.mark.unaudited("rows are made by hand, and sequences reset")


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("test sequences")
    yield made
    await made.close()


async def enqueue(link: Link, *rows: NewRow) -> list[int]:
    """As an enqueuer does, with ids that are drawn just now."""
    ids = await jobs.reserve_ids(link, len(rows))
    answer = await jobs.enqueue(link, rows, ids, [jobs.fresh_token() for _ in rows])
    return [one.id for one in answer.enqueued]


async def line(connection: Connection) -> list[int]:
    rows = await connection.fetch(
        "SELECT (j.payload ->> 'n')::int AS n FROM asyncjobs.serialized_jobs AS s JOIN asyncjobs.jobs AS j ON j.id = s.id"
        " ORDER BY s.dispatched_at IS NULL, s.place"
    )
    return [row["n"] for row in rows]


async def test_sequences_that_are_behind_are_moved_on_and_others_left(link: Link, connection: Connection) -> None:
    assert await sequences.move_on(link, surely=False) == []
    await fill(connection, 5)
    await insert_job(connection, id=40, place=700)
    await insert(connection, "dead_letter_jobs", job_id=41, original_job="{}")
    await insert(connection, "dispatch_requests", serialization_key="k")
    await reset_sequences(connection)
    moved = {one.name: one for one in await sequences.move_on(link, surely=False)}
    assert moved == {
        "jobs_id_seq": Moved("jobs_id_seq", 0, 1041),
        "place_seq": Moved("place_seq", 0, 1700),
        "dead_letter_jobs_id_seq": Moved("dead_letter_jobs_id_seq", 0, 1001),
        "dispatch_requests_id_seq": Moved("dispatch_requests_id_seq", 0, 1001),
    }
    assert await sequences.move_on(link, surely=True) == []


async def test_a_place_that_only_older_rows_have_is_found_when_it_is_looked_for(link: Link, connection: Connection) -> None:
    await insert_job(connection, id=1, place=900, queue="other", priority=7)
    await insert_job(connection, id=2, place=5)
    await connection.execute("SELECT setval('asyncjobs.jobs_id_seq', 9), setval('asyncjobs.place_seq', 10)")
    assert await sequences.move_on(link, surely=False) == []
    assert await sequences.move_on(link, surely=True) == [Moved("place_seq", 10, 1900)]


async def test_a_strangers_row_at_the_end_of_all_numbers_takes_no_sequence_there(link: Link, connection: Connection) -> None:
    await insert_job(connection, id=2**63 - 1, place=2**63 - 1)
    assert await sequences.move_on(link, surely=True) == []


@pytest.mark.parametrize("way", ["a batch", "a caller's transaction", "a promotion", "a retry"])
async def test_the_order_of_a_key_holds_with_all_sequences_reset(
    link: Link, database: Database, connection: Connection, dsn: str, way: str
) -> None:
    rows = [a_row(serialization_key="k", payload={"n": n}) for n in range(7)]
    await enqueue(link, *rows[:4])
    late = await insert_job(connection, serialization_key="k", status="scheduled", payload=json.dumps({"n": 4}))
    dead = await insert_job(connection, serialization_key="k", status="dead", payload=json.dumps({"n": 4}))
    await reset_sequences(connection)
    if way == "a batch":
        await connection.execute("SELECT setval('asyncjobs.jobs_id_seq', 100)")
        await enqueue(link, *rows[4:])
        assert await line(connection) == list(range(7))
    elif way == "a caller's transaction":
        await connection.execute("SELECT setval('asyncjobs.jobs_id_seq', 100)")
        caller = await asyncpg.connect(dsn)
        async with caller.transaction():
            await callers.enqueue(caller, database, rows[4:], [secrets.randbits(62) for _ in rows[4:]])
        await caller.close()
        assert await line(connection) == list(range(7))
    else:
        if way == "a promotion":
            await connection.execute("UPDATE asyncjobs.jobs SET run_at = now() - interval '1 s' WHERE id = $1", late)
            await promote_keyed(link, ["k"], 100)
        else:
            await serialized.retry(link, dead, "ada")
        assert await line(connection) == list(range(5))


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("dedup_key", [None, "d"])
async def test_ids_that_a_callers_transaction_draws_are_its_own(
    database: Database, connection: Connection, dsn: str, key: str | None, dedup_key: str | None
) -> None:
    await fill(connection, 30)
    await insert_waiting(connection, "held", id=31)
    await reset_sequences(connection)
    rows = [a_row(payload={"n": n}, dedup_key=dedup_key) for n in range(2)] + [a_row(queue="line", serialization_key=key)]
    caller = await asyncpg.connect(dsn)
    try:
        async with caller.transaction():
            answer = await callers.enqueue(caller, database, rows, [secrets.randbits(62) for _ in rows])
    finally:
        await caller.close()
    ids = [one.id for one in answer.enqueued]
    assert min(ids) > 31
    assert [one.created for one in answer.enqueued] == [True, dedup_key is None, True]
    if dedup_key is not None:
        assert ids[0] == ids[1] == await connection.fetchval("SELECT job_id FROM asyncjobs.dedup_keys")
    found = await connection.fetch("SELECT id FROM asyncjobs.jobs WHERE id > 31 ORDER BY id")
    assert [row["id"] for row in found] == sorted(set(ids))


async def test_dead_letters_and_requests_whose_numbers_are_taken_draw_others(link: Link, connection: Connection) -> None:
    for _ in range(3):
        await insert(connection, "dead_letter_jobs", job_id=77, original_job="{}")
        await insert(connection, "dispatch_requests", serialization_key="k")
    ids = [await insert_job(connection, status="dead") for _ in range(2)]
    await reset_sequences(connection)
    await connection.execute("SELECT asyncjobs.bury($1)", ids)
    found = await connection.fetch("SELECT id, job_id FROM asyncjobs.dead_letter_jobs WHERE job_id < 77 ORDER BY job_id")
    assert [(row["job_id"], row["id"] > 1000) for row in found] == [(ids[0], True), (ids[1], True)]
    await reset_sequences(connection)
    await connection.execute("SELECT asyncjobs.request_dispatch('{a,b}')")
    requests = await connection.fetch("SELECT serialization_key FROM asyncjobs.dispatch_requests ORDER BY serialization_key")
    assert [row["serialization_key"] for row in requests] == ["a", "b", "k", "k", "k"]


async def test_a_requeued_dead_letter_gets_an_id_of_its_own(link: Link, connection: Connection) -> None:
    job_id = await insert_job(connection, status="dead")
    await connection.execute("SELECT asyncjobs.bury(ARRAY[$1::bigint])", job_id)
    dead_letter = await connection.fetchval("SELECT id FROM asyncjobs.dead_letter_jobs")
    await reset_sequences(connection)
    await dead_letters.requeue(link, [dead_letter], "ada", force=False)
    assert await connection.fetchval("SELECT max(id) FROM asyncjobs.jobs") > 1000
