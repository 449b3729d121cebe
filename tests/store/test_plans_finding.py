"""What finding reads: what an index says, or a bounded number of rows, however many there are and whatever is looked for."""

import re
from collections.abc import AsyncGenerator
from itertools import product
from typing import Any, Final

import pytest

from asyncjobs.store import dead_letters, finding
from asyncjobs.store.database import Connection
from tests.support.claims import Claims
from tests.support.plans import Plans

#: The server's and the test's bound of the rows that a call looks at.
LOOK: Final = 10

JOBS = """
INSERT INTO asyncjobs.jobs (
    enqueue_token, id, type, status, run_at, completed_at, started_at, runner_id, claim_token, correlation_id, parent_job_id)
SELECT 0, n * 10 + s.number, CASE WHEN n = 1 THEN 'rare' ELSE 'email' END, s.status, now() + interval '1 hour',
    CASE WHEN s.status IN ('completed', 'dead') THEN now() END, CASE WHEN s.status = 'processing' THEN now() END,
    CASE WHEN s.status = 'processing' THEN 99 END, CASE WHEN s.status = 'processing' THEN n END,
    CASE WHEN n < 4 THEN 'few' ELSE 'many' END, CASE WHEN n < 4 THEN 1 ELSE 2 END
FROM generate_series(1, 200) AS n CROSS JOIN unnest(
    ARRAY['pending', 'completed', 'scheduled', 'paused', 'processing', 'dead', 'waiting']) WITH ORDINALITY AS s(status, number);
INSERT INTO asyncjobs.serialized_jobs (id, place, serialization_key, dispatched_at)
SELECT n * 10 + 8, n, CASE WHEN n < 20 THEN 'few' ELSE 'k' || n / 2 END, CASE WHEN n > 100 AND n % 2 = 0 THEN now() END
FROM generate_series(1, 200) AS n;
INSERT INTO asyncjobs.jobs (enqueue_token, id, type, serialization_key, correlation_id, status)
SELECT 0, s.id, 'email', s.serialization_key, CASE WHEN s.place < 20 THEN 'few' ELSE 'many' END,
    CASE WHEN s.dispatched_at IS NULL THEN 'waiting' ELSE 'pending' END FROM asyncjobs.serialized_jobs AS s;
INSERT INTO asyncjobs.serialized_jobs (id, place, serialization_key)
SELECT n * 10 + 7, 1000 + n, 'k' || n FROM generate_series(1, 50) AS n;
INSERT INTO asyncjobs.dead_letter_jobs (job_id, original_job, error_message, acknowledged, acknowledged_at)
SELECT j.id, to_jsonb(j) || jsonb_build_object('serialization_key', CASE WHEN j.id < 200 THEN 'few' ELSE 'many' END),
    CASE WHEN j.id < 50 THEN 'odd' ELSE 'no' END,
    j.id > 400, CASE WHEN j.id > 400 THEN now() END
FROM asyncjobs.jobs AS j WHERE j.status = 'dead' ORDER BY j.id;
UPDATE asyncjobs.jobs SET workflow_id = CASE WHEN id < 60 THEN 1 ELSE 2 END WHERE status = 'completed';
INSERT INTO asyncjobs.members (job_id, workflow_id, number, gates)
SELECT j.id, j.workflow_id, -j.id, '{}' FROM asyncjobs.jobs AS j WHERE j.workflow_id IS NOT NULL;
"""
CLEAR = (
    "TRUNCATE asyncjobs.members; TRUNCATE asyncjobs.jobs; TRUNCATE asyncjobs.serialized_jobs; TRUNCATE asyncjobs.dead_letter_jobs"
)


@pytest.fixture(params=["plans of empty tables", "statistics"])
async def filled(request: pytest.FixtureRequest, claims: Claims, connection: Connection) -> AsyncGenerator[Plans]:
    if request.param == "plans of empty tables":  # once is enough: the functions ask for plans that serve all values
        for which in JOB_FILTERS:
            for walk in (False, True):
                await finding.find(claims.link, which, before=None, limit=5, walk=walk, look=LOOK)
        for dead_letter_filter in DEAD_LETTER_FILTERS:
            await dead_letters.find(claims.link, dead_letter_filter, look=LOOK)
    plans = await Plans(claims).watch()
    await connection.execute(JOBS)
    if request.param == "statistics":
        await connection.execute(
            "ANALYZE asyncjobs.jobs, asyncjobs.members, asyncjobs.serialized_jobs, asyncjobs.dead_letter_jobs"
        )
    yield plans
    await connection.execute(CLEAR)


JOB_FILTERS: list[Any] = [
    {},
    {"type": "rare"},
    {"payload": {"nobody": 1}},
    {"error": "nothing"},
    {"key": "few"},
    {"key": "none"},
    {"correlation_id": "few"},
    {"correlation_id": "many"},
    {"correlation_id": "none"},
    {"parent_job_id": 1},
    {"parent_job_id": 2},
    {"workflow": 1},
    {"workflow": 2},
    {"workflow": 2, "type": "rare"},
    {"workflow": 3},
    *({"status": status} for status in ("pending", "completed", "scheduled", "paused", "processing", "dead", "waiting")),
    {"type": "email", "status": "completed"},
    {"type": "rare", "status": "completed"},
    {"status": ["pending", "failed"]},
]
DEAD_LETTER_FILTERS: list[Any] = [
    {},
    {"type": "rare"},
    {"type": "email"},
    {"type": "none"},
    {"key": "few"},
    {"key": "many"},
    {"key": "none"},
    {"correlation_id": "few"},
    {"correlation_id": "many"},
    {"queue": "none"},
    {"error": "nothing"},
    {"error": "odd"},
    {"acknowledged": False},
    {"acknowledged": True},
    {"acknowledged": False, "type": "rare"},
]


def of_ours(plans: Plans) -> list[str]:
    """The plans of statements that read tables of ours; the driver asks the catalog for types."""
    return [plan for plan in plans.take("") if "asyncjobs." in plan and "pg_type" not in plan]


def rows_read(plans: list[str]) -> int:
    """By all scans of tables and indexes in these plans, what was read for nothing among it."""
    read = 0
    for plan in plans:
        for scan in re.findall(r"Scan[^\n]* on [^\n]*\(actual rows=(\S+) loops=(\d+)\)", plan):
            read += round(float(scan[0]) * int(scan[1]))
        for removed, loops in re.findall(r"Rows Removed by \w+(?: \w+)?: (\d+)()", plan):
            read += int(removed) * int(loops or 1)
    return read


async def test_finding_jobs_reads_a_bounded_number_of_rows(filled: Plans) -> None:
    for which in JOB_FILTERS:
        for before in (None, 500):
            for walk in (False, True):
                filled.forget()
                page = await finding.find(filled.claims.link, which, before=before, limit=5, walk=walk, look=LOOK)
                seen = of_ours(filled)
                assert not any("Seq Scan" in plan for plan in seen), (which, seen)
                # An index in which there are too many is read for nothing; all of it for waiting ones, too; and each by its id.
                assert rows_read(seen) <= 12 * (LOOK + 1), (which, before, walk, seen)
                assert page.looked <= 2 * LOOK


async def test_finding_dead_letters_reads_a_bounded_number_of_rows(filled: Plans) -> None:
    for which in DEAD_LETTER_FILTERS:
        for before in (None, 50):
            filled.forget()
            page = await dead_letters.find(filled.claims.link, which, before=before, limit=5, look=LOOK)
            seen = of_ours(filled)
            assert not any("Seq Scan" in plan for plan in seen), (which, seen)
            assert rows_read(seen) <= 4 * (LOOK + 1), (which, before, seen)
            assert page.looked <= LOOK


async def test_what_is_rare_is_found_directly(filled: Plans) -> None:
    link = filled.claims.link
    many = await finding.find(link, {"workflow": 2, "type": "rare"}, before=None, limit=5, look=LOOK)
    assert many.looked == LOOK, "of a workflow with more the highest ids are looked at, and no others"
    rare: list[Any] = [{"type": "rare"}, {"key": "few"}, {"correlation_id": "few"}, {"acknowledged": False}]
    for which in rare:
        some = await dead_letters.find(link, which, look=4 * LOOK)
        assert (bool(some.dead_letters), some.next, some.looked) == (True, None, len(some.dead_letters)), which
    rare = [
        {"correlation_id": "few"},
        {"parent_job_id": 1, "status": "pending"},
        {"type": "rare", "status": "completed"},
        {"workflow": 1},
    ]
    for which in rare:
        page = await finding.find(link, which, before=None, limit=100, look=5 * LOOK)
        assert (bool(page.ids), page.next) == (True, None), which


async def test_pages_lead_to_every_job_and_dead_letter_that_fits(filled: Plans) -> None:
    """Whatever is looked for, page by page the same is found as by reading everything."""
    link = filled.claims.link
    for which, limit in product(JOB_FILTERS, (15, 10_000)):  # by the end of a page, or of what was looked at
        found: list[int] = []
        before: int | None = None
        while True:
            page = await finding.find(link, which, before=before, limit=limit, look=8 * LOOK)
            found += page.ids
            if (before := page.next) is None:
                break
        everything = await finding.find(link, which, before=None, limit=10_000, walk=True)
        assert found == everything.ids == sorted(set(found), reverse=True), which
        assert everything.next is None
    for dead_letter_filter, limit in product(DEAD_LETTER_FILTERS, (15, 10_000)):
        listed: list[int] = []
        before = None
        while True:
            some = await dead_letters.find(link, dead_letter_filter, before=before, limit=limit, look=8 * LOOK)
            listed += [dead_letter.id for dead_letter in some.dead_letters]
            if (before := some.next) is None:
                break
        assert listed == [
            dead_letter.id for dead_letter in (await dead_letters.find(link, dead_letter_filter, limit=10_000)).dead_letters
        ], dead_letter_filter
