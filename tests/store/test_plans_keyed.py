"""How the server goes about the calls that let keys and dedup keys go on, and about requests: by the indexes made for them."""

import re
from collections.abc import AsyncGenerator

import pytest

from asyncjobs.store import jobs, requests
from asyncjobs.store.database import Connection
from tests.support.claims import Claims, an_ack
from tests.support.plans import Plans, removed

#: 600 keys with 5 jobs each, whose heads are dispatched and have dedup keys.
FILL = """
INSERT INTO asyncjobs.serialized_jobs (id, place, serialization_key, dispatched_at)
SELECT n, n, 'k' || n % 600, CASE WHEN n <= 600 THEN now() END FROM generate_series(1, 3000) AS n;
INSERT INTO asyncjobs.jobs (enqueue_token, id, type, serialization_key, dedup_key, status)
SELECT 0, n, 'email', 'k' || n % 600, 'd' || n, CASE WHEN n <= 600 THEN 'pending' ELSE 'waiting' END
FROM generate_series(1, 3000) AS n;
INSERT INTO asyncjobs.dedup_keys (type, dedup_key, job_id) SELECT 'email', 'd' || n, n FROM generate_series(1, 3000) AS n
"""
TABLES = "asyncjobs.jobs, asyncjobs.serialized_jobs, asyncjobs.dedup_keys"


@pytest.fixture(params=["plans of an empty table", "no statistics", "statistics"])
async def filled(request: pytest.FixtureRequest, claims: Claims, connection: Connection) -> AsyncGenerator[Plans]:
    """It is met with plans that were made before, and with and without statistics."""
    plans = await Plans(claims).watch()
    if request.param == "plans of an empty table":
        for _ in range(7):  # later than the sixth nothing is planned anew
            await connection.execute(FILL.replace("3000", "2").replace("600", "1"))
            first = (await claims.claim(1))[0]
            second = (await jobs.finish_one(claims.link, 1, an_ack(first), "default", ["email"], next_token=7)).claimed[0]
            await claims.ack(an_ack(second))
            await connection.execute(f"TRUNCATE {TABLES}")
        await connection.execute(f"ANALYZE {TABLES}")
    await connection.execute(FILL)
    if request.param == "statistics":
        await connection.execute(f"ANALYZE {TABLES}")
    plans.forget()
    yield plans
    await connection.execute(f"TRUNCATE {TABLES}")


def scans(plan: str) -> set[str]:
    """The indexes that it reads; no table is read as a whole, nothing is read for nothing, and only ids make bitmaps."""
    for unwanted in ("Seq Scan", "Hash Join", "Merge Join"):
        assert unwanted not in plan, plan
    assert removed(plan) == 0, plan
    bitmaps = set(re.findall(r"Bitmap Index Scan on (\w+)", plan))
    assert all(index.endswith("_pkey") for index in bitmaps), plan
    return bitmaps | set(re.findall(r"using (\w+) on", plan))


RELEASE = "WITH released AS ( DELETE FROM asyncjobs.serialized_jobs AS s WHERE s.id = ANY (_ids)"
DISPATCH = "WITH idle AS MATERIALIZED"


async def test_keys_go_on_by_the_lines_of_their_own(filled: Plans) -> None:
    for count in (10, 50, 500, 10):
        claimed = await filled.claims.claim(count)
        assert len(claimed) == count
        filled.forget()
        assert (await filled.claims.ack(*(an_ack(job) for job in claimed))).lost == []
        for plan in filled.take(RELEASE):
            assert "serialized_jobs_pkey" in scans(plan)
        for plan in filled.take(DISPATCH):
            assert scans(plan) == {
                "serialized_jobs_head",
                "serialized_jobs_line",
                "serialized_jobs_pkey",
                "jobs_pkey",
                "pauses_pkey",
            }
        [ended] = [plan for plan in filled.take_textless() if "dedup_keys" in plan]
        assert "using dedup_keys_pkey on" in ended
        assert "Seq Scan" not in ended


async def test_next_of_a_key_is_found_at_the_front_of_its_line(filled: Plans) -> None:
    (job,) = await filled.claims.claim(1)
    for number in range(3):
        filled.forget()
        (job,) = (
            await jobs.finish_one(
                filled.claims.link, 1, an_ack(job), "default", ["email"], next_token=(5 << 32) + 20_000 + number
            )
        ).claimed
        [plan] = filled.take("UPDATE asyncjobs.jobs AS j SET status = 'completed'")
        assert "jobs_pkey" in scans(plan)


async def test_look_for_requests_reads_nothing_else_of_what_is_in_flight(filled: Plans, connection: Connection) -> None:
    claimed = await filled.claims.claim(500)
    await connection.execute(
        "UPDATE asyncjobs.jobs SET requested_outcome = 'cancel' WHERE id = ANY ($1)", [job.id for job in claimed[:10]]
    )
    filled.forget()
    assert len(await requests.look(filled.claims.link, 1)) == 10
    [plan] = filled.take("SELECT j.id, j.claim_token, j.requested_outcome")
    assert scans(plan) == {"jobs_runner"}
    assert re.search(r"using jobs_runner on .*\(actual rows=10(\.00)? ", plan), plan
    assert re.search(r"Index Cond: \(.*requested_outcome IS NOT NULL", plan), plan
    await connection.execute("UPDATE asyncjobs.jobs SET requested_outcome = NULL")
