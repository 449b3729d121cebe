"""Claims from a queue with ageing: by when a job became ready and what its priority is worth, without waiting for anything."""

import random
import re
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from asyncjobs.model.claim import AGED, Claimed, Probe, Scan
from asyncjobs.store.database import Connection, Database
from tests.support.claims import SUSPECT, Claims
from tests.support.factories import insert_job
from tests.support.limiting import declare, enqueue
from tests.support.plans import Plans, removed

#: A level is worth a second.
BY_AGE: Final = (AGED, 1_000_000)


@pytest.fixture
async def other(database: Database) -> AsyncGenerator[Connection]:
    link = database.link("other")
    yield await link.connection()
    await link.close()


def ago(seconds: float) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)


async def fill(claims: Claims, *jobs: tuple[int, float], **columns: Any) -> list[int]:
    """Jobs of these priorities that became ready so many seconds ago."""
    return [await insert_job(claims.connection, priority=level, run_at=ago(age), **columns) for level, age in jobs]


async def claim(claims: Claims, limit: int, **options: Any) -> list[int]:
    return [job.id for job in await by_age(claims, limit, **options)]


async def by_age(claims: Claims, limit: int, *, lane: str | None = None, **options: Any) -> Sequence[Claimed]:
    finished = await claims.finish(scans=[Scan("default", lane, limit, BY_AGE)], **options)
    return finished.claimed


async def test_a_level_of_priority_is_worth_its_time(claims: Claims) -> None:
    urgent, old, older = await fill(claims, (10, 0), (20, 11), (20, 9))
    assert [await claim(claims, 1) for _ in range(4)] == [[old], [urgent], [older], []]


async def test_other_queues_go_by_priority(claims: Claims) -> None:
    urgent, old = await fill(claims, (10, 0), (20, 3600))
    assert [job.id for job in await claims.claim(1)] == [urgent]
    assert await claim(claims, 1) == [old]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("lane", [None, "fast"])
async def test_the_order_is_that_of_ready_and_priority(claims: Claims, seed: int, lane: str | None) -> None:
    """Of each claim, whatever its size: what it takes would come first if all that waits were sorted."""
    chance = random.Random(seed)
    ages = sorted((chance.uniform(0, 60) for _ in range(60)), reverse=True)  # places are in the order of readiness
    made = [(chance.randrange(0, 60, chance.choice([1, 10, 30])), age) for age in ages]
    await fill(claims, *made, lane=lane)
    if lane is not None:
        await fill(claims, (0, 3600))  # of no lane
    rows = await claims.connection.fetch(
        "SELECT id FROM asyncjobs.jobs WHERE lane IS NOT DISTINCT FROM $1"
        " ORDER BY run_at + priority * interval '1 s', priority, place", lane,
    )  # fmt: skip
    wanted = [row["id"] for row in rows]
    while wanted:
        size = chance.randint(1, 25)
        assert sorted(await claim(claims, size, lane=lane)) == sorted(wanted[:size])
        wanted = wanted[size:]


async def test_within_a_priority_place_decides(claims: Claims) -> None:
    first, second = await fill(claims, (10, 0), (10, 3600))
    assert [await claim(claims, 1), await claim(claims, 1)] == [[first], [second]]


async def test_what_others_have_locked_is_passed_over_and_the_claim_is_filled_from_other_levels(
    other: Connection, claims: Claims
) -> None:
    held = await fill(claims, (1, 100), (1, 100), (1, 100))
    free = await fill(claims, *[(50, 0)] * 5)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("SELECT FROM asyncjobs.jobs WHERE id = ANY ($1) FOR UPDATE", held)
    assert sorted(await claim(claims, 4)) == free[:4], "it is not short while something is free"
    assert await claim(claims, 4) == free[4:]
    await transaction.rollback()
    assert sorted(await claim(claims, 4)) == held


async def test_it_locks_what_it_takes_and_nothing_more(other: Connection, claims: Claims) -> None:
    await fill(claims, *[(1, 0)] * 5, *[(2, 0)] * 5)
    transaction = other.transaction()
    await transaction.start()
    await other.execute(
        "SELECT asyncjobs.pick_aged('default', NULL, 1000000, 3, '{email}', '{}')",
    )
    assert len(await claim(claims, 50)) == 7
    await transaction.rollback()


async def test_suspects_types_versions_and_pauses_are_as_elsewhere(claims: Claims) -> None:
    [suspect] = await fill(claims, (900, 0), **SUSPECT)
    await fill(claims, (1, 9000), type="parcel")
    await fill(claims, (1, 9000), version=7)
    [plain] = await fill(claims, (500, 0))
    assert await claim(claims, 5, suspects=False) == [plain]
    assert await claim(claims, 5) == [suspect]
    [next_one] = await fill(claims, (5, 0))
    await claims.connection.execute("INSERT INTO asyncjobs.pauses (kind, name) VALUES ('queue', 'default')")
    assert await claim(claims, 5) == []
    await claims.connection.execute("DELETE FROM asyncjobs.pauses")
    assert await claim(claims, 5) == [next_one]


async def test_probes_go_by_age_too(claims: Claims) -> None:
    urgent, old = await fill(claims, (1, 0), (9, 60), type="parcel")
    finished = await claims.finish(scans=[Scan("default", None, 5, BY_AGE)], probes=[Probe(("parcel",), 1)])
    assert [job.id for job in finished.claimed] == [old]
    assert urgent not in [job.id for job in finished.claimed]


async def test_what_has_expired_is_ended_and_others_are_claimed_by_the_next_call(claims: Claims) -> None:
    await fill(claims, *[(1, 3600)] * 30, start_before=ago(60))
    [fine] = await fill(claims, (50, 0))
    finished = await claims.finish(scans=[Scan("default", None, 10, BY_AGE)])
    assert (finished.claimed, len(finished.expired)) == ([], 30)
    assert await claim(claims, 10) == [fine]


async def test_of_very_many_levels_each_has_its_turn(claims: Claims) -> None:
    """100 from the front and 100 from a drawn one: with 501 levels a fourth of all claims sees this one."""
    await claims.connection.execute(
        "INSERT INTO asyncjobs.jobs (enqueue_token, type, priority) SELECT 0, 'email', n / 2 * 2"
        " FROM generate_series(2, 1001) AS n"
    )
    [old] = await fill(claims, (901, 100_000))
    found: list[int] = []
    while old not in found:
        found += await claim(claims, 1)
        assert len(found) < 400


@pytest.mark.parametrize(("age", "is_first"), [(30, True), (0, False)])
async def test_a_job_with_a_limit_comes_before_those_without_by_age(claims: Claims, age: float, is_first: bool) -> None:  # noqa: FBT001
    await declare(claims.connection, each=5)
    [limited] = await enqueue(claims, "api:a", priority=20)
    await claims.connection.execute("UPDATE asyncjobs.jobs SET run_at = $1 WHERE limit_key IS NOT NULL", ago(age))
    await fill(claims, (1, 0), (1, 0))
    assert (await claim(claims, 1) == [limited]) is is_first


async def test_within_a_limits_key_priority_decides(claims: Claims) -> None:
    await declare(claims.connection, each=5)
    await enqueue(claims, "api:a", priority=20)
    [urgent] = await enqueue(claims, "api:a", priority=1)
    await claims.connection.execute("UPDATE asyncjobs.jobs SET run_at = now() - interval '1 h' WHERE priority = 20")
    assert await claim(claims, 1) == [urgent]


@pytest.fixture
async def plans(claims: Claims) -> Plans:
    return await Plans(claims).watch()


@pytest.mark.parametrize("lane", [None, "fast"])
@pytest.mark.parametrize("analyzed", [False, True])
async def test_it_reads_a_probe_a_level_and_the_first_of_each(
    plans: Plans,
    connection: Connection,
    lane: str | None,
    analyzed: bool,  # noqa: FBT001
) -> None:
    await connection.execute(
        """INSERT INTO asyncjobs.jobs (enqueue_token, type, priority, lane) SELECT 0, 'email', n % 4 * 10, 'fast'
        FROM generate_series(1, 20000) AS n"""
    )
    if analyzed:
        await connection.execute("ANALYZE asyncjobs.jobs")
    for _ in range(7):
        plans.forget()
        assert len(await claim(plans.claims, 5, lane=lane)) == 5
    [levels] = plans.take("WITH RECURSIVE levels")
    found = plans.take("_found := CASE WHEN _lane IS NULL")
    index = "jobs_claim" if lane is None else "jobs_claim_apart"
    for plan in (levels, *found):
        assert "Seq Scan" not in plan, plan
        assert removed(plan) == 0, plan
        assert f"using {index} on" in plan, plan
    assert max(map(float, re.findall(r"actual rows=([\d.]+)", levels))) <= 4 * 5, levels
