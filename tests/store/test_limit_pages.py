"""What a claim of ten jobs reads, whatever is throttled in front of it: keys that are open, and nothing of the others."""

import json

import pytest

from asyncjobs.store.database import Connection
from tests.support.claims import Claims
from tests.support.limiting import declare

CLAIM = "SELECT * FROM asyncjobs.claim(1, 'default', NULL, 10, -1, -1, '{email}', false, 5, 0, '{}', 1, 10)"
#: Rows that are throttled, and keys that are full.
SMALL = [(0, 0), (1_000, 10), (1_000, 500), (20_000, 10), (20_000, 2_000)]
LARGE = [(1_000, 10), (20_000, 10_000), (1_000_000, 10), (1_000_000, 10_000)]


async def _throttle(connection: Connection, rows: int, keys: int) -> None:
    """So many jobs, of so many keys each of which has a job that runs; and twenty keys with ten jobs each, that are open."""
    await connection.execute("TRUNCATE asyncjobs.jobs, asyncjobs.limit_keys, asyncjobs.limit_turns")
    await connection.execute(
        """INSERT INTO asyncjobs.jobs
            (id, type, queue, payload, status, priority, place, max_attempts, run_at, enqueue_token, limit_key)
        SELECT n, 'email', 'default', '{}', 'pending', 1, n, 3, now(), 1, 'api:full' || n % greatest($2, 1)
        FROM generate_series(1, $1::bigint) AS n""",
        rows, keys,
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO asyncjobs.jobs
            (id, type, queue, payload, status, priority, place, max_attempts, run_at, enqueue_token, limit_key,
            attempts, runner_id, claim_token, started_at)
        SELECT 5000000 + n, 'email', 'default', '{}', 'processing', 1, n, 3, now(), 1, 'api:full' || n % $1::bigint,
            1, 2, n, now()
        FROM generate_series(1, $1::bigint) AS n""",
        keys,
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO asyncjobs.jobs
            (id, type, queue, payload, status, priority, place, max_attempts, run_at, enqueue_token, limit_key)
        SELECT 10000000 + n, 'email', 'default', '{}', 'pending', 100, 10000000 + n, 3, now(), 1, 'api:open' || n % 20
        FROM generate_series(1, 200) AS n""",
    )  # fmt: skip
    await connection.execute(
        """INSERT INTO asyncjobs.limit_keys (key) SELECT DISTINCT limit_key FROM asyncjobs.jobs;
        INSERT INTO asyncjobs.limit_turns (key, queue, name, state, served)
        SELECT k.key, 'default', 'api', CASE WHEN k.key LIKE '%full%' THEN 'full' ELSE 'open' END,
            row_number() OVER (ORDER BY k.key)
        FROM asyncjobs.limit_keys AS k"""
    )
    await connection.execute("VACUUM (ANALYZE) asyncjobs.jobs, asyncjobs.limit_keys, asyncjobs.limit_turns")


async def _pages(claims: Claims) -> int:
    """Of a claim of ten, which is rolled back; the first reads the catalogs, too."""
    read: list[int] = []
    for _ in range(3):
        transaction = claims.connection.transaction()
        await transaction.start()
        [root] = json.loads(await claims.connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {CLAIM}"))
        await transaction.rollback()
        assert root["Plan"]["Actual Rows"] == 10
        read.append(int(root["Plan"]["Shared Hit Blocks"] + root["Plan"]["Shared Read Blocks"]))
    return min(read)


async def _check(claims: Claims, loads: list[tuple[int, int]]) -> None:
    await declare(claims.connection, each=1)
    await claims.connection.execute("ALTER TABLE asyncjobs.jobs DISABLE TRIGGER audit_limits")  # (the auditor's own looks)
    read: dict[tuple[int, int], int] = {}
    for rows, keys in loads:
        await _throttle(claims.connection, rows, keys)
        read[rows, keys] = await _pages(claims)
    assert max(read.values()) <= 1.2 * min(read.values()), read


async def test_a_claim_reads_the_same_whatever_is_throttled(claims: Claims) -> None:
    await _check(claims, SMALL)


@pytest.mark.proof
async def test_a_claim_reads_the_same_in_front_of_a_million_jobs_that_are_throttled(claims: Claims) -> None:
    await _check(claims, LARGE)
