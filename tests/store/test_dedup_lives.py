"""At most one live job has a dedup key, whatever brings it to life: a table of all ways into life.

`AGAIN` are operators' verbs on jobs that have ended: they take the key, or name the live job that has it. `ON` is whatever makes
a job pending that has not ended: it has had its key all the time.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple

import pytest

from asyncjobs.model.outcome import OutcomeKind
from asyncjobs.store import dead_letters, jobs, pauses, runners, serialized
from asyncjobs.store.database import Database
from tests.support.factories import insert_runner
from tests.support.holding import pause_key
from tests.support.peers import Isolation, Peers, peers, spawn

HOUR = 3600.0
NOTHING: Mapping[str, Any] = {}
OVER = "UPDATE asyncjobs.dedup_keys SET expires_at = now() - interval '1 s' WHERE dedup_key = 'd'"
LIVE = """
SELECT j.id FROM asyncjobs.jobs AS j
WHERE j.dedup_key = 'd' AND j.status NOT IN ('completed', 'dead', 'cancelled')
"""


@pytest.fixture
async def world(database: Database) -> AsyncGenerator[Peers]:
    async with peers(database) as made:
        yield made


class Answer(NamedTuple):
    """What a verb did, to the job that lives now or to the one that is in its way."""

    outcome: str
    id: int | None


async def live(world: Peers) -> list[int]:
    return [row["id"] for row in await world.admin.fetch(LIVE)]


async def end(world: Peers, kind: OutcomeKind, key: str | None = None, /, **fields: Any) -> int:
    """A job with the dedup key, which has ended so."""
    job_id = await world.a.enqueue(key, dedup_key="d", **fields)
    if kind == "cancel":
        await serialized.cancel(world.b.link, job_id, "no")
    else:
        [job] = [job for job in await world.a.claim() if job.id == job_id]
        await world.a.ack(job, kind, message="no")
    return job_id


async def run(world: Peers, job_id: int, kind: OutcomeKind = "completed") -> None:
    """Claim what is pending, and end this job."""
    [job] = [job for job in await world.b.claim() if job.id == job_id]
    await world.b.ack(job, kind, message="no")


async def retry(world: Peers, job_id: int) -> Answer:
    verb = await serialized.retry(world.b.link, job_id, "me")
    return Answer(verb.outcome, job_id if verb.other_id is None else verb.other_id)


async def requeue(world: Peers, job_id: int) -> Answer:
    connection = await world.b.link.connection()
    dead_letter_id = await connection.fetchval("SELECT max(id) FROM asyncjobs.dead_letter_jobs WHERE job_id = $1", job_id)
    [done], _ = await dead_letters.requeue(world.b.link, [dead_letter_id], "me", force=True)
    return Answer(done.outcome, done.new_id or done.other_id)


async def requeue_again(world: Peers, job_id: int) -> Answer:
    """By force: it was requeued before, and that job has died."""
    if not await world.admin.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE requeued_from = $1", job_id):
        first = await requeue(world, job_id)
        if first.outcome != "requeued":
            return first
        assert first.id is not None
        await run(world, first.id, "dead")
    return await requeue(world, job_id)


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


@pytest.mark.parametrize("dedup_for", ["none", "lasting", "over before", "over after"])
@pytest.mark.parametrize("way", AGAIN)
async def test_job_that_lives_again_has_its_dedup_key(world: Peers, way: str, dedup_for: str) -> None:
    again = AGAIN[way]
    first = await end(world, again.ended, again.key, dedup_for_seconds=None if dedup_for == "none" else HOUR, **again.fields)
    if dedup_for == "over before":
        await world.admin.execute(OVER)
    answer = await again.verb(world, first)
    assert answer.outcome in {"retried", "requeued"}
    if dedup_for == "over after":
        await world.admin.execute(OVER)
    assert await world.a.enqueue(again.key, dedup_key="d") == answer.id
    assert await live(world) == [answer.id]
    await world.promises_hold()
    await world.drain()
    assert (await world.a.enqueue(again.key, dedup_key="d") == answer.id) is (dedup_for == "lasting")
    await world.drain()


@pytest.mark.parametrize("dedup_for", ["none", "over"])
@pytest.mark.parametrize("way", AGAIN)
async def test_live_job_that_has_the_dedup_key_is_in_the_way_and_named(world: Peers, way: str, dedup_for: str) -> None:
    again = AGAIN[way]
    first = await end(world, again.ended, again.key, dedup_for_seconds=HOUR if dedup_for == "over" else None, **again.fields)
    if dedup_for == "over":
        await world.admin.execute(OVER)
    other = await world.a.enqueue(dedup_key="d")
    before = await world.admin.fetch("SELECT * FROM asyncjobs.dead_letter_jobs"), await world.line()
    status = await world.status(first)
    assert await again.verb(world, first) == Answer("duplicate", other)
    assert await live(world) == [other]
    assert (await world.admin.fetch("SELECT * FROM asyncjobs.dead_letter_jobs"), await world.line()) == before
    assert await world.status(first) == status
    await serialized.cancel(world.b.link, other, "no")
    assert (await again.verb(world, first)).outcome in {"retried", "requeued"}, "nothing is in the way any more"
    await world.drain()


@pytest.mark.parametrize("way", AGAIN)
async def test_job_that_has_ended_is_in_no_ones_way_whatever_time_its_key_has_left(world: Peers, way: str) -> None:
    """An enqueue meets the key until then; an operator's hand takes it along, with its time."""
    again = AGAIN[way]
    first = await end(world, again.ended, again.key, **again.fields)
    other = await end(world, "cancel", dedup_for_seconds=HOUR)
    assert await world.a.enqueue(dedup_key="d") == other
    answer = await again.verb(world, first)
    assert answer.outcome in {"retried", "requeued"}
    assert await world.a.enqueue(dedup_key="d") == answer.id
    await world.promises_hold()
    await world.drain()
    assert await world.a.enqueue(dedup_key="d") == answer.id, "its time is not over"


async def promote(world: Peers, _: int) -> None:
    await world.promote()


async def fail(world: Peers, job_id: int) -> None:
    await run(world, job_id, "retry")
    await world.promote()


async def fail_and_retry(world: Peers, job_id: int) -> None:
    await run(world, job_id, "retry")
    assert (await retry(world, job_id)).outcome == "retried"


async def retry_before_it_is_due(world: Peers, job_id: int) -> None:
    assert (await retry(world, job_id)).outcome == "retried"


async def snooze(world: Peers, job_id: int) -> None:
    await run(world, job_id, "snooze")
    await world.promote()


async def interrupt(world: Peers, job_id: int) -> None:
    await run(world, job_id, "interrupted")


async def give_back(world: Peers, job_id: int) -> None:
    await world.b.claim()
    given = await jobs.give_back(world.b.link, world.b.runner_id, [], last_token=world.b.runner_id << 32 | 999)
    assert [one for one, _ in given] == [job_id]


async def rescue(world: Peers, job_id: int) -> None:
    await world.b.claim()
    await world.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 2")
    assert (await runners.rescue(world.a.link, 10, max_errors=10)).ids == [job_id]
    await insert_runner(world.admin, id=2, types=["email"])


async def take_back_by_sql(world: Peers, job_id: int) -> None:
    await world.b.claim()
    await world.admin.execute(
        "UPDATE asyncjobs.jobs SET status = 'pending', started_at = NULL, runner_id = NULL WHERE id = $1", job_id
    )


async def pause_and_resume_its_type(world: Peers, job_id: int) -> None:
    await pauses.pause(world.b.link, "type", "email", "", "me")
    await pauses.converge(world.b.link, 10, window=10, grace_seconds=3600.0)
    assert await world.status(job_id) == "paused"
    await pauses.resume(world.b.link, "type", "email")
    await pauses.converge(world.b.link, 10, window=10, grace_seconds=3600.0)


async def pause_and_resume_its_key(world: Peers, job_id: int) -> None:
    await pause_key(world.b.link, "k")
    assert await world.status(job_id) == "paused"
    await serialized.resume_key(world.b.link, "k")


async def become_head(world: Peers, job_id: int) -> None:
    assert await world.status(job_id) == "waiting"
    await world.a.ack(await world.a.claim_one())


async def become_head_of_a_released_key(world: Peers, job_id: int) -> None:
    assert await world.status(job_id) == "waiting"
    await world.a.ack(await world.a.claim_one(), "dead", message="no")
    assert (await serialized.release_key(world.b.link, "k"))[0] is not None


async def be_put_back_in_line(world: Peers, job_id: int) -> None:
    await run(world, await world.admin.fetchval("SELECT min(id) FROM asyncjobs.jobs"), "dead")
    await world.admin.execute("DELETE FROM asyncjobs.serialized_jobs")
    await world.admin.execute("UPDATE asyncjobs.jobs SET status = 'waiting' WHERE id = $1", job_id)
    assert await serialized.rejoin(world.b.link, [job_id]) == 1
    await world.promote()


async def be_replaced(world: Peers, job_id: int) -> None:
    assert await world.a.enqueue(None, dedup_key="d", on_duplicate="replace") == job_id


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


@pytest.mark.parametrize("dedup_for", [None, HOUR])
@pytest.mark.parametrize("way", ON)
async def test_job_that_has_not_ended_keeps_its_dedup_key(world: Peers, way: str, dedup_for: float | None) -> None:
    move, key, fields, is_behind = ON[way]
    if is_behind:
        await world.a.enqueue(key, on_dead="halt")
    job_id = await world.a.enqueue(key, dedup_key="d", dedup_for_seconds=dedup_for, **fields)
    await move(world, job_id)
    assert await world.status(job_id) == "pending"
    await world.admin.execute(OVER)  # a live job has it for as long as it lives
    assert await world.a.enqueue(key, dedup_key="d") == job_id
    assert await live(world) == [job_id]
    await world.promises_hold()
    await world.drain()
    assert await world.a.enqueue(key, dedup_key="d") != job_id
    await world.drain()


async def test_requeues_of_many_dead_letters_of_one_dedup_key_make_one_job(world: Peers) -> None:
    ids = [await end(world, "dead") for _ in range(3)]
    plain = await world.a.enqueue(None)
    await run(world, plain, "dead")
    found = await world.admin.fetch("SELECT id FROM asyncjobs.dead_letter_jobs ORDER BY id")
    done, _ = await dead_letters.requeue(world.b.link, [row["id"] for row in found], "me", force=False)
    outcomes = {one.job_id: one.outcome for one in done}
    assert outcomes == dict(zip([*ids, plain], ["requeued", "duplicate", "duplicate", "requeued"], strict=True))
    assert {one.other_id for one in done if one.outcome == "duplicate"} == set(await live(world))
    rest = "SELECT count(*) FROM asyncjobs.dead_letter_jobs WHERE NOT acknowledged AND requeued_as IS NULL"
    assert await world.admin.fetchval(rest) == 2
    await world.drain()


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("way", [retry, requeue])
async def test_enqueue_that_is_not_committed_is_waited_for(
    world: Peers, way: Callable[[Peers, int], Awaitable[Answer]], ends: str
) -> None:
    first = await end(world, "dead")
    await world.a.begin()
    other = await world.a.enqueue_in_transaction(None, dedup_key="d")
    again = spawn(way(world, first))
    await world.waits_for_lock(world.b)
    await (world.a.commit() if ends == "commit" else world.a.rollback())
    answer = await again
    assert (answer.outcome == "duplicate") is (ends == "commit")
    assert await live(world) == [answer.id]
    assert (answer.id == other) is (ends == "commit")
    await world.drain()


@pytest.mark.parametrize("by", ["us", "read_committed", "repeatable_read", "serializable"])
@pytest.mark.parametrize("where", ["plain", "head", "waiting"])
async def test_dedup_key_of_a_job_that_somebody_deleted_is_free(world: Peers, where: str, by: Literal["us"] | Isolation) -> None:
    """Whatever time it has left, and whatever the enqueue says of duplicates."""
    key = None if where == "plain" else "k"
    for on_duplicate in ("return", "replace", "raise"):
        if where == "waiting":
            await world.a.enqueue(key)
        fields: dict[str, Any] = {"dedup_key": f"d {on_duplicate}", "on_duplicate": on_duplicate, "dedup_for_seconds": HOUR}
        first = await world.a.enqueue(key, **fields)
        assert await world.admin.fetchval("DELETE FROM asyncjobs.jobs WHERE id = $1 RETURNING id", first) == first
        if key is not None:
            await serialized.release_ended(world.b.link, first)
        if by == "us":
            second = await world.b.enqueue(key, **fields)
        else:
            await world.b.begin(by)
            second = await world.b.enqueue_in_transaction(key, **fields)
            await world.b.commit()
            await serialized.advance(world.a.link, ["k"], [])
        assert second != first
        fields["on_duplicate"] = "return"
        assert await world.a.enqueue(key, **fields) == second
        await world.drain()


async def test_job_that_is_deleted_while_its_key_is_asked_for_has_it_until_the_commit(world: Peers) -> None:
    first = await world.a.enqueue(None, dedup_key="d")
    async with world.admin.transaction():
        await world.admin.execute("DELETE FROM asyncjobs.jobs WHERE id = $1", first)
        assert await world.a.enqueue(None, dedup_key="d") == first
    assert await world.a.enqueue(None, dedup_key="d") != first
    await world.drain()
