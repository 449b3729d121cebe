"""Verbs that end a job in whatever state it is, and what becomes of a request when the attempt that runs has ended."""

import json
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

import pytest

from asyncjobs.model.claim import Ack
from asyncjobs.model.outcome import Outcome, OutcomeKind
from asyncjobs.model.request import Request, Wanted
from asyncjobs.store import requests, runners, serialized
from asyncjobs.store.database import Database
from tests.store import test_serialization_verbs as states
from tests.support.claims import an_ack
from tests.support.factories import insert_waiting
from tests.support.peers import Peers, peers

Case: TypeAlias = tuple[states.State, str, str | None, str | None, list[str]]


@pytest.fixture
async def world(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made


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


@pytest.mark.parametrize("case", KILLS, ids=lambda case: case[0].__name__)
async def test_kill(world: Peers, case: Case) -> None:
    state, outcome, was, status, line = case
    job_id = await state(world)
    await world.b.enqueue()
    verb = await serialized.end(world.b.link, job_id, "dead", "by me")
    assert (verb.outcome, verb.was) == (outcome, was)
    assert await world.status(job_id) == status
    assert await states.behind(world, job_id) == line
    if outcome == "dead":
        dead_letter = await dead_letter_of(world, job_id)
        assert (dead_letter["error_message"], dead_letter["last"]["type"], dead_letter["last"]["message"]) == (
            "by me",
            "Killed",
            "by me",
        )
    await world.promises_hold()


async def test_line_that_had_no_head_has_one_after_one_that_waits_is_ended(world: Peers) -> None:
    """A crash may leave such a line until the next sweep: a verb on it does not wait for that."""
    first, second = [await insert_waiting(world.admin, "k") for _ in range(2)]
    verb = await serialized.cancel(world.b.link, first, "by me")
    assert (verb.outcome, verb.queues) == ("cancelled", ["default"])
    assert await world.line() == [(second, "pending")]
    assert await world.drain() == [second]


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


@pytest.mark.parametrize(("state", "outcome"), FAILS)
async def test_only_an_attempt_that_runs_can_be_failed(world: Peers, state: states.State, outcome: str) -> None:
    job_id = await state(world)
    was, line = await world.status(job_id), await world.line()
    assert (await serialized.end(world.b.link, job_id, "fail", "by me")).outcome == outcome
    assert (await world.status(job_id), await world.line()) == (was, line)


async def test_kill_of_a_head_halts_a_key_that_is_to_be_halted(world: Peers) -> None:
    job_id = await world.a.enqueue(on_dead="halt")
    second = await world.a.enqueue(on_dead="halt")
    third = await world.a.enqueue(on_dead="halt")
    await serialized.end(world.b.link, second, "dead", "by me")
    assert await world.line() == [(job_id, "pending"), (third, "waiting")]
    await serialized.end(world.b.link, job_id, "dead", "by me")
    assert await world.line() == [(job_id, "halted"), (third, "waiting")]
    await world.promises_hold()


@pytest.mark.parametrize("kind", ["retry", "snooze", "interrupted", "dead"])
async def test_kill_of_a_job_that_runs_is_applied_when_its_attempt_ends(world: Peers, kind: OutcomeKind) -> None:
    job_id = await world.a.enqueue(times=2, dedup_key=None) - 1
    job = await world.a.claim_one()
    await serialized.end(world.b.link, job_id, "dead", "by me")
    assert await states.behind(world, job_id) == ["it processing", "waiting"]
    await world.a.ack(job, kind, delay_seconds=5.0, message="by itself")
    assert await world.status(job_id) == "dead"
    assert (await dead_letter_of(world, job_id))["error_message"] == ("by itself" if kind == "dead" else "by me")
    assert [state for _, state in await world.line()] == ["pending"]
    await world.promises_hold()


@pytest.mark.parametrize(
    ("kind", "attempts"), [("retry", 1), ("snooze", 1), ("interrupted", 1), ("completed", 1), ("cancel", 1), ("dead", 1)]
)
async def test_attempt_that_is_to_fail_has_failed_unless_it_ended_the_job(world: Peers, kind: OutcomeKind, attempts: int) -> None:
    job_id = await world.a.enqueue()
    job = await world.a.claim_one()
    await serialized.end(world.b.link, job_id, "fail", "by me")
    await world.a.ack(job, kind, delay_seconds=5.0)
    row = await row_of(world, job_id)
    expected = {"completed": "completed", "cancel": "cancelled", "dead": "dead"}.get(kind, "failed")
    assert (row["status"], row["attempts"]) == (expected, attempts)
    if expected == "failed":
        assert row["requested_outcome"] is None
        assert (row["last_error"] == "by me") == (kind != "retry")
        await world.promote()
        again = await world.a.claim_one()
        assert again.attempt == 2
        await world.a.ack(again)
    await world.promises_hold()


@pytest.mark.parametrize(("wanted", "status"), [("cancel", "cancelled"), ("dead", "dead")])
@pytest.mark.parametrize(
    ("outcome", "attempts"),
    [
        (Outcome(kind="retry"), 1),
        (Outcome(kind="snooze", delay_seconds=5.0), 1),
        (Outcome(kind="interrupted"), 1),
        (Outcome(kind="interrupted", delay_seconds=5.0), 1),
        (Outcome(kind="interrupted", is_begun=False), 0),
        (Outcome(kind="interrupted", delay_seconds=5.0, is_begun=False), 0),
    ],
    ids=str,
)
async def test_attempt_that_ran_counts_when_an_operator_ends_its_job(
    world: Peers, wanted: Wanted, status: str, outcome: Outcome, attempts: int
) -> None:
    others = [await world.a.enqueue(None) for _ in range(2)]
    job_id = await world.a.enqueue()
    claimed = await world.a.claim()
    await serialized.end(world.b.link, job_id, wanted, "by me")
    await world.a.finish([Ack(job.id, job.token, outcome) for job in claimed])
    row = await row_of(world, job_id)
    assert (row["status"], row["attempts"]) == (status, attempts)
    if wanted == "dead":
        dead_letter = await dead_letter_of(world, job_id)
        assert (dead_letter["attempts"], dead_letter["last"]["attempt"]) == (attempts, attempts)
    given_back = 1 if outcome.kind == "retry" else 0
    assert [(await row_of(world, other))["attempts"] for other in others] == [given_back] * 2
    await world.admin.execute("DELETE FROM asyncjobs.jobs WHERE status IN ('pending', 'scheduled', 'failed')")
    await world.promises_hold()


async def test_last_attempt_that_is_to_fail_makes_the_job_dead(world: Peers) -> None:
    job_id = await world.a.enqueue(times=2, max_attempts=1) - 1
    job = await world.a.claim_one()
    await serialized.end(world.b.link, job_id, "fail", "by me")
    await world.a.ack(job, "interrupted")
    assert await world.status(job_id) == "dead"
    dead_letter = await dead_letter_of(world, job_id)
    assert dead_letter["last"] | {"at": None} == {
        "type": "FailedByHand", "message": "by me", "attempt": 1, "at": None
    }  # fmt: skip
    assert [state for _, state in await world.line()] == ["pending"]
    await world.promises_hold()


async def test_last_request_counts(world: Peers) -> None:
    job_id = await world.a.enqueue(None)
    job = await world.a.claim_one()
    for wanted in ("fail", "cancel", "dead"):
        await serialized.end(world.b.link, job_id, wanted, f"{wanted} it")
    assert await requests.look(world.a.link, 1) == [Request(job_id, job.token, "dead", "dead it")]
    await world.a.ack(job, "interrupted")
    assert (await dead_letter_of(world, job_id))["error_message"] == "dead it"


async def test_runner_finds_the_requests_on_what_it_runs_and_no_others(world: Peers) -> None:
    ids = [await world.a.enqueue(None) for _ in range(3)]
    mine, others = await world.a.claim(2), await world.b.claim(1)
    assert await requests.look(world.a.link, 1) == []
    for job_id in ids:
        await serialized.end(world.b.link, job_id, "cancel", "by me")
    assert await requests.look(world.a.link, 1) == [Request(job.id, job.token, "cancel", "by me") for job in mine]
    assert [request.id for request in await requests.look(world.b.link, 2)] == [job.id for job in others]
    for job in mine:
        await world.a.ack(job, "interrupted")
    assert await requests.look(world.a.link, 1) == []
    await world.b.ack(others[0], "interrupted")


@pytest.mark.parametrize(("wanted", "status"), [("cancel", "cancelled"), ("dead", "dead"), ("fail", "pending")])
async def test_rescue_obeys_requests(world: Peers, wanted: Wanted, status: str) -> None:
    job_id = await world.a.enqueue()
    await world.a.claim_one()
    await serialized.end(world.b.link, job_id, wanted, "by me")
    await world.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await runners.rescue(world.b.link, 10, max_errors=10)
    row = await row_of(world, job_id)
    assert (row["status"], row["attempts"]) == (status, 1)
    assert (row["requested_outcome"], row["errors"] != "[]") == (None, True)
    await world.promises_hold()


async def test_history_of_errors_stays_bounded(world: Peers) -> None:
    job_id = await world.a.enqueue(None, max_attempts=9)
    for _ in range(4):
        job = await world.a.claim_one()
        await serialized.end(world.b.link, job_id, "fail", "by me")
        await world.a.finish([an_ack(job, "interrupted")])
        await world.promote()
    await serialized.end(world.b.link, job_id, "dead", "by me", 2)
    errors = await world.admin.fetchval("SELECT errors -> -1 ->> 'type' FROM asyncjobs.jobs WHERE id = $1", job_id)
    assert errors == "Killed"
    assert await world.admin.fetchval("SELECT jsonb_array_length(errors) FROM asyncjobs.jobs WHERE id = $1", job_id) == 4


async def row_of(world: Peers, job_id: int) -> Any:
    return await world.admin.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", job_id)


async def dead_letter_of(world: Peers, job_id: int) -> Any:
    [row] = await world.admin.fetch(
        "SELECT error_message, error_details FROM asyncjobs.dead_letter_jobs WHERE job_id = $1", job_id
    )
    details = json.loads(row["error_details"])
    last = details["errors"][-1] if details["errors"] else None
    return {"error_message": row["error_message"], "last": last, "attempts": details["attempts"]}
