"""Claims: what they take, in which order, under which token, and what they hold meanwhile."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from asyncjobs.model.claim import Claimed, Probe, Scan
from asyncjobs.store import runners
from asyncjobs.store.database import Connection, Database
from tests.support.claims import SUSPECT, Claims, an_ack
from tests.support.eventually import eventually
from tests.support.factories import insert, insert_job, insert_runner


def ids(claimed: list[Claimed]) -> list[int]:
    return [job.id for job in claimed]


async def pending(claims: Claims, count: int = 1, **columns: Any) -> list[int]:
    return [await insert_job(claims.connection, **columns) for _ in range(count)]


@asynccontextmanager
async def another_session(database: Database) -> AsyncGenerator[Connection]:
    connection = await asyncpg.connect(database.dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def test_claim_makes_a_job_the_runners_and_counts_the_attempt(claims: Claims) -> None:
    [job_id] = await pending(claims, error_message="of before", last_error="E")
    [job] = await claims.claim()
    row = await claims.row(job_id)
    assert (row["status"], row["attempts"], row["runner_id"], row["claim_token"]) == ("processing", 1, 1, job.token)
    assert (row["error_message"], row["last_error"]) == (None, "E")
    assert row["started_at"] is not None


async def test_queues_whose_numbers_are_the_same_are_claimed_apart(claims: Claims) -> None:
    """The index of the claim has a number for each queue, which two may share."""
    connection = claims.connection
    a, b = await connection.fetchval(
        """SELECT array_agg(q.name) FROM (SELECT 'queue-' || n AS name FROM generate_series(1, 300000) AS n) AS q
           GROUP BY hashtext(q.name) HAVING count(*) > 1 LIMIT 1"""
    )
    of_a, of_b = await pending(claims, 2, queue=a), await pending(claims, 3, queue=b)
    suspects = [*await pending(claims, queue=a, **SUSPECT), *await pending(claims, queue=b, **SUSPECT)]
    assert sorted(ids(await claims.claim(queue=a))) == sorted([*of_a, suspects[0]])
    own = await claims.finish(scans=[Scan(b, None, 2)], suspects=False)
    assert ids(own.claimed) == of_b[:2]
    assert sorted(ids(await claims.claim(queue=b))) == sorted([of_b[2], suspects[1]])


async def test_each_claim_of_a_row_gets_a_number_of_its_own_behind_the_runners_base(claims: Claims) -> None:
    await pending(claims, 3)
    claimed = await claims.claim(token_seq=7)
    assert sorted(job.token - (5 << 32) for job in claimed) == [8, 9, 10]
    await claims.give_back([])
    again = await claims.claim(token_seq=10)
    assert sorted(job.token - (5 << 32) for job in again) == [11, 12, 13]


async def test_numbers_go_on_from_scan_to_scan_and_wrap_within_their_32_bits(claims: Claims) -> None:
    for queue in ("a", "b"):
        await pending(claims, 2, queue=queue)
    finished = await claims.finish(scans=[Scan("a", None, 2), Scan("b", None, 2)], token_seq=2**32 - 2)
    assert sorted(job.token - (5 << 32) for job in finished.claimed) == [0, 1, 2, 2**32 - 1]


async def test_best_priority_goes_first_then_place(claims: Claims) -> None:
    late, normal, urgent = [(await pending(claims, priority=priority))[0] for priority in (200, 100, 5)]
    again = (await pending(claims, priority=100))[0]
    assert ids(await claims.claim(3)) == [urgent, normal, again]
    assert ids(await claims.claim(3)) == [late]


async def test_claims_no_more_than_asked_for_and_locks_no_more(claims: Claims, database: Database) -> None:
    await pending(claims, 5)
    async with claims.connection.transaction(), another_session(database) as other:
        await claims.connection.fetch(
            "SELECT id FROM asyncjobs.claim(1, 'default', NULL, 2, -1, -1, ARRAY['email'], false, 5, 0)"
        )
        free = await other.fetch("SELECT id FROM asyncjobs.jobs WHERE status = 'pending' FOR UPDATE SKIP LOCKED")
        assert len(free) == 3


async def test_only_types_that_are_served_are_claimed(claims: Claims) -> None:
    await pending(claims, 3, type="unknown")
    known = await pending(claims, 2)
    assert ids(await claims.claim(2)) == known
    assert await claims.claim() == []


async def test_only_the_queue_that_is_asked_for_is_claimed(claims: Claims) -> None:
    await pending(claims, 1, queue="mail")
    assert await claims.claim() == []


async def test_lane_takes_its_own_jobs_and_general_slots_take_any(claims: Claims) -> None:
    [plain], [first], [second] = [await pending(claims, lane=lane) for lane in (None, "fast", "fast")]
    finished = await claims.finish(scans=[Scan("default", "fast", 1), Scan("default", None, 2)])
    assert {job.scan: ids([j for j in finished.claimed if j.scan == job.scan]) for job in finished.claimed} == {
        1: [first], 2: [plain, second],
    }  # fmt: skip


async def test_scan_from_behind_a_row_leaves_what_is_before_it(claims: Claims) -> None:
    [early] = await pending(claims)
    [job] = await claims.claim(1)
    [better] = await pending(claims, priority=1)
    behind = await pending(claims, 2)
    await claims.give_back([])  # `early` gets a new place: the last
    assert ids(await claims.claim(2, start=(job.priority, job.place))) == behind
    assert ids(await claims.claim(2)) == [better, early]


async def test_rows_that_another_claim_holds_are_skipped(claims: Claims, database: Database) -> None:
    first, second = await pending(claims, 2)
    async with another_session(database) as other, other.transaction():
        await other.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", first)
        assert ids(await claims.claim()) == [second]
    assert ids(await claims.claim()) == [first]


async def test_suspect_comes_alone(claims: Claims) -> None:
    suspects = await pending(claims, 3, attempts=1, **SUSPECT)
    harmless = await pending(claims, 2)
    claimed = await claims.claim(10)
    assert sorted(ids(claimed)) == [suspects[0], *harmless]
    assert await claims.claim(10, suspects=False) == []


async def test_suspect_comes_alone_whatever_the_number_of_scans(claims: Claims) -> None:
    await pending(claims, 2, attempts=1, lane="fast", **SUSPECT)
    await pending(claims, 2, attempts=1, queue="mail", **SUSPECT)
    finished = await claims.finish(scans=[Scan("default", "fast", 5), Scan("default", None, 5), Scan("mail", None, 5)])
    assert len(finished.claimed) == 1


async def test_suspect_counts_towards_the_limit(claims: Claims) -> None:
    await pending(claims, 1, attempts=1, **SUSPECT)
    await pending(claims, 3)
    assert len(await claims.claim(2)) == 2


@pytest.mark.parametrize(("kind", "name"), [("queue", "default"), ("type", "email")])
async def test_what_is_paused_is_not_claimed(claims: Claims, kind: str, name: str) -> None:
    await pending(claims)
    await insert(claims.connection, "pauses", kind=kind, name=name)
    assert await claims.claim() == []
    await claims.connection.execute("DELETE FROM asyncjobs.pauses")
    assert len(await claims.claim()) == 1


async def test_runner_that_is_gone_claims_nothing_and_is_told(claims: Claims) -> None:
    [job_id] = await pending(claims)
    await claims.connection.execute("DELETE FROM asyncjobs.runners")
    finished = await claims.finish(scans=[Scan("default", None, 5)])
    assert (finished.gone, finished.claimed) == (True, [])
    assert (await claims.row(job_id))["status"] == "pending"


async def test_runner_that_is_gone_still_writes_outcomes_and_tells_of_heads(claims: Claims) -> None:
    job = await claims.claim_one()
    await claims.connection.execute("DELETE FROM asyncjobs.runners")
    finished = await claims.finish([an_ack(job, "interrupted")], [Scan("default", None, 5)])
    assert (finished.gone, finished.lost, finished.heads) == (True, [], ["default"])


async def test_runner_cannot_be_declared_dead_while_its_claim_is_under_way(claims: Claims, database: Database) -> None:
    await pending(claims)
    link = database.link("duties")
    async with another_session(database) as other:
        async with other.transaction():
            await other.fetch(
                "SELECT kind FROM asyncjobs.finish(1, NULL, NULL, NULL, NULL, 10,"
                " ARRAY['default'], ARRAY[NULL], ARRAY[5], ARRAY[5], ARRAY[-1], ARRAY[-1::bigint],"
                " ARRAY['email'], ARRAY[true], 9, 0, NULL)"
            )
            assert await runners.bury(link, {1: 0}) == {}
            leaving = asyncio.create_task(claims.connection.execute("DELETE FROM asyncjobs.runners WHERE id = 1"))
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            await eventually(lambda: other.fetchval(waiting), description="the deletion waits for the claim")
        await leaving
        assert await runners.bury(link, {1: 0}) == {}
        rescued = await runners.rescue(link, 10, max_errors=10)
        assert len(rescued.ids) == 1, "the claim is seen by whoever deleted its runner"
    await link.close()


async def test_two_runners_never_claim_the_same_job(claims: Claims, database: Database) -> None:
    await pending(claims, 200)
    await insert_runner(claims.connection, id=2)
    link = database.link("finish")
    other = Claims(link, claims.connection, runner_id=2, token_base=6)
    found: list[int] = []

    async def claim_all(runner: Claims) -> None:
        while claimed := await runner.claim(7):
            found.extend(ids(claimed))

    await asyncio.gather(claim_all(claims), claim_all(other))
    found += ids(await claims.claim(200))
    assert len(found) == len(set(found)) == 200
    await link.close()


async def test_outcomes_and_a_bulk_update_in_the_same_order_never_deadlock(claims: Claims, database: Database) -> None:
    await pending(claims, 60)
    async with another_session(database) as other:
        for _ in range(15):
            claimed = await claims.claim(60)
            outcomes = [an_ack(job, "interrupted") for job in sorted(claimed, key=lambda job: -job.id)]
            bulk = (
                "WITH o AS MATERIALIZED (SELECT id FROM asyncjobs.jobs WHERE status = 'processing' ORDER BY id FOR UPDATE)"
                " UPDATE asyncjobs.jobs AS j SET updated_at = now() FROM o WHERE j.id = o.id"
            )
            await asyncio.gather(claims.ack(*outcomes), other.execute(bulk))


# Probes: some jobs of types whose circuit breaker lets a few calls through.


async def test_of_probes_no_more_are_claimed_than_allowed_over_all_scans_and_first(claims: Claims) -> None:
    for queue in ("a", "b"):
        for type in ("dead_letter", "parcel", "email"):
            for _ in range(2):
                await insert_job(claims.connection, queue=queue, type=type)
    finished = await claims.finish(
        scans=[Scan("a", None, 2), Scan("b", None, 4)], probes=[Probe(("dead_letter", "parcel"), 3), Probe(("unknown",), 5)]
    )
    assert [(job.queue, job.type) for job in finished.claimed] == [
        ("a", "dead_letter"),
        ("a", "dead_letter"),
        ("b", "dead_letter"),
        ("b", "email"),
        ("b", "email"),
    ]
    assert len({job.token for job in finished.claimed}) == 5
    await claims.end_all()


async def test_probes_come_from_the_front_wherever_the_scan_starts(claims: Claims) -> None:
    old = await insert_job(claims.connection, type="dead_letter", place=5)
    new = await insert_job(claims.connection, place=50)
    finished = await claims.finish(scans=[Scan("default", None, 5, (100, 40))], probes=[Probe(("dead_letter",), 1)])
    assert [job.id for job in finished.claimed] == [old, new]
    await claims.end_all()


async def test_a_suspect_may_be_a_probe_and_a_paused_type_is_none(claims: Claims) -> None:
    suspect = await insert_job(claims.connection, type="dead_letter", **SUSPECT)
    await insert_job(claims.connection, type="parcel")
    await claims.connection.execute("INSERT INTO asyncjobs.pauses (kind, name) VALUES ('type', 'parcel')")
    finished = await claims.finish(scans=[Scan("default", None, 5)], probes=[Probe(("dead_letter", "parcel"), 5)])
    assert [job.id for job in finished.claimed] == [suspect]
    await claims.end_all()


PLANNERS = ("", "SET enable_hashjoin = off; SET enable_mergejoin = off", "SET enable_nestloop = off; SET enable_hashjoin = off")


@pytest.mark.parametrize("planner", PLANNERS)
async def test_claims_no_more_than_asked_for_however_it_is_planned(claims: Claims, planner: str) -> None:
    await claims.connection.execute(
        "INSERT INTO asyncjobs.jobs (enqueue_token, type) SELECT 0, 'email' FROM generate_series(1, 2000)"
    )
    if planner:
        await (await claims.link.connection()).execute(planner)
    link = claims.link.database.link("finish")
    other = Claims(link, claims.connection, token_base=7)
    found: list[int] = []
    for _ in range(20):
        for claimed in await asyncio.gather(claims.claim(3), other.claim(3)):
            assert len(claimed) == 3
            found.extend(ids(claimed))
    assert len(set(found)) == len(found) == 120
    await link.close()
    await claims.end_all()
