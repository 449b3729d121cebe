"""Every verb of an operator on every state of a job and of a key: the key has a head afterwards, or a reason why not."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from asyncjobs.model.outcome import OutcomeKind
from asyncjobs.store import runners, serialized
from tests.support.holding import pause_key
from tests.support.peers import Peers, spawn
from tests.support.rows import each

State: TypeAlias = Callable[[Peers], Awaitable[int]]
Case: TypeAlias = tuple[State, str, str | None, str | None, list[str]]


async def pending(pair: Peers) -> int:
    return await pair.a.enqueue()


async def waiting(pair: Peers) -> int:
    return await pair.a.enqueue(times=2)


async def waiting_after_a_delay(pair: Peers) -> int:
    await pair.a.enqueue()
    job_id = await delayed(pair)
    await pair.promote()
    assert await pair.status(job_id) == "waiting"
    return job_id


async def delayed(pair: Peers) -> int:
    return await pair.a.enqueue(delay_seconds=3600.0)


async def processing(pair: Peers) -> int:
    job_id = await pair.a.enqueue()
    await pair.a.claim_one()
    return job_id


async def failed(pair: Peers) -> int:
    job_id = await pair.a.enqueue()
    await pair.a.ack(await pair.a.claim_one(), "retry", delay_seconds=3600.0)
    return job_id


async def snoozed(pair: Peers) -> int:
    job_id = await pair.a.enqueue()
    await pair.a.ack(await pair.a.claim_one(), "snooze", delay_seconds=3600.0)
    return job_id


async def paused(pair: Peers) -> int:
    job_id = await pair.a.enqueue()
    await pause_key(pair.a.link, "k", None, None)
    return job_id


async def halted(pair: Peers) -> int:
    job_id = await pair.a.enqueue(on_dead="halt")
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    return job_id


async def dead(pair: Peers) -> int:
    job_id = await pair.a.enqueue()
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    return job_id


async def cancelled(pair: Peers) -> int:
    job_id = await pair.a.enqueue()
    await serialized.cancel(pair.a.link, job_id, "no")
    return job_id


async def completed(pair: Peers) -> int:
    job_id = await pair.a.enqueue()
    await pair.a.ack(await pair.a.claim_one())
    return job_id


async def unknown(pair: Peers) -> int:
    return 999_999


async def behind(pair: Peers, job_id: int) -> list[str]:
    """The states in the line, `it` for the job's own."""
    return [("it " if each == job_id else "") + state for each, state in await pair.line()]


#: state, outcome of the cancel, what it was, its status after, the line after (one more job had been enqueued behind it)
CANCELS: list[Case] = [
    (pending, "cancelled", "pending", "cancelled", ["pending"]),
    (waiting, "cancelled", "waiting", "cancelled", ["pending", "waiting"]),
    (waiting_after_a_delay, "cancelled", "waiting", "cancelled", ["pending", "waiting"]),
    (delayed, "cancelled", "scheduled", "cancelled", ["pending"]),
    (processing, "requested", "processing", "processing", ["it processing", "waiting"]),
    (failed, "cancelled", "failed", "cancelled", ["pending"]),
    (snoozed, "cancelled", "scheduled", "cancelled", ["pending"]),
    (paused, "cancelled", "paused", "cancelled", ["waiting"]),
    (halted, "final", "dead", "dead", ["it halted", "waiting"]),
    (dead, "final", "dead", "dead", ["pending"]),
    (cancelled, "final", "cancelled", "cancelled", ["pending"]),
    (completed, "final", "completed", "completed", ["pending"]),
    (unknown, "unknown", None, None, ["pending"]),
]


@each("case", CANCELS)
async def test_cancel(pair: Peers, case: Case) -> None:
    state, outcome, was, status, line = case
    job_id = await state(pair)
    await pair.b.enqueue()
    verb = await serialized.cancel(pair.b.link, job_id, "by me")
    assert (verb.outcome, verb.was) == (outcome, was)
    assert await pair.status(job_id) == status
    assert await behind(pair, job_id) == line
    assert verb.queues == (["default"] if outcome == "cancelled" and line == ["pending"] and state is not delayed else [])
    if outcome == "cancelled":
        message = "SELECT error_message FROM asyncjobs.jobs WHERE id = $1 AND completed_at IS NOT NULL"
        assert await pair.admin.fetchval(message, job_id) == "by me"
    await pair.promises_hold()


RETRIES: list[Case] = [
    (pending, "pending", "pending", "pending", ["it pending", "waiting"]),
    (waiting, "waiting", "waiting", "waiting", ["pending", "it waiting", "waiting"]),
    (waiting_after_a_delay, "waiting", "waiting", "waiting", ["pending", "it waiting", "waiting"]),
    (delayed, "retried", "scheduled", "waiting", ["pending", "it waiting"]),
    (processing, "processing", "processing", "processing", ["it processing", "waiting"]),
    (failed, "retried", "failed", "pending", ["it pending", "waiting"]),
    (snoozed, "retried", "scheduled", "pending", ["it pending", "waiting"]),
    (paused, "paused", "paused", "paused", ["it paused", "waiting"]),
    (halted, "retried", "dead", "pending", ["it pending", "waiting"]),
    (dead, "retried", "dead", "waiting", ["pending", "it waiting"]),
    (cancelled, "retried", "cancelled", "waiting", ["pending", "it waiting"]),
    (completed, "final", "completed", "completed", ["pending"]),
    (unknown, "unknown", None, None, ["pending"]),
]


@each("case", RETRIES)
async def test_retry(pair: Peers, case: Case) -> None:
    state, outcome, was, status, line = case
    job_id = await state(pair)
    await pair.b.enqueue()
    verb = await serialized.retry(pair.b.link, job_id, "me")
    assert (verb.outcome, verb.was) == (outcome, was)
    assert await pair.status(job_id) == status
    assert await behind(pair, job_id) == line
    await pair.promises_hold()


@each("state", [dead, halted, cancelled])
async def test_job_that_is_retried_after_its_end_starts_over(pair: Peers, state: State) -> None:
    job_id = await state(pair)
    await serialized.retry(pair.b.link, job_id, "me")
    job = await pair.admin.fetchrow("SELECT attempts, completed_at, error_message FROM asyncjobs.jobs WHERE id = $1", job_id)
    assert tuple(job or ()) == (0, None, None)
    assert await pair.drain() == [job_id]


@each("state", [failed, snoozed, halted])
async def test_job_that_kept_its_key_is_paused_when_it_is_retried_on_a_paused_key(pair: Peers, state: State) -> None:
    job_id = await state(pair)
    await pause_key(pair.a.link, "k", None, None)
    assert (await serialized.retry(pair.b.link, job_id, "me")).outcome == "retried"
    assert await pair.line() == [(job_id, "paused")]
    await serialized.resume_key(pair.a.link, "k")
    assert await pair.drain() == [job_id]


@each("kind", ["retry", "snooze", "interrupted"])
async def test_job_that_was_cancelled_while_it_ran_lets_its_key_go_when_its_attempt_ends(pair: Peers, kind: OutcomeKind) -> None:
    job_id = await pair.a.enqueue(times=2) - 1
    job = await pair.a.claim_one()
    await serialized.cancel(pair.b.link, job_id, "by me")
    assert await behind(pair, job_id) == ["it processing", "waiting"]
    await pair.a.ack(job, kind, delay_seconds=5.0)
    assert await pair.status(job_id) == "cancelled"
    assert [state for _, state in await pair.line()] == ["pending"]
    await pair.promises_hold()


async def test_job_that_completed_before_it_noticed_its_cancellation_is_completed(pair: Peers) -> None:
    job_id = await pair.a.enqueue()
    job = await pair.a.claim_one()
    await serialized.cancel(pair.b.link, job_id, "by me")
    await pair.a.ack(job)
    assert await pair.status(job_id) == "completed"
    assert await pair.line() == []


async def test_rescue_obeys_a_cancellation(pair: Peers) -> None:
    job_id = await pair.a.enqueue(times=2) - 1
    await pair.a.claim_one()
    await serialized.cancel(pair.b.link, job_id, "by me")
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    await runners.rescue(pair.b.link, 10, max_errors=10)
    assert await pair.status(job_id) == "cancelled"
    assert [state for _, state in await pair.line()] == ["pending"]


@each("state", [pending, waiting, delayed, processing, failed, snoozed, dead, cancelled, completed, paused])
async def test_release_of_a_key_that_is_not_halted_changes_nothing(pair: Peers, state: State) -> None:
    job_id = await state(pair)
    before = await pair.line()
    assert await serialized.release_key(pair.b.link, "k") == (None, [])
    assert await pair.line() == before
    assert await pair.status(job_id) is not None


async def test_release_lets_the_halted_key_go_on_and_leaves_its_head_dead(pair: Peers) -> None:
    job_id = await halted(pair)
    second = await pair.b.enqueue()
    assert await pair.line() == [(job_id, "halted"), (second, "waiting")]
    assert await serialized.release_key(pair.b.link, "k") == (job_id, ["default"])
    assert await pair.status(job_id) == "dead"
    assert await pair.line() == [(second, "pending")]
    assert await serialized.release_key(pair.b.link, "k") == (None, [])


async def test_release_of_a_paused_key_dispatches_nothing(pair: Peers) -> None:
    job_id = await halted(pair)
    second = await pair.b.enqueue()
    await pause_key(pair.a.link, "k", None, None)
    assert (await serialized.release_key(pair.b.link, "k"))[0] == job_id
    assert await pair.line() == [(second, "waiting")]
    await pair.promises_hold()
    await serialized.resume_key(pair.b.link, "k")
    assert await pair.drain() == [second]


PAUSES = [
    (pending, ["it paused", "waiting"]),
    (waiting, ["paused", "it waiting", "waiting"]),
    (delayed, ["paused"]),
    (processing, ["it processing", "waiting"]),
    (failed, ["it failed", "waiting"]),
    (snoozed, ["it scheduled", "waiting"]),
    (halted, ["it halted", "waiting"]),
    (completed, ["paused"]),
    (unknown, ["paused"]),
]


@each(("state", "line"), PAUSES)
async def test_pause_holds_back_what_does_not_run_and_resume_undoes_it(pair: Peers, state: State, line: list[str]) -> None:
    job_id = await state(pair)
    await pair.b.enqueue()
    before = await pair.line()
    assert await pause_key(pair.b.link, "k", "busy", "me") is True
    assert await behind(pair, job_id) == line
    assert await pause_key(pair.b.link, "k", "busy", "me") is False
    assert await pair.a.claim() == []
    await pair.promises_hold()
    assert (await serialized.resume_key(pair.b.link, "k"))[0] is True
    assert await pair.line() == before
    assert await serialized.resume_key(pair.b.link, "k") == (False, [])


@each("kind", ["retry", "snooze", "interrupted", "completed", "dead"])
async def test_paused_key_runs_nothing_whatever_its_running_head_ends_in(pair: Peers, kind: OutcomeKind) -> None:
    second = await pair.a.enqueue(times=2)
    job = await pair.a.claim_one()
    await pause_key(pair.b.link, "k", None, None)
    await pair.a.ack(job, kind, message="no")
    await pair.promote()
    assert await pair.drain() == []
    await pair.promises_hold()
    await serialized.resume_key(pair.b.link, "k")
    await pair.promote()
    assert (await pair.drain())[-1] == second


async def test_pause_waits_for_an_ack_that_is_dispatching_the_next_head(pair: Peers) -> None:
    """Else it would not see that head, which would be claimed although the key is paused."""
    second = await pair.a.enqueue(times=2)
    job = await pair.a.claim_one()
    await pair.a.begin()
    await pair.a.ack(job)
    await pair.admin.execute("ALTER FUNCTION asyncjobs.hold_key(text) SET lock_timeout = '30s'")
    pause = pause_key(pair.b.link, "k", None, None)
    with pytest.raises(Exception, match="moved on"):
        await _commit_while_waiting(pair, pause)
    await pause_key(pair.b.link, "k", None, None)
    assert await pair.line() == [(second, "paused")]


async def _commit_while_waiting(pair: Peers, verb: Awaitable[bool]) -> None:
    task = spawn(verb)
    await pair.waits_for_lock(pair.b)
    await pair.a.commit()
    await task


PURGES = [
    (pending, ["it pending"], 1),
    (waiting, ["pending"], 1),
    (processing, ["it processing"], 1),
    (failed, ["it failed"], 1),
    (halted, ["it halted"], 0),
    (paused, ["it paused"], 1),
    (delayed, ["pending"], 1),
    (completed, ["pending"], 1),
]


@each(("state", "line", "heads"), PURGES)
async def test_purge_cancels_all_that_wait_and_names_the_head(pair: Peers, state: State, line: list[str], heads: int) -> None:
    job_id = await state(pair)
    await pair.b.enqueue(times=3)
    waiting = [each for each, status in await pair.line() if status == "waiting"]
    cancelled, head_id = await serialized.purge_key(pair.b.link, "k", "no", 100)
    assert cancelled == list(reversed(waiting))
    assert await behind(pair, job_id) == line
    assert (head_id is not None) == heads
    await pair.promises_hold()


async def test_purge_in_batches_takes_the_end_of_the_line_first(pair: Peers) -> None:
    last = await pair.a.enqueue(times=6)
    assert (await serialized.purge_key(pair.b.link, "k", "no", 2))[0] == [last, last - 1]
    assert (await serialized.purge_key(pair.b.link, "k", "no", 2))[0] == [last - 2, last - 3]
    assert await pair.drain() == [last - 5, last - 4]


async def test_retry_of_all_dead_keeps_the_order_of_each_key(pair: Peers) -> None:
    ids: dict[str, list[int]] = {"x": [], "y": []}
    for number in range(8):
        key = "xy"[number % 2]
        ids[key].append(await pair.a.enqueue(key, max_attempts=1))
    while claimed := await pair.a.claim():
        for job in reversed(claimed):
            await pair.a.ack(job, "dead", message="no")
    for job_id in await serialized.dead(pair.a.link, None, None, 100):
        assert (await serialized.retry(pair.a.link, job_id, "me")).outcome == "retried"
    order = await pair.drain()
    assert {key: [job_id for job_id in order if job_id in ids[key]] for key in ids} == ids
    assert await serialized.dead(pair.a.link, None, None, 100) == []  # their dead letters are acknowledged


async def test_dead_jobs_can_be_asked_for_by_key_and_type(pair: Peers) -> None:
    first = await dead(pair)
    other = await pair.a.enqueue("other", "report")
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    assert await serialized.dead(pair.a.link, "k", None, 100) == [first]
    assert await serialized.dead(pair.a.link, None, "report", 100) == [other]
    assert await serialized.dead(pair.a.link, "k", "report", 100) == []
    assert await serialized.dead(pair.a.link, None, None, 1) == [first]


async def test_retry_of_a_dead_job_whose_dedup_key_another_has_says_whose(pair: Peers) -> None:
    job_id = await pair.a.enqueue(dedup_key="d")
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    other = await pair.a.enqueue(dedup_key="d")
    verb = await serialized.retry(pair.a.link, job_id, "me")
    assert (verb.outcome, verb.was, verb.other_id) == ("duplicate", "dead", other)
    await pair.drain()
    assert (await serialized.retry(pair.a.link, job_id, "me")).outcome == "retried"
    await pair.promises_hold()


async def test_retried_job_that_waits_in_its_line_again_has_started_and_is_not_replaced(pair: Peers) -> None:
    job_id = await pair.a.enqueue(dedup_key="d")
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    head = await pair.a.enqueue()
    await serialized.retry(pair.a.link, job_id, "me")
    line = [(head, "pending"), (job_id, "waiting")]
    assert await pair.line() == line
    assert await pair.a.enqueue(dedup_key="d", on_duplicate="replace", delay_seconds=60) == job_id
    assert await pair.line() == line
    assert await pair.drain() == [head, job_id]
