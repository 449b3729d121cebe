"""How the server goes about claims and acks: by the index made for it, whatever the statistics say and however many rows.

The plans are those of the statements inside the functions, as auto_explain tells them.
"""

import re
from collections.abc import AsyncGenerator

import pytest

from asyncjobs.model.claim import Scan
from asyncjobs.store import jobs
from asyncjobs.store.database import Connection
from tests.support.claims import Claims, an_ack
from tests.support.peers import Peer
from tests.support.plans import Plans, check, check_places

FILL = """
INSERT INTO asyncjobs.jobs (enqueue_token, type, lane, status, run_at, completed_at, started_at, runner_id, claim_token,
    dedup_key)
SELECT 0, 'email', CASE n % 3 WHEN 0 THEN 'fast' END, s.status, now() + interval '1 hour',
    CASE WHEN s.status = 'completed' THEN now() END, CASE WHEN s.status = 'processing' THEN now() END,
    CASE WHEN s.status = 'processing' THEN 99 END, CASE WHEN s.status = 'processing' THEN n END, NULL
FROM generate_series(1, 1000) AS n CROSS JOIN
    unnest(ARRAY['pending', 'pending', 'pending', 'completed', 'completed', 'scheduled', 'paused', 'processing']) AS s(status)
"""


@pytest.fixture
async def plans(claims: Claims) -> Plans:
    return await Plans(claims).watch()


@pytest.fixture(params=["plans of an empty table", "no statistics", "statistics"])
async def filled(request: pytest.FixtureRequest, plans: Plans, connection: Connection) -> AsyncGenerator[Plans]:
    """8,000 jobs in every status, met with plans that were made before, and with and without statistics."""
    if request.param == "plans of an empty table":
        for _ in range(7):  # later than the sixth nothing is planned anew
            await plans.claims.claim(10)
            await plans.claims.ack(an_ack(await plans.claims.claim_one()))
            await connection.execute("DELETE FROM asyncjobs.jobs")
        await connection.execute("ANALYZE asyncjobs.jobs")
    await connection.execute(FILL)
    if request.param == "statistics":
        await connection.execute("ANALYZE asyncjobs.jobs")
    plans.forget()
    yield plans
    await connection.execute("TRUNCATE asyncjobs.jobs")


def claim_from(condition: str) -> str:
    """The beginning of the statement that finds the rows of a claim."""
    return f"_picked := ARRAY(SELECT j.ctid FROM asyncjobs.jobs AS j WHERE {condition}"


QUEUE = "hashtext(j.queue) = hashtext(_queue) AND j.queue = _queue AND j.status = 'pending' AND j.limit_key IS NULL AND "
GENERAL = claim_from(QUEUE + "(")
LANE = claim_from("asyncjobs.limit_side(j.status) = 0")
SUSPECTS = claim_from(QUEUE + "j.suspicion > 0")


async def test_claims_go_to_the_rows_that_were_locked_and_outcomes_by_primary_key(filled: Plans) -> None:
    for count in (10, 50, 500, 10):
        filled.forget()
        claimed = await filled.claims.claim(count)
        assert len(claimed) == count
        finished = await filled.claims.ack(*(an_ack(job) for job in claimed))
        assert finished.lost == []
        [plan] = filled.take("WITH acked AS")
        check(plan, "jobs_pkey")
        for plan in filled.take("UPDATE asyncjobs.jobs AS j SET status = 'processing'"):
            check_places(plan)


async def test_busy_runners_claims_and_outcomes_go_the_same_way(filled: Plans) -> None:
    mine = Peer(filled.claims.link, 1)
    done = await mine.claim(10)
    for count in (10, 50, 500, 10):
        filled.forget()
        finished = await mine.complete_all(done, limit=count, suspects=True)
        assert (len(finished.claimed), finished.lost) == (count, [])
        [plan] = filled.take("WITH acked AS")
        check(plan, "jobs_pkey")
        [plan] = filled.take("SELECT EXISTS (SELECT FROM asyncjobs.pauses)")
        assert re.search(r"using jobs_claim on jobs j .*loops=1", plan), plan
        [plan] = filled.take("_picked := ARRAY(SELECT")
        check(plan, "jobs_claim")
        [plan] = filled.take("UPDATE asyncjobs.jobs AS j SET status = 'processing'")
        check_places(plan)
        done = finished.claimed


async def test_scans_read_the_rows_that_they_take(filled: Plans) -> None:
    for count in (10, 500, 50):
        filled.forget()
        scans = [Scan("default", "fast", count), Scan("default", None, count)]
        finished = await filled.claims.finish(scans=scans)
        assert len(finished.claimed) == 2 * count
        for beginning, index in ((GENERAL, "jobs_claim"), (LANE, "jobs_claim_apart"), (SUSPECTS, "jobs_claim")):
            for plan in filled.take(beginning):
                check(plan, index)


async def test_scan_from_behind_does_not_read_what_is_before(filled: Plans) -> None:
    ahead = (await filled.claims.claim(500, suspects=False))[-1]
    await filled.claims.connection.execute("UPDATE asyncjobs.jobs SET status = 'pending' WHERE runner_id = 1")
    filled.forget()
    await filled.claims.claim(10, start=(ahead.priority, ahead.place), suspects=False)
    [plan] = filled.take(GENERAL)
    check(plan, "jobs_claim")


async def test_reading_back_and_giving_back_go_by_what_is_in_flight(filled: Plans) -> None:
    claimed = await filled.claims.claim(50)
    filled.forget()
    await jobs.still_processing(filled.claims.link, [an_ack(job) for job in claimed])
    [plan] = filled.take_textless()
    check(plan, "jobs_pkey")
    await filled.claims.give_back([claimed[0].id])
    [plan] = filled.take("_stray := ARRAY")
    assert "on jobs_runner" in plan or "using jobs_runner" in plan
    assert "Seq Scan" not in plan
