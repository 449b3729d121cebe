"""Dead letters: what is in them, what a requeue makes of them, and that lines, pauses and counts are kept."""

from typing import Any

import pytest

from asyncjobs.model.dead_letter import DeadLetter, DeadLetterVerb
from asyncjobs.store import dead_letters, serialized
from asyncjobs.store.database import Connection
from tests.support.holding import pause_key
from tests.support.peers import Peers, spawn


async def die(pair: Peers, key: str | None = None, /, *, message: str = "no", **fields: Any) -> int:
    """A job that died in its first attempt; its dead letter."""
    job_id = await pair.a.enqueue(key, **fields)
    [job] = [job for job in await pair.a.claim() if job.id == job_id]
    await pair.a.ack(job, "dead", message=message, error={"type": "ValueError", "message": message, "traceback": "File …"})
    return int(await pair.admin.fetchval("SELECT max(id) FROM asyncjobs.dead_letter_jobs"))


async def requeue(pair: Peers, dead_letter_id: int, *, force: bool = False) -> DeadLetterVerb:
    [done], _ = await dead_letters.requeue(pair.b.link, [dead_letter_id], "me", force=force)
    return done


async def row_of(pair: Peers, job_id: int | None) -> Any:
    return await pair.admin.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", job_id)


async def dead_letter(pair: Peers, dead_letter_id: int) -> DeadLetter:
    [found] = await dead_letters.by_ids(pair.a.link, [dead_letter_id])
    return found


async def test_dead_letter_shows_the_job_as_it_was_with_its_errors(pair: Peers) -> None:
    dead_letter_id = await die(
        pair, payload={"to": "a"}, priority=7, lane="fast", correlation_id="c", dedup_key="d", timeout_seconds=90.0
    )
    [dead_letter] = await dead_letters.by_ids(pair.a.link, [dead_letter_id])
    job = await dead_letters.job(pair.a.link, dead_letter)
    assert (job.payload, job.priority, job.lane, job.status, job.attempts) == ({"to": "a"}, 7, "fast", "dead", 1)
    assert (job.correlation_id, job.dedup_key, job.timeout and job.timeout.total_seconds()) == ("c", "d", 90.0)
    [error] = job.errors
    assert (error["type"], error["message"], error["traceback"]) == ("ValueError", "no", "File …")
    assert await dead_letters.by_ids(pair.a.link, [999]) == []


async def test_requeued_job_is_the_same_work_under_a_new_id(pair: Peers) -> None:
    fields: dict[str, Any] = {
        "payload": {"to": "a"}, "priority": 7, "lane": "fast", "correlation_id": "c", "max_attempts": 5, "timeout_seconds": 90.0,
        "parent_job_id": 12, "version": 3, "trace_context": "t",
    }  # fmt: skip
    await pair.admin.execute("UPDATE asyncjobs.runners SET versions = '{\"email\": 3}'")
    dead_letter_id = await die(pair, **fields, dedup_key="d")
    done = await requeue(pair, dead_letter_id)
    assert (done.outcome, done.new_status) == ("requeued", "pending")
    old, new = await row_of(pair, done.job_id), await row_of(pair, done.new_id)
    same = (
        "type",
        "queue",
        "lane",
        "payload",
        "priority",
        "max_attempts",
        "timeout",
        "correlation_id",
        "parent_job_id",
        "version",
    )
    assert {name: new[name] for name in same} == {name: old[name] for name in same}
    assert (new["dedup_key"], new["attempts"], new["requeued_from"], new["created_by"]) == ("d", 0, old["id"], "me")
    found = await dead_letter(pair, dead_letter_id)
    assert (found.requeued_as, found.requeue_count, found.acknowledged, found.acknowledged_by) == (new["id"], 1, True, "me")
    assert await pair.drain() == [new["id"]]
    await pair.promises_hold()


async def test_second_requeue_needs_force(pair: Peers) -> None:
    dead_letter_id = await die(pair)
    first = await requeue(pair, dead_letter_id)
    again = await requeue(pair, dead_letter_id)
    assert (again.outcome, again.new_id) == ("requeued before", first.new_id)
    forced = await requeue(pair, dead_letter_id, force=True)
    assert forced.outcome == "requeued"
    assert forced.new_id != first.new_id
    found = await dead_letter(pair, dead_letter_id)
    assert (found.requeued_as, found.requeue_count) == (forced.new_id, 2)
    assert await pair.drain() == [first.new_id, forced.new_id]


async def test_two_requeues_at_once_make_one_job(pair: Peers) -> None:
    dead_letter_id = await die(pair, "k")
    await pair.a.begin()
    [first], _ = await dead_letters.requeue(pair.a.link, [dead_letter_id], "a", force=False)
    second = spawn(requeue(pair, dead_letter_id))
    await pair.waits_for_lock(pair.b)
    await pair.a.commit()
    assert (first.outcome, (await second).outcome) == ("requeued", "requeued before")
    assert await pair.drain() == [first.new_id]


async def test_poison_that_is_requeued_does_not_loop_and_its_count_goes_on(pair: Peers) -> None:
    dead_letter_id = await die(pair)
    for count in range(1, 4):
        done = await requeue(pair, dead_letter_id)
        job = await pair.a.claim_one()
        assert job.requeued_from == done.job_id
        await pair.a.ack(job, "dead", message="no")
        assert await pair.drain() == []  # nothing comes back by itself
        [newest, *_] = (await dead_letters.find(pair.a.link, {})).dead_letters
        assert (newest.job_id, newest.requeue_count, newest.acknowledged) == (done.new_id, count, False)
        dead_letter_id = newest.id


async def test_count_goes_on_when_a_job_is_started_over(pair: Peers) -> None:
    dead_letter_id = await die(pair)
    job_id = (await dead_letter(pair, dead_letter_id)).job_id
    await serialized.retry(pair.b.link, job_id, "me")
    await pair.a.ack(await pair.a.claim_one(), "dead", message="no")
    [newest, *_] = (await dead_letters.find(pair.a.link, {})).dead_letters
    assert (newest.job_id, newest.requeue_count) == (job_id, 1)


async def test_keyed_work_goes_to_the_end_of_its_line(pair: Peers) -> None:
    dead_letter_id = await die(pair, "k")
    head, behind = await pair.a.enqueue(), await pair.a.enqueue()
    done = await requeue(pair, dead_letter_id)
    assert done.new_status == "waiting"
    assert await pair.line() == [(head, "pending"), (behind, "waiting"), (done.new_id, "waiting")]
    assert await pair.drain() == [head, behind, done.new_id]
    assert (await row_of(pair, done.new_id))["requeued_from"] == done.job_id
    await pair.promises_hold()


async def test_keyed_work_of_an_idle_key_is_its_head_at_once(pair: Peers) -> None:
    dead_letter_id = await die(pair, "k")
    done = await requeue(pair, dead_letter_id)
    assert (done.new_status, await pair.line()) == ("pending", [(done.new_id, "pending")])
    await pair.drain()


async def test_work_waits_behind_the_head_that_halted_its_key(pair: Peers) -> None:
    dead_letter_id = await die(pair, "k", on_dead="halt")
    done = await requeue(pair, dead_letter_id)
    assert (done.new_status, await pair.line()) == ("waiting", [(done.job_id, "halted"), (done.new_id, "waiting")])
    await serialized.release_key(pair.b.link, "k")
    assert await pair.drain() == [done.new_id]


async def test_jobs_of_a_key_are_requeued_in_the_order_of_their_deaths(pair: Peers) -> None:
    ids = [await die(pair, "k") for _ in range(4)]
    done, queues = await dead_letters.requeue(pair.b.link, list(reversed(ids)), "me", force=False)
    assert queues == ["default"]
    by_dead_letter = {one.dead_letter_id: one.new_id for one in done}
    assert await pair.drain() == [by_dead_letter[dead_letter_id] for dead_letter_id in ids]


@pytest.mark.parametrize("kind", ["type", "queue"])
async def test_work_of_a_paused_type_or_queue_rests(pair: Peers, kind: str) -> None:
    ids = [await die(pair), await die(pair, "k")]
    name = "email" if kind == "type" else "default"
    await pair.admin.execute("INSERT INTO asyncjobs.pauses (kind, name) VALUES ($1, $2)", kind, name)
    done, queues = await dead_letters.requeue(pair.b.link, ids, "me", force=False)
    assert {one.new_status for one in done} == {"paused" if kind == "type" else "pending"}
    assert queues == ([] if kind == "type" else ["default"])
    assert await pair.drain() == []


async def test_work_of_a_paused_key_waits(pair: Peers) -> None:
    dead_letter_id = await die(pair, "k")
    await pause_key(pair.a.link, "k", None, None)
    done = await requeue(pair, dead_letter_id)
    assert done.new_status == "waiting"
    await serialized.resume_key(pair.a.link, "k")
    assert await pair.drain() == [done.new_id]


async def test_dead_letters_that_are_not_there_are_missing_from_the_answer(pair: Peers) -> None:
    dead_letter_id = await die(pair)
    done, _ = await dead_letters.requeue(pair.b.link, [dead_letter_id, 999], "me", force=False)
    assert [one.dead_letter_id for one in done] == [dead_letter_id]
    assert [one.dead_letter_id for one in await dead_letters.acknowledge(pair.b.link, [dead_letter_id, 999], "you")] == [
        dead_letter_id
    ]
    await pair.drain()


async def test_acknowledged_dead_letter_keeps_who_was_first(pair: Peers) -> None:
    dead_letter_id = await die(pair)
    [first] = await dead_letters.acknowledge(pair.b.link, [dead_letter_id], "me")
    [second] = await dead_letters.acknowledge(pair.b.link, [dead_letter_id], "you")
    assert (first.outcome, first.by) == ("acknowledged", "me")
    assert (second.outcome, second.by) == ("acknowledged before", "me")


async def test_filters(pair: Peers) -> None:
    first = await die(pair, "k", message="Time-out of db", correlation_id="c1")
    second = await die(pair, "l", message="No")
    await dead_letters.acknowledge(pair.b.link, [second], "me")
    middle = await pair.admin.fetchval("SELECT died_at FROM asyncjobs.dead_letter_jobs WHERE id = $1", second)

    async def found(**which: Any) -> list[int]:
        return [one.id for one in (await dead_letters.find(pair.a.link, which)).dead_letters]  # type: ignore[arg-type]

    assert await found() == [second, first]
    assert await found(key="k") == await found(correlation_id="c1") == await found(error="TIME-OUT") == [first]
    assert await found(acknowledged=True) == await found(died_after=middle) == [second]
    assert await found(acknowledged=False) == await found(died_before=middle) == [first]
    assert await found(type="email", queue="default") == [second, first]
    assert await found(type="report") == await found(queue="x") == await found(error="%") == []
    assert [one.id for one in (await dead_letters.find(pair.a.link, {}, before=second, limit=1)).dead_letters] == [first]


async def test_dead_letter_that_a_stranger_holds_is_not_waited_for_long(pair: Peers, connection: Connection) -> None:
    dead_letter_id = await die(pair)
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.dead_letter_jobs FOR UPDATE")
        with pytest.raises(Exception, match="lock timeout"):
            await requeue(pair, dead_letter_id)
    assert (await requeue(pair, dead_letter_id)).outcome == "requeued"
    await pair.drain()
