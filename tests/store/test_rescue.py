"""The rescue as one call. The rows of these tests name runners that never were: those are orphans."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs.store import runners
from asyncjobs.store.database import Connection, Database, Link
from asyncjobs.store.runners import Rescued
from tests.support.eventually import patience
from tests.support.factories import insert, insert_job, insert_place, insert_runner, insert_waiting


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("duties")
    yield made
    await made.close()


async def rescue(link: Link, batch: int = 100, *, max_errors: int = 10) -> Rescued:
    return await runners.rescue(link, batch, max_errors=max_errors)


async def job(connection: Connection, job_id: int) -> Any:
    return await connection.fetchrow("SELECT *, run_at <= now() AS due FROM asyncjobs.jobs WHERE id = $1", job_id)


async def orphan(connection: Connection, **columns: Any) -> int:
    defaults: dict[str, Any] = {"status": "processing", "runner_id": 99, "claim_token": 5}
    return await insert_job(connection, **(defaults | columns))


@pytest.mark.matrix("schema")
async def test_nothing_to_rescue(link: Link) -> None:
    assert await rescue(link) == Rescued([], [], [], [], [], [], [], more=False)


async def test_job_of_a_runner_that_is_gone_is_pending_again(link: Link, connection: Connection) -> None:
    job_id = await orphan(connection, queue="mail", attempts=1, max_attempts=3)
    before = await job(connection, job_id)
    assert await rescue(link) == Rescued([job_id], [], [], [], ["mail"], [], [("email", "failed")], more=False)
    after = await job(connection, job_id)
    assert (after["status"], after["attempts"], after["rescues"], after["due"]) == ("pending", 1, 1, True)
    assert (after["runner_id"], after["claim_token"], after["started_at"]) == (None, None, None)
    assert after["place"] > before["place"]
    (error,) = json.loads(after["errors"])
    assert (error["attempt"], error["type"]) == (1, "RunnerLost")
    assert error["message"] == after["last_error"] == "runner 99 was lost during attempt 1 of 3"
    assert after["last_error_at"] is not None


async def test_job_of_a_living_runner_is_left_alone(link: Link, connection: Connection) -> None:
    await insert_runner(connection, id=99)
    job_id = await orphan(connection)
    assert (await rescue(link)).ids == []
    assert (await job(connection, job_id))["status"] == "processing"
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now(), runner_id = NULL")


async def test_late_ack_of_the_lost_attempt_touches_nothing(link: Link, connection: Connection) -> None:
    job_id = await orphan(connection, claim_token=5)
    await rescue(link)
    await connection.execute(
        "UPDATE asyncjobs.jobs SET status = 'processing', claim_token = 6, runner_id = 1, started_at = now()"
    )
    done = await connection.execute("UPDATE asyncjobs.jobs SET status = 'failed' WHERE id = $1 AND claim_token = 5", job_id)
    assert done == "UPDATE 0"
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now(), runner_id = NULL")


async def test_last_attempt_that_is_lost_makes_the_job_dead_with_a_dead_letter(link: Link, connection: Connection) -> None:
    job_id = await orphan(connection, attempts=3, max_attempts=3, dedup_key="k")
    await insert(connection, "dedup_keys", type="email", dedup_key="k", job_id=job_id)
    assert await rescue(link) == Rescued([job_id], [job_id], [], [], [], [], [("email", "dead")], more=False)
    after = await job(connection, job_id)
    assert (after["status"], after["claim_token"], after["runner_id"]) == ("dead", None, None)
    assert after["error_message"] == "runner 99 was lost during attempt 3 of 3"
    assert after["completed_at"] is not None
    dead_letter = await connection.fetchrow("SELECT * FROM asyncjobs.dead_letter_jobs")
    assert dead_letter is not None
    assert (dead_letter["job_id"], dead_letter["error_message"]) == (job_id, after["error_message"])
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 0


async def test_dedup_key_stays_taken_while_the_job_lives(link: Link, connection: Connection) -> None:
    job_id = await orphan(connection, dedup_key="k")
    await insert(connection, "dedup_keys", type="email", dedup_key="k", job_id=job_id)
    await rescue(link)
    assert await connection.fetchval("SELECT live FROM asyncjobs.dedup_keys")


async def test_history_of_errors_stays_bounded(link: Link, connection: Connection) -> None:
    errors = json.dumps([{"attempt": n, "message": "x"} for n in range(3)])
    job_id = await orphan(connection, errors=errors, attempts=4, max_attempts=9)
    await rescue(link, max_errors=3)
    assert [error["attempt"] for error in json.loads((await job(connection, job_id))["errors"])] == [1, 2, 4]


@pytest.mark.parametrize(
    ("asked", "status"), [("cancel", "cancelled"), ("dead", "dead"), ("retry", "pending"), (None, "pending")]
)
async def test_outcome_that_an_operator_asked_for_is_honoured(
    link: Link, connection: Connection, asked: str | None, status: str
) -> None:
    job_id = await orphan(connection, requested_outcome=asked, request_message="by hand" if asked else None)
    rescued = await rescue(link)
    after = await job(connection, job_id)
    assert after["status"] == status
    assert rescued.cancelled == ([job_id] if status == "cancelled" else [])
    assert after["error_message"] == ("by hand" if status in {"cancelled", "dead"} else None)
    assert after["requested_outcome"] is None


async def test_job_of_a_paused_type_becomes_paused(link: Link, connection: Connection) -> None:
    await insert(connection, "pauses", kind="type", name="email")
    job_id = await orphan(connection)
    assert (await rescue(link)).queues == []
    assert (await job(connection, job_id))["status"] == "paused"


async def test_retried_head_keeps_its_place_in_its_keys_line(link: Link, connection: Connection) -> None:
    head = await orphan(connection, serialization_key="k")
    await insert_place(connection, "k", head, is_head=True, place=1)
    await insert_waiting(connection, "k", place=2)
    await rescue(link)
    assert (await job(connection, head))["status"] == "pending"
    (row,) = await connection.fetch("SELECT id FROM asyncjobs.serialized_jobs WHERE dispatched_at IS NOT NULL")
    assert row["id"] == head


async def test_dead_head_lets_its_key_go_on_and_the_next_queue_is_told(link: Link, connection: Connection) -> None:
    head = await orphan(connection, serialization_key="k", max_attempts=1)
    await insert_place(connection, "k", head, is_head=True, place=1)
    following = await insert_waiting(connection, "k", place=2, queue="slow")
    assert await rescue(link) == Rescued([head], [head], [], [], ["slow"], [], [("email", "dead")], more=False)
    assert (await job(connection, following))["status"] == "pending"


async def test_dead_head_of_a_type_that_halts_keeps_its_key(link: Link, connection: Connection) -> None:
    head = await orphan(connection, serialization_key="k", max_attempts=1, on_dead="halt")
    await insert_place(connection, "k", head, is_head=True, place=1)
    following = await insert_waiting(connection, "k", place=2)
    assert (await rescue(link)).queues == []
    assert (await job(connection, following))["status"] == "waiting"
    assert await connection.fetchval("SELECT halted_at IS NOT NULL FROM asyncjobs.serialized_jobs WHERE id = $1", head)


async def test_full_batch_says_that_there_may_be_more(link: Link, connection: Connection) -> None:
    ids = [await orphan(connection, claim_token=n) for n in range(5)]
    first, second, third = [await rescue(link, 2) for _ in range(3)]
    assert (first.more, second.more, third.more) == (True, True, False)
    assert sorted(first.ids + second.ids + third.ids) == ids


async def test_row_that_others_hold_is_left_to_them_and_starves_nobody(link: Link, connection: Connection) -> None:
    held, free = [await orphan(connection, claim_token=n) for n in range(2)]
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", held)
        async with patience(2):
            assert (await rescue(link, 1)).ids == [free]
    assert (await rescue(link, 1)).ids == [held]


async def test_serialization_key_that_a_stranger_holds_delays_no_job(link: Link, connection: Connection) -> None:
    dying = await orphan(connection, serialization_key="k", max_attempts=1, claim_token=1)
    await insert_place(connection, "k", dying, is_head=True)
    free = await orphan(connection, claim_token=9)
    async with connection.transaction():
        await connection.execute("SELECT asyncjobs.lock_keys('{k}')")
        async with patience(2):
            assert sorted((await rescue(link)).ids) == [dying, free]
    assert (await job(connection, dying))["status"] == "dead"
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.serialized_jobs") == 0


async def test_dedup_key_that_a_stranger_holds_delays_no_other_job(link: Link, connection: Connection) -> None:
    blocked = await orphan(connection, dedup_key="d", max_attempts=1, claim_token=1)
    await insert(connection, "dedup_keys", type="email", dedup_key="d", job_id=blocked)
    free = await orphan(connection, claim_token=2)
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.dedup_keys FOR UPDATE")
        async with patience(2):
            assert (await rescue(link)).ids == [free]
    assert (await rescue(link)).dead == [blocked]


async def test_job_that_was_claimed_anew_meanwhile_is_not_taken_from_its_new_runner(
    database: Database, link: Link, connection: Connection
) -> None:
    """Seen as an orphan; before the rescue has its lock, the job belongs to a runner younger than the rescue's snapshot."""
    job_id = await orphan(connection, claim_token=5)
    # Between the two statements of the rescue, its candidates wait here for the advisory lock that this test holds.
    await connection.execute("ALTER FUNCTION asyncjobs.orphans(integer) RENAME TO orphans_now")
    await connection.execute(
        """CREATE FUNCTION asyncjobs.orphans(_limit integer)
           RETURNS TABLE (id bigint, runner_id bigint, claim_token bigint, status text) LANGUAGE plpgsql AS $$
           BEGIN
               RETURN QUERY SELECT * FROM asyncjobs.orphans_now(_limit);
               PERFORM pg_advisory_xact_lock_shared(1);
           END $$"""
    )
    await connection.execute("SELECT pg_advisory_lock(1)")
    await connection.execute("ALTER FUNCTION asyncjobs.rescue RESET lock_timeout")
    rescuing = asyncio.create_task(rescue(link))
    while not await connection.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"):
        await asyncio.sleep(0.01)
    await insert_runner(connection, id=100)
    await connection.execute("UPDATE asyncjobs.jobs SET claim_token = 6, runner_id = 100")
    await connection.execute("SELECT pg_advisory_unlock(1)")
    assert (await rescuing).ids == []
    assert (await job(connection, job_id))["claim_token"] == 6
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now(), runner_id = NULL")


async def test_job_that_ended_inside_its_handlers_transaction_is_settled(link: Link, connection: Connection) -> None:
    head = await insert_job(connection, status="completed", runner_id=99, serialization_key="k", dedup_key="d")
    await insert(connection, "dedup_keys", type="email", dedup_key="d", job_id=head)
    await insert_place(connection, "k", head, is_head=True, place=1)
    following = await insert_waiting(connection, "k", place=2)
    assert (await runners.look(link)).orphans
    assert await rescue(link) == Rescued([], [], [], [], ["default"], [], [], more=False)
    assert not (await runners.look(link)).orphans
    assert (await job(connection, head))["status"] == "completed"
    assert (await job(connection, following))["status"] == "pending"
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 0


async def test_name_that_an_operators_sql_left_on_a_row_is_taken_off(link: Link, connection: Connection) -> None:
    job_id = await orphan(connection)
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'pending', started_at = NULL")
    assert (await runners.look(link)).orphans
    assert (await rescue(link)).ids == []
    assert not (await runners.look(link)).orphans
    after = await job(connection, job_id)
    assert (after["status"], after["runner_id"], after["rescues"]) == ("pending", None, 0)


async def test_two_rescuers_take_each_job_once(database: Database, link: Link, connection: Connection) -> None:
    ids = [await orphan(connection, claim_token=n) for n in range(60)]
    other = database.link("duties")
    taken: list[int] = []
    while len(taken) < len(ids):
        for rescued in await asyncio.gather(rescue(link, 7), rescue(other, 7)):
            taken += rescued.ids
    assert sorted(taken) == ids
    assert await connection.fetchval("SELECT bool_and(rescues = 1) FROM asyncjobs.jobs")
    await other.close()


async def test_jobs_of_the_living_do_not_fill_the_batch(link: Link, connection: Connection) -> None:
    await insert_runner(connection, id=1)
    await connection.execute(
        """INSERT INTO asyncjobs.jobs (enqueue_token, type, status, runner_id, claim_token, started_at, attempts)
           SELECT 0, 'email', 'processing', 1, n, now() - interval '1 day', 1 FROM generate_series(1, 100) AS n"""
    )
    orphans = [await orphan(connection, claim_token=1000 + n) for n in range(5)]
    assert sorted((await rescue(link, 10)).ids) == orphans
    await connection.execute("DELETE FROM asyncjobs.jobs WHERE status = 'processing'")
