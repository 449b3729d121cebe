"""All ends look alike: whatever ended a job, its row, history, dead letter, dedup key, line, news and retention are the same.

A job with a dedup key and the key of a line ends, in each way there is, with another of its line behind it.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from asyncjobs.model.outcome import OutcomeKind
from asyncjobs.model.request import Wanted
from asyncjobs.store import dead_letters, due, finding, pruning, runners, serialized
from asyncjobs.store.pruning import Keep
from tests.support.peers import Peers
from tests.support.rows import each

REASON: Final = "over"
#: What is expired says so.
EXPIRED: Final = "expired"


class End(NamedTuple):
    """A job that has ended, and the queues that were told of a job that is pending now."""

    job_id: int
    told: list[str]
    reason: str = REASON


Way = Callable[[Peers], Awaitable[End]]


async def a_job(pair: Peers, **options: Any) -> int:
    """The one that ends, with another behind it."""
    job_id = await pair.a.enqueue("k", dedup_key="d", **options)
    await pair.b.enqueue("k")
    return job_id


def ack(kind: OutcomeKind) -> Way:
    async def way(pair: Peers) -> End:
        job_id = await a_job(pair)
        error = {"type": "Dead", "message": REASON, "attempt": 1} if kind == "dead" else None
        finished = await pair.a.ack(await pair.a.claim_one(), kind, message=REASON, error=error)
        return End(job_id, finished.heads)

    return way


def verb(wanted: Wanted) -> Way:
    async def way(pair: Peers) -> End:
        job_id = await a_job(pair)
        return End(job_id, (await serialized.end(pair.b.link, job_id, wanted, REASON)).queues)

    return way


def verb_on_many(wanted: Wanted) -> Way:
    async def way(pair: Peers) -> End:
        job_id = await a_job(pair)
        return End(job_id, (await finding.end_many(pair.b.link, [job_id], wanted, REASON, 10))[job_id].queues)

    return way


def verb_in_line(wanted: Wanted) -> Way:
    async def way(pair: Peers) -> End:
        head = await pair.a.enqueue("k")
        job_id = await a_job(pair)
        told = (await serialized.end(pair.b.link, job_id, wanted, REASON)).queues
        assert told == [], "the line has its head"
        return End(job_id, (await serialized.cancel(pair.b.link, head, REASON)).queues)

    return way


def verb_while_it_ran(wanted: Wanted) -> Way:
    async def way(pair: Peers) -> End:
        job_id = await a_job(pair)
        claimed = await pair.a.claim_one()
        await serialized.end(pair.b.link, job_id, wanted, REASON)
        return End(job_id, (await pair.a.ack(claimed, "interrupted")).heads)

    return way


def verb_and_its_runner_died(wanted: Wanted) -> Way:
    async def way(pair: Peers) -> End:
        job_id = await a_job(pair)
        await pair.a.claim_one()
        await serialized.end(pair.b.link, job_id, wanted, REASON)
        return End(job_id, await _rescued(pair))

    return way


async def runner_died_in_the_last_attempt(pair: Peers) -> End:
    job_id = await a_job(pair, max_attempts=1)
    await pair.a.claim_one()
    return End(job_id, await _rescued(pair), "runner 1 was lost during attempt 1 of 1")


async def _rescued(pair: Peers) -> list[str]:
    await pair.admin.execute("DELETE FROM asyncjobs.runners WHERE id = 1")
    return (await runners.rescue(pair.b.link, 10, max_errors=10)).queues


async def purge(pair: Peers) -> End:
    head = await pair.a.enqueue("k")
    job_id = await pair.a.enqueue("k", dedup_key="d")
    assert await serialized.purge_key(pair.b.link, "k", REASON, 10) == ([job_id], head)
    await pair.b.enqueue("k")
    return End(job_id, (await serialized.cancel(pair.b.link, head, REASON)).queues)


async def claim_of_what_expired(pair: Peers) -> End:
    job_id = await a_job(pair, expires_seconds=60.0)
    await _late(pair, job_id)
    finished = await pair.a.finish(limit=5)
    assert finished.expired == [(job_id, "email")]
    return End(job_id, finished.heads, EXPIRED)


async def promotion_of_what_expired(pair: Peers) -> End:
    job_id = await a_job(pair, expires_seconds=60.0)
    await _late(pair, job_id)
    promoted, _ = await due.promote(pair.b.link, 10)
    assert promoted.expired == [(job_id, "email")]
    return End(job_id, [*promoted.queues], EXPIRED)


async def promotion_of_what_expired_in_line(pair: Peers) -> End:
    head = await pair.a.enqueue("k")
    job_id = await a_job(pair, expires_seconds=60.0)
    await _late(pair, job_id)
    promoted = await due.promote_keyed(pair.b.link, ["k"], 10)
    assert promoted is not None
    assert (promoted.expired, promoted.queues) == ([(job_id, "email")], [])
    return End(job_id, (await serialized.cancel(pair.b.link, head, REASON)).queues, EXPIRED)


async def _late(pair: Peers, job_id: int) -> None:
    await pair.admin.execute("UPDATE asyncjobs.jobs SET start_before = now() - interval '1 s' WHERE id = $1", job_id)


CANCELLED: dict[str, Way] = {
    "ack": ack("cancel"),
    "verb": verb("cancel"),
    "verb on many": verb_on_many("cancel"),
    "verb in line": verb_in_line("cancel"),
    "verb while it ran": verb_while_it_ran("cancel"),
    "verb, and its runner died": verb_and_its_runner_died("cancel"),
    "purge": purge,
    "claim of what expired": claim_of_what_expired,
    "promotion of what expired": promotion_of_what_expired,
    "promotion of what expired in line": promotion_of_what_expired_in_line,
}
DEAD: dict[str, Way] = {
    "ack": ack("dead"),
    "verb": verb("dead"),
    "verb on many": verb_on_many("dead"),
    "verb in line": verb_in_line("dead"),
    "verb while it ran": verb_while_it_ran("dead"),
    "verb, and its runner died": verb_and_its_runner_died("dead"),
    "its runner died in the last attempt": runner_died_in_the_last_attempt,
}
ENDS = [("cancelled", name, way) for name, way in CANCELLED.items()] + [("dead", name, way) for name, way in DEAD.items()]


@each(("status", "name", "way"), ENDS)
async def test_ends_look_alike(pair: Peers, status: str, name: str, way: Way) -> None:
    end = await way(pair)
    row = await pair.admin.fetchrow(
        "SELECT *, completed_at BETWEEN now() - interval '1 min' AND now() AS is_dated FROM asyncjobs.jobs WHERE id = $1",
        end.job_id,
    )
    assert row is not None
    assert (row["status"], row["error_message"], row["is_dated"], row["runner_id"]) == (status, end.reason, True, None)
    assert row["updated_at"] >= row["completed_at"]
    assert end.told == ["default"], "where the next of its line became pending"
    assert [state for _, state in await pair.line()] == ["pending"], "the line goes on, without it"
    assert await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.dedup_keys") == 0
    letters = await pair.admin.fetch("SELECT * FROM asyncjobs.dead_letter_jobs WHERE job_id = $1", end.job_id)
    assert len(letters) == (status == "dead")
    for letter in letters:
        errors = json.loads(row["errors"])
        assert {"at", "attempt", "type", "message"} <= errors[-1].keys()
        assert (letter["error_message"], letter["died_at"]) == (end.reason, row["completed_at"])
        assert json.loads(letter["error_details"]) == {"attempts": row["attempts"], "errors": errors}
    await pair.promises_hold()
    await _kept(pair, end.job_id, letters)


async def _kept(pair: Peers, job_id: int, letters: list[Any]) -> None:
    """It is kept for as long as its kind is, and then deleted."""
    await pair.admin.execute("UPDATE asyncjobs.jobs SET completed_at = completed_at - interval '2 h' WHERE id = $1", job_id)
    await dead_letters.acknowledge(pair.b.link, [letter["id"] for letter in letters], "me")
    await pair.admin.execute("UPDATE asyncjobs.dead_letter_jobs SET acknowledged_at = acknowledged_at - interval '2 h'")
    for hours, left in ((3, 1), (1, 0)):
        keep = Keep(completed=0, cancelled=hours * 3600, dead_letters=hours * 3600, runners=1e6)
        (await pruning.prune(pair.b.link, keep, 100)).check()
        assert await pair.admin.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE id = $1", job_id) == left


async def test_a_job_that_an_operators_sql_took_back_has_no_runner_when_it_has_ended(pair: Peers) -> None:
    job_id = await a_job(pair)
    await pair.a.claim_one()
    await pair.admin.execute("UPDATE asyncjobs.jobs SET status = 'pending', started_at = NULL WHERE id = $1", job_id)
    await serialized.cancel(pair.b.link, job_id, REASON)
    assert await pair.admin.fetchval("SELECT runner_id FROM asyncjobs.jobs WHERE id = $1", job_id) is None
