"""Outcomes as they are written: fenced by id, token and status, each with all that belongs to it in one commit.

What all statements that write completions do alike is in `test_completions.py`.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from asyncjobs.model.claim import Ack, Claimed, Scan, to_job
from asyncjobs.model.outcome import Outcome
from asyncjobs.store import jobs
from asyncjobs.store.database import Database
from tests.support.claims import LOSSES, Claims, an_ack, take_away
from tests.support.factories import insert, insert_job, insert_place, insert_waiting


async def delay_of(claims: Claims, job_id: int) -> float:
    """In how many seconds the job may run."""
    seconds = await claims.connection.fetchval(
        "SELECT extract(epoch FROM run_at - updated_at)::float8 FROM asyncjobs.jobs WHERE id = $1", job_id
    )
    return float(seconds)


async def test_failed_attempt_is_due_after_its_delay_with_the_error_on_record(claims: Claims) -> None:
    job = await claims.claim_one()
    error = {"type": "ValueError", "message": "no", "attempt": 1}
    await claims.ack(an_ack(job, "retry", delay_seconds=60, message="ValueError: no", error=error))
    row = await claims.row(job.id)
    assert (row["status"], row["attempts"], row["last_error"], row["completed_at"]) == ("failed", 1, "no", None)
    assert row["last_error_at"] is not None
    (entry,) = json.loads(row["errors"])
    assert entry.pop("at") is not None
    assert entry == error
    assert await delay_of(claims, job.id) == 60
    await claims.connection.execute("UPDATE asyncjobs.jobs SET run_at = now()")


async def test_history_of_errors_is_bounded(claims: Claims) -> None:
    job = await claims.claim_one(errors='[{"n": 1}, {"n": 2}, {"n": 3}]')
    await claims.ack(an_ack(job, "retry", error={"n": 4}), max_errors=3)
    row = await claims.row(job.id)
    assert [entry["n"] for entry in json.loads(row["errors"])] == [2, 3, 4]


async def test_snooze_gives_the_attempt_back_and_is_counted(claims: Claims) -> None:
    job = await claims.claim_one(snoozes=2**40)
    await claims.ack(an_ack(job, "snooze", delay_seconds=30))
    row = await claims.row(job.id)
    assert (row["status"], row["attempts"], row["snoozes"], await delay_of(claims, job.id)) == ("scheduled", 0, 2**40 + 1, 30)


async def test_interrupted_job_is_pending_at_the_end_of_the_line_with_its_attempt(claims: Claims) -> None:
    job = await claims.claim_one()
    other = await insert_job(claims.connection)
    finished = await claims.ack(an_ack(job, "interrupted"))
    row = await claims.row(job.id)
    assert (row["status"], row["attempts"], row["snoozes"], row["runner_id"]) == ("pending", 0, 0, None)
    assert row["place"] > (await claims.row(other))["place"]
    assert finished.heads == ["default"]  # somebody else may take it at once


async def test_interrupted_job_that_is_claimed_again_in_the_same_call_is_nobody_elses(claims: Claims) -> None:
    job = await claims.claim_one()
    finished = await claims.finish([an_ack(job, "interrupted")], [Scan("default", None, 5)])
    assert ([again.id for again in finished.claimed], finished.heads) == ([job.id], [])


async def test_interrupted_job_that_is_to_wait_is_scheduled(claims: Claims) -> None:
    job = await claims.claim_one()
    await claims.ack(an_ack(job, "interrupted", delay_seconds=5))
    row = await claims.row(job.id)
    assert (row["status"], row["attempts"], row["snoozes"], await delay_of(claims, job.id)) == ("scheduled", 0, 0, 5)


@pytest.mark.parametrize("kind", ["cancel", "dead"])
async def test_end_for_good_says_why(claims: Claims, kind: str) -> None:
    job = await claims.claim_one()
    await claims.ack(an_ack(job, kind, message="because"))
    row = await claims.row(job.id)
    assert (row["status"], row["error_message"]) == ({"cancel": "cancelled"}.get(kind, kind), "because")
    assert row["completed_at"] is not None


async def test_death_leaves_a_dead_letter_with_the_job_as_it_was(claims: Claims) -> None:
    job = await claims.claim_one(payload='{"to": "a"}', correlation_id="c")
    await claims.ack(an_ack(job, "dead", message="E: no", error={"type": "E", "message": "no"}))
    dead_letter = await claims.connection.fetchrow("SELECT * FROM asyncjobs.dead_letter_jobs")
    assert dead_letter is not None
    original = json.loads(dead_letter["original_job"])
    assert (dead_letter["job_id"], dead_letter["error_message"], dead_letter["acknowledged"]) == (job.id, "E: no", False)
    assert (original["type"], original["payload"], original["correlation_id"]) == ("email", {"to": "a"}, "c")
    assert "claim_token" not in original
    assert [error["type"] for error in json.loads(dead_letter["error_details"])["errors"]] == ["E"]


@pytest.mark.parametrize(
    ("kind", "keeps"), [("retry", True), ("snooze", True), ("interrupted", True), ("cancel", False), ("dead", False)]
)
async def test_job_that_goes_on_keeps_its_dedup_key(claims: Claims, kind: str, *, keeps: bool) -> None:
    job = await claims.claim_one(dedup_key="k")
    await insert(claims.connection, "dedup_keys", type="email", dedup_key="k", job_id=job.id)
    await claims.ack(an_ack(job, kind))
    assert await claims.connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys WHERE live") == keeps
    assert await claims.connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == keeps


async def keyed(claims: Claims, **columns: Any) -> Claimed:
    job = await claims.claim_one(serialization_key="k", **columns)
    await insert_place(claims.connection, "k", job.id, is_head=True)
    return job


async def test_next_of_the_key_may_be_claimed_in_the_same_call(claims: Claims) -> None:
    job = await keyed(claims)
    following = await insert_waiting(claims.connection, "k")
    finished = await claims.finish([an_ack(job)], [Scan("default", None, 1)])
    assert ([next_job.id for next_job in finished.claimed], finished.heads) == ([following], [])
    await claims.ack(an_ack(finished.claimed[0]))


@pytest.mark.parametrize("kind", ["retry", "snooze", "interrupted"])
async def test_job_that_goes_on_keeps_its_key(claims: Claims, kind: str) -> None:
    job = await keyed(claims)
    following = await insert_waiting(claims.connection, "k")
    await claims.ack(an_ack(job, kind))
    assert (await claims.row(following))["status"] == "waiting"


@pytest.mark.parametrize("how", LOSSES)
async def test_late_outcome_touches_nothing_and_is_lost(claims: Claims, how: str) -> None:
    job = await claims.claim_one(dedup_key="d")
    await insert(claims.connection, "dedup_keys", type="email", dedup_key="d", job_id=job.id)
    await take_away(claims, job, how)
    before = await claims.row(job.id)
    for kind in ("retry", "snooze", "cancel", "dead", "interrupted"):
        finished = await claims.ack(an_ack(job, kind, message="late", error={"message": "late"}))
        assert finished.lost == [job.token]
        assert await claims.row(job.id) == before
    assert await claims.connection.fetchval("SELECT count(*) FROM asyncjobs.dead_letter_jobs") == 0
    await claims.connection.execute("DELETE FROM asyncjobs.jobs; DELETE FROM asyncjobs.dedup_keys")


async def test_lost_outcomes_do_not_keep_the_others_from_being_written(claims: Claims) -> None:
    first, second = await claims.claim_one(), await claims.claim_one()
    finished = await claims.ack(an_ack(first), Ack(99, 1, Outcome(kind="completed")), an_ack(second))
    assert finished.lost == [1]
    assert [(await claims.row(job.id))["status"] for job in (first, second)] == ["completed"] * 2


async def test_two_attempts_of_one_job_in_a_call_are_told_apart(claims: Claims) -> None:
    job = await claims.claim_one()
    await claims.give_back([])
    [again] = await claims.claim()
    finished = await claims.ack(an_ack(job, result='"old"'), an_ack(again, "interrupted"))
    assert finished.lost == [job.token]
    row = await claims.row(job.id)
    assert (row["status"], row["result"]) == ("pending", None)


@pytest.mark.parametrize(
    ("kind", "asked", "status"),
    [("retry", "cancel", "cancelled"), ("snooze", "dead", "dead"), ("interrupted", "cancel", "cancelled")],
)
async def test_end_that_was_asked_for_comes_with_the_end_of_the_attempt(
    claims: Claims, kind: str, asked: str, status: str
) -> None:
    job = await keyed(claims, dedup_key="d")
    await insert(claims.connection, "dedup_keys", type="email", dedup_key="d", job_id=job.id)
    following = await insert_waiting(claims.connection, "k")
    await claims.connection.execute("UPDATE asyncjobs.jobs SET requested_outcome = $1, request_message = 'operator'", asked)
    finished = await claims.ack(an_ack(job, kind, delay_seconds=10))
    row = await claims.row(job.id)
    assert (row["status"], row["error_message"]) == (status, "operator")
    assert row["completed_at"] is not None
    assert finished.heads == ["default"]
    assert (await claims.row(following))["status"] == "pending"
    assert await claims.connection.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 0
    assert await claims.connection.fetchval("SELECT count(*) FROM asyncjobs.dead_letter_jobs") == (status == "dead")


async def test_paused_type_is_paused_when_it_is_given_back(claims: Claims) -> None:
    job = await claims.claim_one()
    await insert(claims.connection, "pauses", kind="type", name="email")
    finished = await claims.ack(an_ack(job, "interrupted"))
    assert ((await claims.row(job.id))["status"], finished.heads) == ("paused", [])


async def test_reading_back_tells_what_is_to_be_written_what_was_and_what_is_lost(claims: Claims) -> None:
    open_, done, retried, lost, operated = [await claims.claim_one() for _ in range(5)]
    await claims.ack(an_ack(done), an_ack(retried, "retry"))
    await claims.connection.execute("UPDATE asyncjobs.jobs SET claim_token = 1 WHERE id = $1", lost.id)
    await claims.connection.execute("UPDATE asyncjobs.jobs SET status = 'pending' WHERE id = $1", operated.id)
    acks = [an_ack(job) for job in (open_, done, retried, lost, operated)]
    assert await jobs.still_processing(claims.link, acks) == {open_.token: True, done.token: False, retried.token: False}
    await claims.connection.execute("UPDATE asyncjobs.jobs SET runner_id = NULL WHERE id = $1", operated.id)


async def test_giving_back_leaves_alone_what_was_claimed_after_it_was_sent(claims: Claims) -> None:
    for seq, last in ((7, 8), (2**32 - 1, 0)):  # the number after the token before the first; modulo 2^32
        await insert_job(claims.connection)
        [job] = await claims.claim(1, token_seq=seq)
        sent_before = (claims.token_base << 32) | seq
        assert await jobs.give_back(claims.link, claims.runner_id, [], last_token=sent_before) == []
        assert (await claims.row(job.id))["claim_token"] == job.token
        [(given_back, _)] = await jobs.give_back(claims.link, claims.runner_id, [], last_token=(claims.token_base << 32) | last)
        assert given_back == job.id
        await claims.connection.execute("DELETE FROM asyncjobs.jobs")


async def test_what_does_not_run_is_given_back_with_its_attempt(claims: Claims) -> None:
    running, stray = await claims.claim_one(), await claims.claim_one(queue="mail")
    others = await insert_job(claims.connection, status="processing", runner_id=2, claim_token=7)
    before = await claims.row(stray.id)
    assert await claims.give_back([running.id]) == [(stray.id, "mail")]
    row = await claims.row(stray.id)
    assert (row["status"], row["attempts"], row["runner_id"], row["claim_token"], row["started_at"]) == (
        "pending", 0, None, None, None,
    )  # fmt: skip
    assert row["place"] > before["place"]
    assert [(await claims.row(job_id))["status"] for job_id in (running.id, others)] == ["processing"] * 2


async def test_progress_is_fenced_like_an_outcome(claims: Claims) -> None:
    job, ended = await claims.claim_one(), await claims.claim_one()
    await claims.ack(an_ack(ended))
    await jobs.set_progress(
        claims.link, [(job.id, job.token, '{"done": 0.5}'), (ended.id, ended.token, '{"done": 1}'), (job.id, 3, '{"done": 9}')]
    )
    assert json.loads((await claims.row(job.id))["progress"]) == {"done": 0.5}
    assert (await claims.row(ended.id))["progress"] is None


async def test_claimed_job_has_what_an_attempt_needs(claims: Claims, database: Database) -> None:
    await claims.connection.execute("UPDATE asyncjobs.runners SET versions = '{\"email\": 2}'")
    job = await claims.claim_one(
        payload='{"n": 1}', timeout=timedelta(seconds=90), correlation_id="c", parent_job_id=3, created_by="me", version=2,
        priority=7, last_error="E", progress='{"done": 0.1}',
    )  # fmt: skip
    assert json.loads(job.payload) == {"n": 1}
    assert (job.attempt, job.timeout_seconds, job.correlation_id, job.parent_job_id, job.created_by, job.version) == (
        1, 90.0, "c", 3, "me", 2,
    )  # fmt: skip
    assert (job.priority, job.last_error, job.scan) == (7, "E", 1)


async def test_instants_of_a_claimed_job_are_those_of_its_row_to_the_microsecond(claims: Claims) -> None:
    instants = [datetime(2026, 2, 3, 4, 5, 6, micro, UTC) for micro in (1, 999_999, 123_457)]
    claimed = await claims.claim_one(scheduled_at=instants[0], run_at=instants[1], created_at=instants[2])
    job = to_job(claimed)
    assert [job.scheduled_at, job.run_at, job.created_at] == instants
    assert job.started_at == (await claims.row(job.id))["started_at"]
