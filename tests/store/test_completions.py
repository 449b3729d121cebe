"""Completions, whatever statement writes them: `finish`, the lean one of a key, the lean one of a busy runner. What differs is in
their own suites."""

import json

import pytest

from tests.support.claims import LOSSES, Claims, an_ack, take_away
from tests.support.factories import insert, insert_place, insert_waiting
from tests.support.peers import Call

pytestmark = pytest.mark.parametrize("call", ["finish", "finish_one", "finish_completed"])


async def test_job_keeps_its_result_and_token_and_is_nobodys(claims: Claims, call: Call) -> None:
    job = await claims.claim_one(error_message="of before")
    finished = await claims.complete(call, an_ack(job, result='{"n": 1}'))
    row = await claims.row(job.id)
    assert (finished.lost, row["status"], json.loads(row["result"])) == ([], "completed", {"n": 1})
    assert (row["runner_id"], row["claim_token"], row["attempts"], row["error_message"]) == (None, job.token, 1, None)
    assert row["completed_at"] is not None


async def test_dropped_result_says_why(claims: Claims, call: Call) -> None:
    job = await claims.claim_one()
    await claims.complete(call, an_ack(job, result_dropped="too large: 2 bytes"))
    row = await claims.row(job.id)
    assert (row["result"], row["result_dropped"]) == (None, "too large: 2 bytes")


async def test_dedup_key_is_free(claims: Claims, call: Call) -> None:
    job = await claims.claim_one(dedup_key="k")
    await insert(claims.connection, "dedup_keys", type="email", dedup_key="k", job_id=job.id)
    await claims.complete(call, an_ack(job))
    assert await claims.connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 0


async def test_end_that_was_asked_for_meanwhile_does_not_count(claims: Claims, call: Call) -> None:
    job = await claims.claim_one()
    await claims.connection.execute("UPDATE asyncjobs.jobs SET requested_outcome = 'cancel'")
    await claims.complete(call, an_ack(job))
    assert (await claims.row(job.id))["status"] == "completed"


@pytest.mark.parametrize("how", LOSSES)
async def test_late_one_touches_nothing_lets_no_key_go_and_is_lost(claims: Claims, call: Call, how: str) -> None:
    job = await claims.claim_one(dedup_key="d", serialization_key="k")
    await insert_place(claims.connection, "k", job.id, is_head=True)
    await insert(claims.connection, "dedup_keys", type="email", dedup_key="d", job_id=job.id)
    following = await insert_waiting(claims.connection, "k")
    await take_away(claims, job, how)
    before = await claims.row(job.id), await claims.row(following)
    finished = await claims.complete(call, an_ack(job, result='"late"'))
    assert (finished.lost, finished.heads) == ([job.token], [])
    assert (await claims.row(job.id), await claims.row(following)) == before
    await claims.connection.execute("TRUNCATE asyncjobs.jobs, asyncjobs.dedup_keys, asyncjobs.serialized_jobs")


async def test_next_of_the_key_becomes_pending_its_queue_is_told_and_no_other_key_is_touched(claims: Claims, call: Call) -> None:
    job = await claims.claim_one(serialization_key="k")
    await insert_place(claims.connection, "k", job.id, is_head=True)
    following = await insert_waiting(claims.connection, "k", queue="mail")
    head = await claims.claim_one(serialization_key="other")
    await insert_place(claims.connection, "other", head.id, is_head=True)
    behind = await insert_waiting(claims.connection, "other")
    finished = await claims.complete(call, an_ack(job))
    assert finished.heads == ["mail"]
    assert [(await claims.row(one))["status"] for one in (following, head.id, behind)] == ["pending", "processing", "waiting"]
    await claims.connection.execute("TRUNCATE asyncjobs.jobs, asyncjobs.serialized_jobs")


@pytest.mark.parametrize(("kind", "name", "becomes"), [("key", "k", "waiting"), ("type", "email", "paused")])
async def test_next_of_the_key_that_is_paused_does_not_become_pending(
    claims: Claims, call: Call, kind: str, name: str, becomes: str
) -> None:
    job = await claims.claim_one(serialization_key="k")
    await insert_place(claims.connection, "k", job.id, is_head=True)
    following = await insert_waiting(claims.connection, "k")
    await insert(claims.connection, "pauses", kind=kind, name=name)
    finished = await claims.complete(call, an_ack(job))
    assert (finished.heads, (await claims.row(following))["status"]) == ([], becomes)
    await claims.connection.execute("TRUNCATE asyncjobs.jobs, asyncjobs.serialized_jobs, asyncjobs.pauses")
