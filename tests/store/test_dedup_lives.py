"""At most one live job has a dedup key, whatever brings it to life: a table of all ways into life.

`AGAIN` are operators' verbs on jobs that have ended: they take the key, or name the live job that has it. `ON` is whatever makes
a job pending that has not ended: it has had its key all the time.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple

import pytest

from asyncjobs.model.outcome import OutcomeKind
from asyncjobs.store import dead_letters, jobs, pauses, runners, serialized
from tests.support.factories import insert_runner
from tests.support.holding import pause_key
from tests.support.peers import Isolation, Peers, spawn
from tests.support.rows import each

HOUR = 3600.0
NOTHING: Mapping[str, Any] = {}
OVER = "UPDATE asyncjobs.dedup_keys SET expires_at = now() - interval '1 s' WHERE dedup_key = 'd'"
LIVE = """
SELECT j.id FROM asyncjobs.jobs AS j
WHERE j.dedup_key = 'd' AND j.status NOT IN ('completed', 'dead', 'cancelled')
"""


def rarely(value: object) -> Any:
    """A column of a table that `make proof` goes through, since the other columns have each of its rows."""
    return pytest.param(value, marks=pytest.mark.proof)


class Answer(NamedTuple):
    """What a verb did, to the job that lives now or to the one that is in its way."""

    outcome: str
    id: int | None


async def live(pair: Peers) -> list[int]:
    return [row["id"] for row in await pair.admin.fetch(LIVE)]


async def end(pair: Peers, kind: OutcomeKind, key: str | None = None, /, **fields: Any) -> int:
    """A job with the dedup key, which has ended so."""
    job_id = await pair.a.enqueue(key, dedup_key="d", **fields)
    if kind == "cancel":
        await serialized.cancel(pair.b.link, job_id, "no")
    else:
        [job] = [job for job in await pair.a.claim() if job.id == job_id]
        await pair.a.ack(job, kind, message="no")
    return job_id


async def run(pair: Peers, job_id: int, kind: OutcomeKind = "completed") -> None:
    """Claim what is pending, and end this job."""
    [job] = [job for job in await pair.b.claim() if job.id == job_id]
    await pair.b.ack(job, kind, message="no")


async def retry(pair: Peers, job_id: int) -> Answer:
    verb = await serialized.retry(pair.b.link, job_id, "me")
    return Answer(verb.outcome, job_id if verb.other_id is None else verb.other_id)


async def requeue(pair: Peers, job_id: int) -> Answer:
    connection = await pair.b.link.connection()
    dead_letter_id = await connection.fetchval("SELECT max(id) FROM asyncjobs.dead_letter_jobs WHERE job_id = $1", job_id)
    [done], _ = await dead_letters.requeue(pair.b.link, [dead_letter_id], "me", force=True)
    return Answer(done.outcome, done.new_id or done.other_id)


async def requeue_again(pair: Peers, job_id: int) -> Answer:
    """By force: it was requeued before, and that job has died."""
    if not await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE requeued_from = $1", job_id):
        first = await requeue(pair, job_id)
        if first.outcome != "requeued":
            return first
        assert first.id is not None
        await run(pair, first.id, "dead")
    return await requeue(pair, job_id)


class Again(NamedTuple):
    """How the first job ended, and what brings it to life."""

    ended: OutcomeKind
    verb: Callable[[Peers, int], Awaitable[Answer]]
    key: str | None = None
    fields: Mapping[str, Any] = NOTHING


AGAIN = {
    "retry of a dead job": Again("dead", retry),
    "retry of a cancelled job": Again("cancel", retry),
    "retry of a dead job of a key": Again("dead", retry, "k"),
    "retry of a cancelled job of a key": Again("cancel", retry, "k"),
    "retry of a job that halts its key": Again("dead", retry, "k", {"on_dead": "halt"}),
    "requeue": Again("dead", requeue),
    "requeue of a job of a key": Again("dead", requeue, "k"),
    "requeue again": Again("dead", requeue_again),
}


@pytest.mark.parametrize("dedup_for", ["none", rarely("lasting"), "over before", rarely("over after")])
@each("way", AGAIN)
async def test_job_that_lives_again_has_its_dedup_key(pair: Peers, way: str, dedup_for: str) -> None:
    again = AGAIN[way]
    first = await end(pair, again.ended, again.key, dedup_for_seconds=None if dedup_for == "none" else HOUR, **again.fields)
    if dedup_for == "over before":
        await pair.admin.execute(OVER)
    answer = await again.verb(pair, first)
    assert answer.outcome in {"retried", "requeued"}
    if dedup_for == "over after":
        await pair.admin.execute(OVER)
    assert await pair.a.enqueue(again.key, dedup_key="d") == answer.id
    assert await live(pair) == [answer.id]
    await pair.promises_hold()
    await pair.drain()
    assert (await pair.a.enqueue(again.key, dedup_key="d") == answer.id) is (dedup_for == "lasting")
    await pair.drain()


@pytest.mark.parametrize("dedup_for", [rarely("none"), "over"])
@each("way", AGAIN)
async def test_live_job_that_has_the_dedup_key_is_in_the_way_and_named(pair: Peers, way: str, dedup_for: str) -> None:
    again = AGAIN[way]
    first = await end(pair, again.ended, again.key, dedup_for_seconds=HOUR if dedup_for == "over" else None, **again.fields)
    if dedup_for == "over":
        await pair.admin.execute(OVER)
    other = await pair.a.enqueue(dedup_key="d")
    before = await pair.admin.fetch("SELECT * FROM asyncjobs.dead_letter_jobs"), await pair.line()
    status = await pair.status(first)
    assert await again.verb(pair, first) == Answer("duplicate", other)
    assert await live(pair) == [other]
    assert (await pair.admin.fetch("SELECT * FROM asyncjobs.dead_letter_jobs"), await pair.line()) == before
    assert await pair.status(first) == status
    await serialized.cancel(pair.b.link, other, "no")
    assert (await again.verb(pair, first)).outcome in {"retried", "requeued"}, "nothing is in the way any more"
    await pair.drain()


@each("way", AGAIN)
async def test_job_that_has_ended_is_in_no_ones_way_whatever_time_its_key_has_left(pair: Peers, way: str) -> None:
    """An enqueue meets the key until then; an operator's hand takes it along, with its time."""
    again = AGAIN[way]
    first = await end(pair, again.ended, again.key, **again.fields)
    other = await end(pair, "cancel", dedup_for_seconds=HOUR)
    assert await pair.a.enqueue(dedup_key="d") == other
    answer = await again.verb(pair, first)
    assert answer.outcome in {"retried", "requeued"}
    assert await pair.a.enqueue(dedup_key="d") == answer.id
    await pair.promises_hold()
    await pair.drain()
    assert await pair.a.enqueue(dedup_key="d") == answer.id, "its time is not over"


async def promote(pair: Peers, _: int) -> None:
    await pair.promote()


async def fail(pair: Peers, job_id: int) -> None:
    await run(pair, job_id, "retry")
    await pair.promote()


async def fail_and_retry(pair: Peers, job_id: int) -> None:
    await run(pair, job_id, "retry")
    assert (await retry(pair, job_id)).outcome == "retried"


async def retry_before_it_is_due(pair: Peers, job_id: int) -> None:
    assert (await retry(pair, job_id)).outcome == "retried"


async def snooze(pair: Peers, job_id: int) -> None:
    await run(pair, job_id, "snooze")
    await pair.promote()


async def interrupt(pair: Peers, job_id: int) -> None:
    await run(pair, job_id, "interrupted")


async def give_back(pair: Peers, job_id: int) -> None:
    await pair.b.claim()
    given = await jobs.give_back(pair.b.link, pair.b.runner_id, [], last_token=pair.b.runner_id << 32 | 999)
    assert [one for one, _ in given] == [job_id]


async def rescue(pair: Peers, job_id: int) -> None:
    await pair.b.claim()
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 2")
    assert (await runners.rescue(pair.a.link, 10, max_errors=10)).ids == [job_id]
    await insert_runner(pair.admin, id=2, types=["email"])


async def take_back_by_sql(pair: Peers, job_id: int) -> None:
    await pair.b.claim()
    await pair.admin.execute(
        "UPDATE asyncjobs.jobs SET status = 'pending', started_at = NULL, runner_id = NULL WHERE id = $1", job_id
    )


async def pause_and_resume_its_type(pair: Peers, job_id: int) -> None:
    await pauses.pause(pair.b.link, "type", "email", "", "me")
    await pauses.converge(pair.b.link, 10, window=10, grace_seconds=3600.0)
    assert await pair.status(job_id) == "paused"
    await pauses.resume(pair.b.link, "type", "email")
    await pauses.converge(pair.b.link, 10, window=10, grace_seconds=3600.0)


async def pause_and_resume_its_key(pair: Peers, job_id: int) -> None:
    await pause_key(pair.b.link, "k")
    assert await pair.status(job_id) == "paused"
    await serialized.resume_key(pair.b.link, "k")


async def become_head(pair: Peers, job_id: int) -> None:
    assert await pair.status(job_id) == "waiting"
    await pair.a.ack(await pair.a.claim_one())


async def become_head_of_a_released_key(pair: Peers, job_id: int) -> None:
    assert await pair.status(job_id) == "waiting"
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    assert (await serialized.release_key(pair.b.link, "k"))[0] is not None


async def be_put_back_in_line(pair: Peers, job_id: int) -> None:
    await run(pair, await pair.admin.fetchval("SELECT min(id) FROM asyncjobs.jobs"), "dead")
    await pair.admin.execute("DELETE FROM asyncjobs.serialized_jobs")
    await pair.admin.execute("UPDATE asyncjobs.jobs SET status = 'waiting' WHERE id = $1", job_id)
    assert await serialized.rejoin(pair.b.link, [job_id]) == 1
    await pair.promote()


async def be_replaced(pair: Peers, job_id: int) -> None:
    assert await pair.a.enqueue(None, dedup_key="d", on_duplicate="replace") == job_id


class On(NamedTuple):
    """What makes the job pending that has not ended, and what it is like before."""

    move: Callable[[Peers, int], Awaitable[None]]
    key: str | None = None
    fields: Mapping[str, Any] = NOTHING
    behind: bool = False  # it waits behind another job of its key, which halts it when it dies


ON = {
    "promotion": On(promote, None, {"delay_seconds": HOUR}),
    "promotion into its line": On(promote, "k", {"delay_seconds": HOUR}),
    "replacement of a delayed job": On(be_replaced, None, {"delay_seconds": HOUR}),
    "retry before its time": On(retry_before_it_is_due, None, {"delay_seconds": HOUR}),
    "retry before its time, into its line": On(retry_before_it_is_due, "k", {"delay_seconds": HOUR}),
    "failed attempt": On(fail),
    "failed attempt of a key": On(fail, "k"),
    "failed attempt, and retry": On(fail_and_retry),
    "snooze": On(snooze),
    "interruption": On(interrupt),
    "give-back": On(give_back),
    "rescue": On(rescue),
    "an operator's SQL": On(take_back_by_sql),
    "pause and resume of the type": On(pause_and_resume_its_type),
    "pause and resume of the key": On(pause_and_resume_its_key, "k"),
    "end of the head before it": On(become_head, "k", behind=True),
    "release of its key": On(become_head_of_a_released_key, "k", behind=True),
    "sweep": On(be_put_back_in_line, "k", {"delay_seconds": HOUR}, behind=True),
}


@pytest.mark.parametrize("dedup_for", [rarely(None), HOUR])
@each("way", ON)
async def test_job_that_has_not_ended_keeps_its_dedup_key(pair: Peers, way: str, dedup_for: float | None) -> None:
    move, key, fields, is_behind = ON[way]
    if is_behind:
        await pair.a.enqueue(key, on_dead="halt")
    job_id = await pair.a.enqueue(key, dedup_key="d", dedup_for_seconds=dedup_for, **fields)
    await move(pair, job_id)
    assert await pair.status(job_id) == "pending"
    await pair.admin.execute(OVER)  # a live job has it for as long as it lives
    assert await pair.a.enqueue(key, dedup_key="d") == job_id
    assert await live(pair) == [job_id]
    await pair.promises_hold()
    await pair.drain()
    assert await pair.a.enqueue(key, dedup_key="d") != job_id
    await pair.drain()


async def test_requeues_of_many_dead_letters_of_one_dedup_key_make_one_job(pair: Peers) -> None:
    ids = [await end(pair, "dead") for _ in range(3)]
    plain = await pair.a.enqueue(None)
    await run(pair, plain, "dead")
    found = await pair.admin.fetch("SELECT id FROM asyncjobs.dead_letter_jobs ORDER BY id")
    done, _ = await dead_letters.requeue(pair.b.link, [row["id"] for row in found], "me", force=False)
    outcomes = {one.job_id: one.outcome for one in done}
    assert outcomes == dict(zip([*ids, plain], ["requeued", "duplicate", "duplicate", "requeued"], strict=True))
    assert {one.other_id for one in done if one.outcome == "duplicate"} == set(await live(pair))
    rest = "SELECT count(*) FROM asyncjobs.dead_letter_jobs WHERE NOT acknowledged AND requeued_as IS NULL"
    assert await pair.admin.fetchval(rest) == 2
    await pair.drain()


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("way", [retry, requeue])
async def test_enqueue_that_is_not_committed_is_waited_for(
    pair: Peers, way: Callable[[Peers, int], Awaitable[Answer]], ends: str
) -> None:
    first = await end(pair, "dead")
    await pair.a.begin()
    other = await pair.a.enqueue_in_transaction(None, dedup_key="d")
    again = spawn(way(pair, first))
    await pair.waits_for_lock(pair.b)
    await (pair.a.commit() if ends == "commit" else pair.a.rollback())
    answer = await again
    assert (answer.outcome == "duplicate") is (ends == "commit")
    assert await live(pair) == [answer.id]
    assert (answer.id == other) is (ends == "commit")
    await pair.drain()


@pytest.mark.parametrize("by", ["us", rarely("read_committed"), rarely("repeatable_read"), "serializable"])
@pytest.mark.parametrize("where", ["plain", "head", "waiting"])
async def test_dedup_key_of_a_job_that_somebody_deleted_is_free(pair: Peers, where: str, by: Literal["us"] | Isolation) -> None:
    """Whatever time it has left, and whatever the enqueue says of duplicates."""
    key = None if where == "plain" else "k"
    for on_duplicate in ("return", "replace", "raise"):
        if where == "waiting":
            await pair.a.enqueue(key)
        fields: dict[str, Any] = {"dedup_key": f"d {on_duplicate}", "on_duplicate": on_duplicate, "dedup_for_seconds": HOUR}
        first = await pair.a.enqueue(key, **fields)
        assert await pair.admin.fetchval("DELETE FROM asyncjobs.jobs WHERE id = $1 RETURNING id", first) == first
        if key is not None:
            await serialized.release_ended(pair.b.link, first)
        if by == "us":
            second = await pair.b.enqueue(key, **fields)
        else:
            await pair.b.begin(by)
            second = await pair.b.enqueue_in_transaction(key, **fields)
            await pair.b.commit()
            await serialized.advance(pair.a.link, ["k"], [])
        assert second != first
        fields["on_duplicate"] = "return"
        assert await pair.a.enqueue(key, **fields) == second
        await pair.drain()


async def test_job_that_is_deleted_while_its_key_is_asked_for_has_it_until_the_commit(pair: Peers) -> None:
    first = await pair.a.enqueue(None, dedup_key="d")
    async with pair.admin.transaction():
        await pair.admin.execute("DELETE FROM asyncjobs.jobs WHERE id = $1", first)
        assert await pair.a.enqueue(None, dedup_key="d") == first
    assert await pair.a.enqueue(None, dedup_key="d") != first
    await pair.drain()
