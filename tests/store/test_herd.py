"""What the statements that make jobs pending say of them: as many as there are are told of with a lot (`runtime/herd.py`)."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs.store import due, jobs, runners, serialized
from asyncjobs.store.database import Connection, Database, Link
from tests.support.claims import SUSPECT, Claims, an_ack
from tests.support.factories import insert_job, insert_place, insert_runner, insert_waiting
from tests.support.limiting import declare, enqueue, promote


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("duties")
    yield made
    await made.close()


async def a_head(claims: Claims, key: str, **of_the_next: Any) -> Any:
    """The head of a key, claimed, and one behind it."""
    job = await claims.claim_one(serialization_key=key)
    await insert_place(claims.connection, key, job.id, is_head=True)
    await insert_waiting(claims.connection, key, **of_the_next)
    return job


@pytest.mark.parametrize("call", ["finish", "finish_completed"])
async def test_next_heads_are_told_of_by_their_number(claims: Claims, call: str) -> None:
    acks = [an_ack(await a_head(claims, key, queue=queue)) for key, queue in (("a", "default"), ("b", "mail"), ("c", "mail"))]
    if call == "finish":
        finished = await claims.ack(*acks)
    else:
        finished = await jobs.finish_completed(
            claims.link, 1, acks, None, ("email",), suspects=False, token_base=5, token_seq=1000
        )  # fmt: skip
    assert (sorted(finished.heads), {*finished.for_all}) == (["default", "mail", "mail"], set())


async def test_a_next_head_that_is_a_suspect_concerns_all_since_each_runner_takes_one(claims: Claims) -> None:
    acks = [an_ack(await a_head(claims, "a", **SUSPECT)), an_ack(await a_head(claims, "b", queue="mail"))]
    finished = await claims.ack(*acks)
    assert (sorted(finished.heads), {*finished.for_all}) == (["default", "mail"], {"default"})


async def test_a_limit_that_is_open_concerns_all_since_any_number_may_be_claimed(claims: Claims) -> None:
    await declare(claims.connection, each=1)
    await enqueue(claims, "api:a", "api:a", "api:a")
    [job] = await claims.claim(10)
    await claims.claim(10)
    finished = await claims.ack(an_ack(job))
    assert (finished.heads, {*finished.for_all}) == (["default"], {"default"})
    promoted = await promote(claims)
    assert (promoted.queues, promoted.opened) == ([], [])


async def test_what_is_due_is_told_of_by_its_number(link: Link, connection: Connection) -> None:
    past = await connection.fetchval("SELECT now() - interval '1 s'")
    for queue, status, key in (("mail", "scheduled", None), ("mail", "failed", None), ("default", "scheduled", "k")):
        await insert_job(connection, queue=queue, status=status, run_at=past, serialization_key=key)
    promoted, _ = await due.promote(link, 100)
    assert (promoted.queues, promoted.keys, promoted.opened) == (["mail", "mail"], ["k"], [])
    joined = await due.promote_keyed(link, ["k"], 100)
    assert joined is not None
    assert joined.queues == ["default"]


async def test_what_is_rescued_is_told_of_by_its_number_and_where_suspects_are(link: Link, connection: Connection) -> None:
    for runner_id, queue, losses in ((7, "mail", 0), (7, "mail", 0), (8, "default", 1), (8, "default", 1)):
        await insert_job(connection, queue=queue, status="processing", runner_id=runner_id, losses=losses)
    rescued = await runners.rescue(link, 100, max_errors=10)
    assert (sorted(rescued.queues), rescued.suspects) == (["default", "default", "mail", "mail"], ["default"])


async def test_heads_that_are_dispatched_and_let_go_are_told_of_by_their_number(link: Link, connection: Connection) -> None:
    for key in "abc":
        await insert_waiting(connection, key, queue="mail")
    done = await serialized.advance(link, ["a", "b"], [])
    assert (done.count, done.queues) == (2, ["mail", "mail"])
    ended = await insert_job(connection, status="completed", serialization_key="c")
    await connection.execute("UPDATE asyncjobs.serialized_jobs SET place = place + 1000 WHERE serialization_key = 'c'")
    await insert_place(connection, "c", ended, is_head=True)
    assert await serialized.release_ended(link, ended) == ["mail"]


@pytest.mark.parametrize("lane", [None, "fast"])
@pytest.mark.parametrize("limit_key", [None, "api:a"])
async def test_a_look_leaves_out_what_became_pending_in_the_last_15_ms(
    connection: Connection, lane: str | None, limit_key: str | None
) -> None:
    """Within a transaction the clock stands. What is of later than now is of a clock that was turned back."""
    await insert_runner(connection)
    await declare(connection, each=1)
    await insert_job(connection, lane=lane, limit_key=limit_key)
    if limit_key is not None:
        await connection.execute("SELECT asyncjobs.open_turns('{}', '{api:a}', '{default}', ARRAY[coalesce($1, '')], '{}')", lane)
    async with connection.transaction():
        for seconds, is_seen in ((0.0, False), (-0.0149, False), (-0.015001, True), (0.000001, True)):
            await connection.execute(
                "UPDATE asyncjobs.jobs SET updated_at = asyncjobs.clock() + make_interval(secs => $1)", seconds
            )
            found = await connection.fetch(
                "SELECT queue FROM asyncjobs.skipped(1, '{default}', ARRAY[$1::text], '{email}', false)", lane
            )
            assert bool(found) is is_seen, f"{seconds} s"
    await connection.execute("DELETE FROM asyncjobs.jobs; DELETE FROM asyncjobs.limit_turns")
