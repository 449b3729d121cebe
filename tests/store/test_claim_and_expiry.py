"""What a claim does about jobs in front of it that have expired: how many it ends, how far it looks, and what it costs."""

import json
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from asyncjobs.model.claim import FRONT, Finished, Probe, Scan
from asyncjobs.store import jobs
from asyncjobs.store.database import Connection, Database
from tests.support.claims import SUSPECT, Claims, an_ack
from tests.support.factories import insert_job
from tests.support.plans import Plans

_ROWS = """INSERT INTO asyncjobs.jobs (type, lane, status, enqueue_token, start_before)
    SELECT 'email', $3::text, 'pending', 1, now() + make_interval(secs => $2::float8) FROM generate_series(1, $1::int)"""

pytestmark = pytest.mark.unaudited("rows are inserted by hand")


@pytest.fixture
async def claims(database: Database, connection: Connection) -> AsyncGenerator[Claims]:
    link = database.link("runner")
    yield await Claims(link, connection).register()
    await link.close()
    await connection.execute("TRUNCATE asyncjobs.jobs; DELETE FROM asyncjobs.runners")


async def fill(connection: Connection, count: int, expires: float | None = -1.0, lane: str | None = None) -> None:
    """So many pending jobs that expire in so many seconds (None: never)."""
    await connection.execute(_ROWS, count, expires, lane)
    await connection.execute("ANALYZE asyncjobs.jobs")


async def lean(claims: Claims, limit: int, start: tuple[int, int] = FRONT) -> Finished:
    """One call of the lean kind that only claims."""
    return await jobs.finish_completed(
        claims.link, 1, [], Scan("default", None, limit, start), ("email",), suspects=False, token_base=5, token_seq=1_000_000
    )


async def place_of(connection: Connection, number: int) -> int:
    """The place of the so-manieth job."""
    return int(await connection.fetchval("SELECT place FROM asyncjobs.jobs ORDER BY place OFFSET $1 LIMIT 1", number - 1))


@pytest.mark.parametrize("call", ["finish", "finish_completed"])
@pytest.mark.parametrize("lane", [None, "slow"])
async def test_a_claim_says_where_the_first_job_stands_that_may_start(
    claims: Claims, connection: Connection, call: str, lane: str | None
) -> None:
    await fill(connection, 2_500, lane=lane)
    await fill(connection, 5, None, lane=lane)
    scan = Scan("default", lane, 4)
    lean_too = call == "finish_completed" and lane is None
    finished = await lean(claims, 4) if lean_too else await claims.finish(scans=[scan])
    assert (finished.claimed, len(finished.expired)) == ([], 1_000)
    assert finished.past == {1: (100, await place_of(connection, 2_500))}
    found = await claims.claim(4, lane=lane, start=finished.past[1])
    assert [job.place for job in found] == [await place_of(connection, 2_501 + n) for n in range(4)]


async def test_what_may_start_among_them_is_claimed_and_the_next_is_named(claims: Claims, connection: Connection) -> None:
    for expires in (None, -1.0, None, -1.0, None):
        await fill(connection, 2, expires)
    finished = await claims.finish(scans=[Scan("default", None, 4)])
    assert [job.place for job in finished.claimed] == [await place_of(connection, n) for n in (1, 2)]
    assert len(finished.expired) == 4
    assert finished.past == {1: (100, await place_of(connection, 4))}


async def test_a_claim_looks_over_ten_thousand_jobs_at_most(claims: Claims, connection: Connection) -> None:
    await fill(connection, 12_000)
    await fill(connection, 1, None)
    finished = await claims.finish(scans=[Scan("default", None, 10)])
    assert finished.past == {1: (100, await place_of(connection, 10_000))}
    assert (await claims.finish(scans=[Scan("default", None, 10, finished.past[1])])).past == {
        1: (100, await place_of(connection, 12_000))
    }


@pytest.mark.parametrize("behind", ["nothing", "another type", "a newer version"])
async def test_where_nothing_else_stands_the_next_scan_is_one_from_the_front(
    claims: Claims, connection: Connection, behind: str
) -> None:
    await fill(connection, 1_500)
    if behind != "nothing":
        other: dict[str, Any] = {"type": "other"} if behind == "another type" else {"version": 2}
        await insert_job(connection, **other)
    finished = await claims.finish(scans=[Scan("default", None, 10)])
    assert (len(finished.expired), finished.past) == (1_000, {})
    assert len((await claims.finish(scans=[Scan("default", None, 10)])).expired) == 500
    assert (await claims.finish(scans=[Scan("default", None, 10)])).expired == []


async def test_lanes_with_jobs_that_have_expired_hold_up_no_other(claims: Claims, connection: Connection) -> None:
    await fill(connection, 20, lane="slow")
    await fill(connection, 3, None, lane="slow")
    await fill(connection, 3, None)
    scans = [Scan("default", "slow", 3), Scan("default", None, 2)]
    finished = await claims.finish(scans=scans)
    assert sorted(job_id for job_id, _ in finished.expired) == [
        row[0] for row in await connection.fetch("SELECT id FROM asyncjobs.jobs ORDER BY id LIMIT 20")
    ]
    assert [(job.scan, job.lane) for job in finished.claimed] == [(2, "slow"), (2, "slow")]
    assert finished.past.keys() == {1}
    assert [job.lane for job in await claims.claim(3, lane="slow", start=finished.past[1])] == ["slow"]
    assert [job.lane for job in await claims.claim(5)] == [None] * 3


async def test_a_suspect_that_has_expired_is_ended_and_moves_no_start(claims: Claims, connection: Connection) -> None:
    before = await connection.fetchval("SELECT now() - interval '1 second'")
    await insert_job(connection, start_before=before, **SUSPECT)
    await fill(connection, 2, None)
    finished = await claims.finish(scans=[Scan("default", None, 10)])
    assert (len(finished.claimed), len(finished.expired), finished.past) == (2, 1, {})


async def test_a_probe_that_has_expired_moves_no_start(claims: Claims, connection: Connection) -> None:
    await fill(connection, 20)
    await fill(connection, 2, None)
    await insert_job(connection, type="probed")
    finished = await claims.finish(scans=[Scan("default", None, 5)], types=["probed"], probes=[Probe(("email",), 1)])
    assert ([job.type for job in finished.claimed], finished.past) == (["probed"], {})


# What it costs.


async def pages(claims: Claims, limit: int, start: tuple[int, int], number: int) -> int:
    """Pages that a claim looks at."""
    of = f"1, 'default', NULL, {limit}, {start[0]}, {start[1]}, '{{email}}', false, 5, {number * 100}"
    sql = f"SELECT * FROM asyncjobs.claim({of})"
    node = json.loads(await claims.connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}"))[0]["Plan"]
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


async def test_a_claim_that_has_met_them_reads_as_many_pages_as_one_of_an_empty_front(
    claims: Claims, connection: Connection
) -> None:
    await fill(connection, 20_000)
    await fill(connection, 100, None)
    start = FRONT
    for _ in range(2):
        start = (await claims.finish(scans=[Scan("default", None, 10, start)])).past.get(1, start)
    behind = [await pages(claims, 10, start, number) for number in range(6)][1:]  # the first of a session reads the catalogs, too
    left = await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs WHERE status = 'pending' AND start_before < now()")
    assert left == 18_000  # they still stand there
    await connection.execute("DELETE FROM asyncjobs.jobs")
    await connection.execute("VACUUM asyncjobs.jobs")
    await fill(connection, 20_000, None)
    await connection.execute("UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now() WHERE true")
    await connection.execute("VACUUM asyncjobs.jobs")
    await fill(connection, 100, None)
    empty = [await pages(claims, 10, FRONT, number) for number in range(6)][1:]
    assert sum(behind) <= 1.1 * sum(empty), (behind, empty)


async def test_a_claim_that_meets_them_reads_what_ending_a_thousand_takes_and_the_window(
    claims: Claims, connection: Connection
) -> None:
    await fill(connection, 12_000)
    await fill(connection, 100, None)
    few = await pages(claims, 10, FRONT, 1)
    await fill(connection, 60_000)
    many = await pages(claims, 10, FRONT, 2)
    assert many <= 1.1 * few, (few, many)
    assert many <= 15_000


async def test_plans_of_a_claim_that_meets_them(claims: Claims, connection: Connection) -> None:
    await fill(connection, 3_000)
    await fill(connection, 100, None)
    plans = await Plans(claims).watch()
    await claims.finish(scans=[Scan("default", None, 10)])
    (walk,) = plans.take("(SELECT j.priority, j.place, asyncjobs.may_start")
    assert "using jobs_claim on" in walk
    assert "Sort" not in walk
    assert re.search(r"using jobs_claim on .*rows=30\d\d[ .]", walk), walk
    acked = await lean(claims, 1, FRONT)
    await claims.ack(*(an_ack(job) for job in acked.claimed))
