"""Verbs that end a job in whatever state it is, and what becomes of a request when the attempt that runs has ended."""

import json
from typing import Any, TypeAlias

import pytest

from asyncjobs.model.claim import Ack
from asyncjobs.model.outcome import Outcome, OutcomeKind
from asyncjobs.model.request import Request, Wanted
from asyncjobs.store import requests, runners, serialized
from tests.store import test_serialization_verbs as states
from tests.support.claims import an_ack
from tests.support.factories import insert_waiting
from tests.support.peers import Peers
from tests.support.rows import each

Case: TypeAlias = tuple[states.State, str, str | None, str | None, list[str]]


#: state, outcome of the kill, what it was, its status after, the line after (one more job had been enqueued behind it)
KILLS: list[Case] = [
    (states.pending, "dead", "pending", "dead", ["pending"]),
    (states.waiting, "dead", "waiting", "dead", ["pending", "waiting"]),
    (states.waiting_after_a_delay, "dead", "waiting", "dead", ["pending", "waiting"]),
    (states.delayed, "dead", "scheduled", "dead", ["pending"]),
    (states.processing, "requested", "processing", "processing", ["it processing", "waiting"]),
    (states.failed, "dead", "failed", "dead", ["pending"]),
    (states.snoozed, "dead", "scheduled", "dead", ["pending"]),
    (states.paused, "dead", "paused", "dead", ["waiting"]),
    (states.halted, "final", "dead", "dead", ["it halted", "waiting"]),
    (states.dead, "final", "dead", "dead", ["pending"]),
    (states.cancelled, "final", "cancelled", "cancelled", ["pending"]),
    (states.completed, "final", "completed", "completed", ["pending"]),
    (states.unknown, "unknown", None, None, ["pending"]),
]


@each("case", KILLS)
async def test_kill(pair: Peers, case: Case) -> None:
    state, outcome, was, status, line = case
    job_id = await state(pair)
    await pair.b.enqueue()
    verb = await serialized.end(pair.b.link, job_id, "dead", "by me")
    assert (verb.outcome, verb.was) == (outcome, was)
    assert await pair.status(job_id) == status
    assert await states.behind(pair, job_id) == line
    if outcome == "dead":
        dead_letter = await dead_letter_of(pair, job_id)
        assert (dead_letter["error_message"], dead_letter["last"]["type"], dead_letter["last"]["message"]) == (
            "by me",
            "Killed",
            "by me",
        )
    await pair.promises_hold()


async def test_line_that_had_no_head_has_one_after_one_that_waits_is_ended(pair: Peers) -> None:
    """A crash may leave such a line until the next sweep: a verb on it does not wait for that."""
    first, second = [await insert_waiting(pair.admin, "k") for _ in range(2)]
    verb = await serialized.cancel(pair.b.link, first, "by me")
    assert (verb.outcome, verb.queues) == ("cancelled", ["default"])
    assert await pair.line() == [(second, "pending")]
    assert await pair.drain() == [second]


#: state -> outcome; nothing changes but the request on a job that runs
FAILS: list[tuple[states.State, str]] = [
    (states.pending, "pending"),
    (states.waiting, "waiting"),
    (states.delayed, "scheduled"),
    (states.processing, "requested"),
    (states.failed, "failed"),
    (states.paused, "paused"),
    (states.dead, "final"),
    (states.cancelled, "final"),
    (states.completed, "final"),
    (states.unknown, "unknown"),
]


@each(("state", "outcome"), FAILS)
async def test_only_an_attempt_that_runs_can_be_failed(pair: Peers, state: states.State, outcome: str) -> None:
    job_id = await state(pair)
    was, line = await pair.status(job_id), await pair.line()
    assert (await serialized.end(pair.b.link, job_id, "fail", "by me")).outcome == outcome
    assert (await pair.status(job_id), await pair.line()) == (was, line)


async def test_kill_of_a_head_halts_a_key_that_is_to_be_halted(pair: Peers) -> None:
    job_id = await pair.a.enqueue(on_dead="halt")
    second = await pair.a.enqueue(on_dead="halt")
    third = await pair.a.enqueue(on_dead="halt")
    await serialized.end(pair.b.link, second, "dead", "by me")
    assert await pair.line() == [(job_id, "pending"), (third, "waiting")]
    await serialized.end(pair.b.link, job_id, "dead", "by me")
    assert await pair.line() == [(job_id, "halted"), (third, "waiting")]
    await pair.promises_hold()


@each("kind", ["retry", "snooze", "interrupted", "dead"])
async def test_kill_of_a_job_that_runs_is_applied_when_its_attempt_ends(pair: Peers, kind: OutcomeKind) -> None:
    job_id = await pair.a.enqueue(times=2, dedup_key=None) - 1
    job = await pair.a.claim_one()
    await serialized.end(pair.b.link, job_id, "dead", "by me")
    assert await states.behind(pair, job_id) == ["it processing", "waiting"]
    await pair.a.ack(job, kind, delay_seconds=5.0, message="by itself")
    assert await pair.status(job_id) == "dead"
    assert (await dead_letter_of(pair, job_id))["error_message"] == ("by itself" if kind == "dead" else "by me")
    assert [state for _, state in await pair.line()] == ["pending"]
    await pair.promises_hold()


@each(("kind", "attempts"), [("retry", 1), ("snooze", 1), ("interrupted", 1), ("completed", 1), ("cancel", 1), ("dead", 1)])
async def test_attempt_that_is_to_fail_has_failed_unless_it_ended_the_job(pair: Peers, kind: OutcomeKind, attempts: int) -> None:
    job_id = await pair.a.enqueue()
    job = await pair.a.claim_one()
    await serialized.end(pair.b.link, job_id, "fail", "by me")
    await pair.a.ack(job, kind, delay_seconds=5.0)
    row = await row_of(pair, job_id)
    expected = {"completed": "completed", "cancel": "cancelled", "dead": "dead"}.get(kind, "failed")
    assert (row["status"], row["attempts"]) == (expected, attempts)
    if expected == "failed":
        assert row["requested_outcome"] is None
        assert (row["last_error"] == "by me") == (kind != "retry")
        await pair.promote()
        again = await pair.a.claim_one()
        assert again.attempt == 2
        await pair.a.ack(again)
    await pair.promises_hold()


@pytest.mark.parametrize(("wanted", "status"), [("cancel", "cancelled"), ("dead", "dead")])
@each(
    ("outcome", "attempts"),
    [
        (Outcome(kind="retry"), 1),
        (Outcome(kind="snooze", delay_seconds=5.0), 1),
        (Outcome(kind="interrupted"), 1),
        (Outcome(kind="interrupted", delay_seconds=5.0), 1),
        (Outcome(kind="interrupted", is_begun=False), 0),
        (Outcome(kind="interrupted", delay_seconds=5.0, is_begun=False), 0),
    ],
)
async def test_attempt_that_ran_counts_when_an_operator_ends_its_job(
    pair: Peers, wanted: Wanted, status: str, outcome: Outcome, attempts: int
) -> None:
    others = [await pair.a.enqueue(None) for _ in range(2)]
    job_id = await pair.a.enqueue()
    claimed = await pair.a.claim()
    await serialized.end(pair.b.link, job_id, wanted, "by me")
    await pair.a.finish([Ack(job.id, job.token, outcome) for job in claimed])
    row = await row_of(pair, job_id)
    assert (row["status"], row["attempts"]) == (status, attempts)
    if wanted == "dead":
        dead_letter = await dead_letter_of(pair, job_id)
        assert (dead_letter["attempts"], dead_letter["last"]["attempt"]) == (attempts, attempts)
    given_back = 1 if outcome.kind == "retry" else 0
    assert [(await row_of(pair, other))["attempts"] for other in others] == [given_back] * 2
    await pair.admin.execute("DELETE FROM asyncjobs.jobs WHERE status IN ('pending', 'scheduled', 'failed')")
    await pair.promises_hold()


@pytest.mark.parametrize(("delay_seconds", "status"), [(0.0, "pending"), (5.0, "scheduled")])
async def test_claim_that_never_started_has_no_attempt_that_could_fail(pair: Peers, delay_seconds: float, status: str) -> None:
    """It gives its attempt back, as without the request, which is over."""
    job_id = await pair.a.enqueue(None, max_attempts=1)
    job = await pair.a.claim_one()
    await serialized.end(pair.b.link, job_id, "fail", "by me")
    given_back = Outcome(kind="interrupted", delay_seconds=delay_seconds, is_begun=False)
    answer = await pair.a.finish([Ack(job.id, job.token, given_back)])
    row = await row_of(pair, job_id)
    assert (row["status"], row["attempts"], row["requested_outcome"], row["last_error"]) == (status, 0, None, None)
    assert answer.heads == (["default"] if status == "pending" else [])
    await pair.promote()
    await pair.drain()
    await pair.promises_hold()


async def test_last_attempt_that_is_to_fail_makes_the_job_dead(pair: Peers) -> None:
    job_id = await pair.a.enqueue(times=2, max_attempts=1) - 1
    job = await pair.a.claim_one()
    await serialized.end(pair.b.link, job_id, "fail", "by me")
    await pair.a.ack(job, "interrupted")
    assert await pair.status(job_id) == "dead"
    dead_letter = await dead_letter_of(pair, job_id)
    assert dead_letter["last"] | {"at": None} == {
        "type": "FailedByHand", "message": "by me", "attempt": 1, "at": None
    }  # fmt: skip
    assert [state for _, state in await pair.line()] == ["pending"]
    await pair.promises_hold()


async def test_last_request_counts(pair: Peers) -> None:
    job_id = await pair.a.enqueue(None)
    job = await pair.a.claim_one()
    for wanted in ("fail", "cancel", "dead"):
        await serialized.end(pair.b.link, job_id, wanted, f"{wanted} it")
    assert await requests.look(pair.a.link, 1) == [Request(job_id, job.token, "dead", "dead it")]
    await pair.a.ack(job, "interrupted")
    assert (await dead_letter_of(pair, job_id))["error_message"] == "dead it"


async def test_runner_finds_the_requests_on_what_it_runs_and_no_others(pair: Peers) -> None:
    ids = [await pair.a.enqueue(None) for _ in range(3)]
    mine, others = await pair.a.claim(2), await pair.b.claim(1)
    assert await requests.look(pair.a.link, 1) == []
    for job_id in ids:
        await serialized.end(pair.b.link, job_id, "cancel", "by me")
    assert await requests.look(pair.a.link, 1) == [Request(job.id, job.token, "cancel", "by me") for job in mine]
    assert [request.id for request in await requests.look(pair.b.link, 2)] == [job.id for job in others]
    for job in mine:
        await pair.a.ack(job, "interrupted")
    assert await requests.look(pair.a.link, 1) == []
    await pair.b.ack(others[0], "interrupted")


@each(("wanted", "status"), [("cancel", "cancelled"), ("dead", "dead"), ("fail", "pending")])
async def test_rescue_obeys_requests(pair: Peers, wanted: Wanted, status: str) -> None:
    job_id = await pair.a.enqueue()
    await pair.a.claim_one()
    await serialized.end(pair.b.link, job_id, wanted, "by me")
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await runners.rescue(pair.b.link, 10, max_errors=10)
    row = await row_of(pair, job_id)
    assert (row["status"], row["attempts"]) == (status, 1)
    assert (row["requested_outcome"], row["errors"] != "[]") == (None, True)
    await pair.promises_hold()


async def test_history_of_errors_stays_bounded(pair: Peers) -> None:
    job_id = await pair.a.enqueue(None, max_attempts=9)
    for _ in range(4):
        job = await pair.a.claim_one()
        await serialized.end(pair.b.link, job_id, "fail", "by me")
        await pair.a.finish([an_ack(job, "interrupted")])
        await pair.promote()
    await serialized.end(pair.b.link, job_id, "dead", "by me", 2)
    errors = await pair.admin.fetchval("SELECT errors -> -1 ->> 'type' FROM asyncjobs.jobs WHERE id = $1", job_id)
    assert errors == "Killed"
    assert await pair.admin.fetchval("SELECT jsonb_array_length(errors) FROM asyncjobs.jobs WHERE id = $1", job_id) == 4


async def row_of(pair: Peers, job_id: int) -> Any:
    return await pair.admin.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", job_id)


async def dead_letter_of(pair: Peers, job_id: int) -> Any:
    [row] = await pair.admin.fetch(
        "SELECT error_message, error_details FROM asyncjobs.dead_letter_jobs WHERE job_id = $1", job_id
    )
    details = json.loads(row["error_details"])
    last = details["errors"][-1] if details["errors"] else None
    return {"error_message": row["error_message"], "last": last, "attempts": details["attempts"]}
