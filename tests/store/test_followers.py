"""Runs of a key (`store/routines/finish/_chapter.sql`): what is claimed behind a head, and what becomes of it, a rule a test."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from asyncjobs.model.claim import Ack, Claimed, Finished
from asyncjobs.model.outcome import Outcome, OutcomeKind
from asyncjobs.runtime.followers import joined
from asyncjobs.store import jobs, serialized
from asyncjobs.store.database import Database
from tests.support.factories import insert
from tests.support.peers import Peer, Peers, peers, spawn
from tests.support.rows import each


@pytest.fixture
async def pair(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made
        await made.clear()


async def claim_run(peer: Peer, *, limit: int = 20, ahead: int = 10, call: str = "finish_completed") -> list[Claimed]:
    """What one claim brings: heads, each with its followers behind it."""
    if call == "finish":
        answer = await peer.finish(limit=limit, ahead=ahead)
    else:
        answer = await peer.complete_all([], limit=limit, ahead=ahead)
    return [one for head in joined(answer).claimed for one in (head, *(head.followers or ()))]


async def rows(pair: Peers, *columns: str) -> list[tuple[Any, ...]]:
    """Of the jobs of key k in the order of their line."""
    found = await pair.admin.fetch(
        f"SELECT {', '.join(columns)} FROM asyncjobs.jobs AS j JOIN asyncjobs.serialized_jobs AS s USING (id)"
        " WHERE s.serialization_key = 'k' ORDER BY s.place"
    )
    return [tuple(row) for row in found]


async def states(pair: Peers) -> list[str]:
    """The status of each in the line, with a star at the head."""
    return [status + "*" * is_head for status, is_head in await rows(pair, "j.status", "s.dispatched_at IS NOT NULL")]


def ack(job: Claimed, kind: OutcomeKind = "completed", **fields: Any) -> Ack:
    return Ack(job.id, job.token, Outcome(kind=kind, **fields), number=job.number)


def back(job: Claimed) -> Ack:
    """It was given back before it began."""
    return ack(job, "interrupted", is_begun=False)


async def lose(pair: Peers, job: Claimed) -> None:
    """Its claim is taken away."""
    taken = "UPDATE asyncjobs.jobs SET status = 'pending', claim_token = NULL, runner_id = NULL WHERE id = $1"
    await pair.admin.execute(taken, job.id)


async def write(peer: Peer, acks: Sequence[Ack]) -> Finished:
    return await peer.finish(acks)


# The claim.


@each("call", ["finish", "finish_completed"])
async def test_claim_brings_the_next_jobs_of_a_line_behind_its_head(pair: Peers, call: str) -> None:
    last = await pair.a.enqueue(times=5)
    claimed = await claim_run(pair.a, ahead=3, call=call)
    assert [(job.id, job.number, job.attempt) for job in claimed] == [(last - 4 + at, at, 1) for at in range(4)]
    assert len({job.token for job in claimed}) == 4
    assert await states(pair) == ["processing*", "processing", "processing", "processing", "waiting"]
    assert await rows(pair, "j.runner_id", "j.attempts", "j.started_at IS NOT NULL") == [(1, 1, True)] * 4 + [(None, 0, False)]
    assert await claim_run(pair.b) == []


async def test_claim_that_does_not_ask_for_them_brings_heads_alone(pair: Peers) -> None:
    await pair.a.enqueue(times=3)
    assert len(await claim_run(pair.a, ahead=0)) == 1
    assert await states(pair) == ["processing*", "waiting", "waiting"]


async def test_lines_share_what_is_left_of_the_limit(pair: Peers) -> None:
    for key in ("k", "x", "y"):
        await pair.a.enqueue(key, times=9)
    await pair.a.enqueue(None, times=2)
    claimed = await claim_run(pair.a, limit=11, ahead=100)
    assert len(claimed) == 11
    assert sorted([sum(job.serialization_key == key for job in claimed) for key in ("k", "x", "y")]) == [3, 3, 3]


async def _hold(pair: Peers, job_id: int) -> None:
    await pair.b.begin()
    await (await pair.b.link.connection()).execute("UPDATE asyncjobs.jobs SET tags = '{x}' WHERE id = $1", job_id)


_NOT_HERE = {
    "another queue": "queue = 'mail'",
    "another type": "type = 'strange'",
    "a newer version": "version = 2",
    "a suspect": "suspicion = 1",
    "was lost before": "losses = 1",
    "halts its key": "on_dead = 'halt'",
    "a stub's": "on_dead = 'ask'",
    "has expired": "start_before = now() - interval '1 s'",
    "has a limit": "limit_key = 'l'",
    "an operator's": "status = 'paused'",
}


@each("why", [*_NOT_HERE, "is locked"])
async def test_run_ends_before_the_first_that_may_not_run_here(pair: Peers, why: str) -> None:
    last = await pair.a.enqueue(times=4)
    if why == "is locked":
        await _hold(pair, last - 1)
    else:
        await pair.admin.execute(f"UPDATE asyncjobs.jobs SET {_NOT_HERE[why]} WHERE id = $1", last - 1)
    assert [job.id for job in await claim_run(pair.a)] == [last - 3, last - 2]


async def test_follower_that_is_a_member_says_of_which_workflow(pair: Peers) -> None:
    last = await pair.a.enqueue(times=3)
    await pair.admin.execute("UPDATE asyncjobs.jobs SET workflow_id = 7 WHERE id = $1", last)
    run = await claim_run(pair.a)
    assert [job.workflow_id for job in run] == [None, None, 7]
    await pair.admin.execute("UPDATE asyncjobs.jobs SET workflow_id = NULL")


async def test_head_that_was_lost_before_has_no_followers(pair: Peers) -> None:
    last = await pair.a.enqueue(times=3)
    await pair.admin.execute("UPDATE asyncjobs.jobs SET losses = 1 WHERE id = $1", last - 2)
    assert [job.id for job in await claim_run(pair.a)] == [last - 2]


async def test_queue_with_a_total_has_no_followers(pair: Peers) -> None:
    await insert(pair.admin, "limits", kind="queue", name="default", declared='{"total": 5}')
    await insert(pair.admin, "limit_turns", key="", queue="default", name="", state="open")
    await pair.a.enqueue(times=3)
    claimed = await pair.a.finish(limit=5, ahead=5)
    assert (len(claimed.claimed), claimed.followers) == (1, [])
    await pair.admin.execute("DELETE FROM asyncjobs.limits")
    await pair.admin.execute("DELETE FROM asyncjobs.limit_turns")


# Outcomes.


@each("call", ["finish", "finish_completed"])
async def test_outcomes_of_a_run_are_written_together_and_the_next_is_head(pair: Peers, call: str) -> None:
    last = await pair.a.enqueue(times=4)
    run = await claim_run(pair.a, ahead=2)
    done = await (pair.a.complete_all(run) if call == "finish_completed" else write(pair.a, [ack(job) for job in run]))
    assert (done.lost, done.heads) == ([], ["default"])
    assert await pair.line() == [(last, "pending")]


async def test_end_of_the_head_makes_a_follower_head_and_leaves_it_as_it_is(pair: Peers) -> None:
    await pair.a.enqueue(times=4)
    run = await claim_run(pair.a, ahead=2)
    await pair.b.begin()
    await (await pair.b.link.connection()).execute(
        "SELECT asyncjobs.lock_keys('{k}')"
    )  # it does not look again under the key's lock
    await pair.a.complete_all(run[:1])
    assert await states(pair) == ["processing*", "processing", "waiting"]
    assert await rows(pair, "j.claim_token", "j.attempts") == [(run[1].token, 1), (run[2].token, 1), (None, 0)]
    await pair.b.rollback()
    assert (await pair.a.complete_all(run[1:])).lost == []


@each("call", ["finish", "finish_completed"])
@each("sent", [[1], [2], [0, 2], [1, 2]])
async def test_outcome_of_a_follower_is_not_written_before_those_in_front_of_it(pair: Peers, call: str, sent: list[int]) -> None:
    await pair.a.enqueue(times=4)
    run = await claim_run(pair.a, ahead=2)
    some = [run[at] for at in sent]
    done = await (pair.a.complete_all(some) if call == "finish_completed" else write(pair.a, [ack(job) for job in some]))
    early = [at for at in sent if not {*range(at)} <= {*sent}]
    assert done.lost == [run[at].token for at in early]
    left = [at for at in range(4) if at in early or at not in sent]
    assert await rows(pair, "s.id", "j.status", "j.attempts") == [
        (run[0].id + at, "waiting" if at in early or at == 3 else "processing", 0 if at in early or at == 3 else 1) for at in left
    ]
    await write(pair.a, [back(job) for at, job in enumerate(run) if at in left])  # as its runner does that hears of a loss


@each("call", ["finish", "finish_completed"])
async def test_follower_whose_head_was_taken_away_waits_again(pair: Peers, call: str) -> None:
    await pair.a.enqueue(times=3)
    run = await claim_run(pair.a, ahead=1)
    await lose(pair, run[0])
    done = await (pair.a.complete_all(run) if call == "finish_completed" else write(pair.a, [ack(job) for job in run]))
    assert sorted(done.lost) == sorted(job.token for job in run)
    assert await states(pair) == ["pending*", "waiting", "waiting"]


@each("kind", ["retry", "snooze", "dead", "cancel"])
async def test_follower_that_ends_otherwise_behind_a_completion_is_as_any_head(pair: Peers, kind: OutcomeKind) -> None:
    await pair.a.enqueue(times=3)
    run = await claim_run(pair.a, ahead=1)
    done = await write(pair.a, [ack(run[0]), ack(run[1], kind, delay_seconds=9.0 if kind in {"retry", "snooze"} else 0.0)])
    assert done.lost == []
    now = {"retry": ["failed*", "waiting"], "snooze": ["scheduled*", "waiting"]}.get(kind, ["pending*"])
    assert await states(pair) == now


# Given back.


async def test_follower_that_is_given_back_waits_in_its_place_with_its_attempt(pair: Peers) -> None:
    last = await pair.a.enqueue(times=4)
    run = await claim_run(pair.a, ahead=2)
    done = await write(pair.a, [back(run[1]), back(run[2])])
    assert (done.lost, done.heads) == ([], [])
    assert await states(pair) == ["processing*", "waiting", "waiting", "waiting"]
    assert [attempts for _, attempts in await rows(pair, "s.id", "j.attempts")] == [1, 0, 0, 0]
    await pair.a.complete_all(run[:1])
    assert await pair.drain() == [last - 2, last - 1, last]


async def test_follower_that_is_head_by_then_is_pending(pair: Peers) -> None:
    await pair.a.enqueue(times=3)
    run = await claim_run(pair.a, ahead=2)
    done = await write(pair.a, [ack(run[0]), back(run[1]), back(run[2])])
    assert done.heads == ["default"]
    assert await states(pair) == ["pending*", "waiting"]


async def test_follower_of_a_paused_key_that_is_given_back_waits_for_its_resume(pair: Peers) -> None:
    await pair.a.enqueue(times=3)
    run = await claim_run(pair.a, ahead=1)
    await insert(pair.admin, "pauses", kind="key", name="k")
    await pair.a.complete_all(run[:1])
    assert await states(pair) == ["processing", "waiting"]
    await write(pair.a, [back(run[1])])
    assert await states(pair) == ["waiting", "waiting"]
    await serialized.resume_key(pair.a.link, "k")
    assert await states(pair) == ["pending*", "waiting"]


async def test_followers_that_nobody_knows_of_wait_again(pair: Peers) -> None:
    await pair.a.enqueue(times=3)
    run = await claim_run(pair.a, ahead=2)
    found = await jobs.give_back(pair.a.link, 1, [run[0].id], last_token=run[-1].token)
    assert [job_id for job_id, _ in found] == [job.id for job in run[1:]]
    assert await states(pair) == ["processing*", "waiting", "waiting"]


@each("request_", ["cancel", "dead"])
async def test_follower_whose_end_was_asked_for_leaves_the_line_when_it_is_given_back(pair: Peers, request_: str) -> None:
    await pair.a.enqueue(times=4)
    run = await claim_run(pair.a, ahead=2)
    said = await pair.admin.fetchrow("SELECT * FROM asyncjobs.end_job($1, $2, 'no', 9)", run[1].id, request_)
    assert said is not None
    assert (said["outcome"], said["was"]) == ("requested", "processing")
    await write(pair.a, [back(run[1]), back(run[2])])
    assert await states(pair) == ["processing*", "waiting", "waiting"]
    assert await pair.status(run[1].id) == {"cancel": "cancelled", "dead": "dead"}[request_]


async def test_purge_leaves_followers_and_cancels_what_waits(pair: Peers) -> None:
    last = await pair.a.enqueue(times=4)
    run = await claim_run(pair.a, ahead=1)
    await serialized.purge_key(pair.a.link, "k", "no", 9)
    assert await states(pair) == ["processing*", "processing"]
    assert await pair.status(last) == "cancelled"
    assert (await pair.a.complete_all(run)).lost == []


@each("verb", ["retry_job(%s, 'ada')", "change_job(%s, '{\"priority\": 5}')"])
async def test_verbs_find_a_follower_processing(pair: Peers, verb: str) -> None:
    await pair.a.enqueue(times=3)
    run = await claim_run(pair.a, ahead=1)
    said = await pair.admin.fetchrow(f"SELECT * FROM asyncjobs.{verb % run[1].id}")
    assert said is not None
    assert said["outcome"] == "processing"


# Races of a giving back with a dispatch.


async def test_dispatch_that_waits_for_a_giving_back_makes_the_job_pending(pair: Peers) -> None:
    await pair.a.enqueue(times=3)
    run = await claim_run(pair.a, ahead=2)
    await pair.b.begin()
    await jobs.give_back(pair.b.link, 1, [run[0].id], last_token=run[-1].token)
    acking = spawn(pair.a.complete_all(run[:1]))
    await pair.waits_for_lock(pair.a)
    await pair.b.commit()
    assert (await acking).heads == ["default"]
    assert await states(pair) == ["pending*", "waiting"]


async def test_giving_back_that_waits_for_a_dispatch_finds_the_head(pair: Peers) -> None:
    await pair.a.enqueue(times=3)
    run = await claim_run(pair.a, ahead=2)
    await pair.a.begin()
    await pair.a.complete_all(run[:1])
    giving = spawn(jobs.give_back(pair.b.link, 1, [run[0].id], last_token=run[-1].token))
    await pair.waits_for_lock(pair.b)
    await pair.a.commit()
    await giving
    assert await states(pair) == ["pending*", "waiting"]


async def test_lean_call_leaves_a_follower_of_another_runner_to_the_second_look(pair: Peers) -> None:
    await pair.a.enqueue(times=3)
    run = await claim_run(pair.a, ahead=1)
    await lose(pair, run[0])
    head = await pair.b.claim_one()
    answer = await pair.b.complete(head)
    assert (answer.claimed, await states(pair)) == ([], ["processing*", "waiting"])
    await jobs.give_back(pair.a.link, 1, [], last_token=run[-1].token)
    assert await states(pair) == ["pending*", "waiting"]


async def test_lean_call_that_waits_for_a_giving_back_makes_the_job_pending(pair: Peers) -> None:
    await pair.a.enqueue(times=3)
    run = await claim_run(pair.a, ahead=1)
    await lose(pair, run[0])
    head = await pair.b.claim_one()
    await pair.a.begin()
    await jobs.give_back(pair.a.link, 1, [], last_token=run[-1].token)
    acking = spawn(pair.b.complete(head))
    await pair.waits_for_lock(pair.b)
    await pair.a.commit()
    assert (await acking).claimed == []
    assert await states(pair) == ["pending*", "waiting"]


async def test_verb_that_has_a_waiting_job_ends_the_run_and_one_that_comes_later_finds_it_running(pair: Peers) -> None:
    last = await pair.a.enqueue(times=3)
    await pair.b.begin()
    connection = await pair.b.link.connection()
    await connection.fetch("SELECT * FROM asyncjobs.end_job($1, 'cancel', 'no', 9)", last - 1)
    assert len(await claim_run(pair.a)) == 1
    await pair.b.commit()
    assert await states(pair) == ["processing*", "waiting"]


async def test_cancel_that_waits_for_the_claim_asks_again_and_finds_it_running(pair: Peers) -> None:
    last = await pair.a.enqueue(times=3)
    await pair.a.begin()
    await claim_run(pair.a)
    cancelling = spawn(pair.b.link.fetch_row("end_job", last, "cancel", "no", 9))
    await pair.waits_for_lock(pair.b)
    await pair.a.commit()
    said = [await cancelling, await pair.b.link.fetch_row("end_job", last, "cancel", "no", 9)]
    assert [row and row["outcome"] for row in said] == ["again", "requested"]
    assert await rows(pair, "j.status", "j.requested_outcome") == [("processing", None)] * 2 + [("processing", "cancel")]


# What it costs those who do not ask for it.


async def test_without_prefetch_none_of_this_is_called(pair: Peers) -> None:
    for peer in (pair.a, pair.b):
        await (await peer.link.connection()).execute("SET track_functions = 'all'")
    last = await pair.a.enqueue(times=6)
    await pair.a.enqueue(None, times=3)
    while claimed := await pair.a.claim(3):
        await pair.a.complete_all(claimed[:1])
        await write(pair.a, [ack(job, "snooze" if job.attempt < 3 else "completed") for job in claimed[1:]])
        await pair.promote()
    assert await pair.status(last) == "completed"
    for peer in (pair.a, pair.b):
        await peer.link.close()
    new = {"claim_followers", "keep_order", "wait_again", "without_followers", "give_back_followers"}
    calls = await pair.admin.fetch("SELECT funcname, calls FROM pg_stat_user_functions WHERE schemaname = 'asyncjobs'")
    assert {row["funcname"] for row in calls if row["calls"]} & new == set()
