"""Whose fault the end of a runner was, and what that makes of its jobs: the rules of `model/probation.py` in the rows.

The rows of these tests name runners that never were: those are orphans.
"""

from collections.abc import AsyncGenerator
from itertools import groupby
from operator import attrgetter
from random import Random
from typing import Any

import pytest

from asyncjobs.model.probation import Lost, blamed, judge
from asyncjobs.store import jobs, runners
from asyncjobs.store.database import Connection, Database, Link
from tests.support.claims import SUSPECT, Claims, an_ack
from tests.support.eventually import patience
from tests.support.factories import insert, insert_job, insert_runner

FORMER: dict[str, Any] = {"host": "h", "pid": 1, "version": "0", "queues": ["default"], "types": ["email"]}


@pytest.fixture
async def link(database: Database) -> AsyncGenerator[Link]:
    made = database.link("duties")
    yield made
    await made.close()


async def lost(connection: Connection, runner: int = 99, **columns: Any) -> int:
    token = await connection.fetchval("SELECT nextval('asyncjobs.place_seq')")
    defaults: dict[str, Any] = {"status": "processing", "runner_id": runner, "claim_token": token}
    return await insert_job(connection, **(defaults | columns))


async def state(connection: Connection, job_id: int) -> tuple[Any, ...]:
    row = await connection.fetchrow(
        "SELECT status, attempts, losses, suspicion, outlived FROM asyncjobs.jobs WHERE id = $1", job_id
    )
    return tuple(row or ())


class Row(Lost, frozen=True, kw_only=True):
    runner: int


def a_row_at_random(chance: Random, runner: int) -> Row:
    most = chance.randint(1, 4)
    return Row(
        id=0, runner=runner, attempts=chance.randint(1, most), max_attempts=most, losses=chance.choice([0, 0, 1, 1, 2, 3, 6]),
        suspicion=chance.choice([0, 0, 0, 1, 2]), outlived=chance.randint(0, 4),
    )  # fmt: skip


async def test_rows_are_judged_as_the_model_judges(link: Link, connection: Connection) -> None:
    chance = Random(1)
    rows: list[Row] = []
    for runner in range(1000, 1080):
        for _ in range(chance.randint(1, 4)):
            row = a_row_at_random(chance, runner)
            columns = {name: getattr(row, name) for name in ("attempts", "max_attempts", "losses", "suspicion", "outlived")}
            rows.append(Row(**{**columns, "id": await lost(connection, runner, **columns), "runner": runner}))
    await runners.rescue(link, 1000, max_errors=10)
    for _, found in groupby(rows, attrgetter("runner")):
        group = list(found)
        for row in group:
            verdict = judge(row, blamed(group))
            status = "dead" if verdict.is_dead else "pending"
            # What ended keeps the attempt that it lost.
            attempts = max(verdict.attempts, row.attempts) if verdict.is_dead else verdict.attempts
            expected = (status, attempts, verdict.losses, verdict.suspicion, 0)
            assert await state(connection, row.id) == expected, (row, group)


async def test_a_hundred_that_were_lost_together_are_claimed_at_once(claims: Claims, link: Link) -> None:
    ids = [await lost(claims.connection) for _ in range(100)]
    await runners.rescue(link, 100, max_errors=10)
    assert sorted(job.id for job in await claims.claim(200)) == ids
    await claims.end_all()


async def test_who_is_to_blame_is_written_by_the_first_batch_and_stands(link: Link, connection: Connection) -> None:
    """Else the last batch would have one job, lost alone, and it would pay."""
    await insert(connection, "former_runners", id=99, started_at=await connection.fetchval("SELECT now()"), **FORMER)
    ids = [await lost(connection, attempts=2, losses=1) for _ in range(5)]
    while (await runners.rescue(link, 2, max_errors=10)).more:
        pass
    assert [await state(connection, job_id) for job_id in ids] == [("pending", 1, 2, 1, 0)] * 5
    assert await connection.fetchval("SELECT blamed FROM asyncjobs.former_runners") == 0


async def test_killer_of_an_earlier_batch_still_clears_its_neighbours(link: Link, connection: Connection) -> None:
    await insert(connection, "former_runners", id=99, started_at=await connection.fetchval("SELECT now()"), **FORMER)
    killer = await lost(connection, attempts=2, **SUSPECT)
    others = [await lost(connection, attempts=2, losses=1) for _ in range(2)]
    while (await runners.rescue(link, 1, max_errors=10)).more:
        pass
    assert (await state(connection, killer))[:2] == ("dead", 3)
    assert [await state(connection, other) for other in others] == [("pending", 1, 1, 0, 0)] * 2


async def test_suspects_that_were_lost_with_the_killer_before_are_cleared_and_their_queue_is_told(
    link: Link, connection: Connection
) -> None:
    await insert_runner(connection, id=1, queues=["mail", "default"])
    before = [await insert_job(connection, queue="mail", attempts=1, lost_with=runner, **SUSPECT) for runner in (7, 8)]
    await lost(connection, attempts=2, lost_with=7, **SUSPECT)
    await lost(connection)
    rescued = await runners.rescue(link, 100, max_errors=10)
    assert len(rescued.dead) == 1
    assert sorted(rescued.queues) == ["default", "mail"]
    assert [(await state(connection, job_id))[2:4] for job_id in before] == [(1, 0), (2, 1)]


async def test_operators_end_of_a_job_that_was_lost_keeps_what_it_spent(link: Link, connection: Connection) -> None:
    ids = [await lost(connection, attempts=2, losses=1, requested_outcome="cancel") for _ in range(2)]
    await runners.rescue(link, 100, max_errors=10)
    assert [(await state(connection, job_id))[:2] for job_id in ids] == [("cancelled", 2)] * 2


@pytest.mark.parametrize(
    ("kind", "marks"),
    [("completed", (0, 0)), ("retry", (0, 0)), ("snooze", (0, 0)), ("dead", (0, 0)), ("interrupted", (2, 1))],
)
async def test_attempt_that_ends_clears_its_job_and_one_that_is_given_back_does_not(
    claims: Claims, kind: str, marks: tuple[int, int]
) -> None:
    job = await claims.claim_one(**SUSPECT)
    await claims.ack(an_ack(job, kind, delay_seconds=60 if kind in {"retry", "snooze"} else 0))
    assert (await state(claims.connection, job.id))[2:4] == marks


async def test_what_a_job_outlived_is_written_by_its_claim_only(claims: Claims) -> None:
    job = await claims.claim_one(**SUSPECT)
    await jobs.outlive(claims.link, [(job.id, job.token + 1, 3, True)])
    assert (await state(claims.connection, job.id))[3:] == (1, 0)
    await jobs.outlive(claims.link, [(job.id, job.token, 1, False)])
    assert (await state(claims.connection, job.id))[3:] == (1, 1)
    await jobs.outlive(claims.link, [(job.id, job.token, 1, True)])
    assert (await state(claims.connection, job.id))[3:] == (0, 1)
    await claims.end_all()


async def test_row_that_a_handler_holds_does_not_keep_the_others_from_being_written(claims: Claims) -> None:
    held = await claims.claim_one(**SUSPECT)
    free = await claims.claim_one(rescues=1, losses=1)
    async with claims.connection.transaction():
        await claims.connection.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", held.id)
        async with patience(2):
            await jobs.outlive(claims.link, [(job.id, job.token, 1, True) for job in (held, free)])
    assert [(await state(claims.connection, job.id))[4] for job in (held, free)] == [0, 1]
    await claims.end_all()


@pytest.mark.parametrize("columns", [{}, {"max_attempts": 1}, SUSPECT], ids=str)
async def test_jobs_of_a_runner_that_stopped_by_itself_are_given_back_and_blamed_for_nothing(
    link: Link, connection: Connection, columns: dict[str, Any]
) -> None:
    now = await connection.fetchval("SELECT now()")
    await insert(connection, "former_runners", id=99, started_at=now, stopped_at=now, **FORMER)
    job_id = await lost(connection, **({"attempts": 1} | columns))
    killed = await lost(connection, runner=98, attempts=1)
    rescued = await runners.rescue(link, 100, max_errors=10)
    assert (rescued.given_back, rescued.ids) == ([job_id], [killed])
    marks = (columns.get("losses", 0), columns.get("suspicion", 0), columns.get("outlived", 0))
    assert await state(connection, job_id) == ("pending", columns.get("attempts", 1) - 1, *marks)
    row = await connection.fetchrow(
        "SELECT errors, rescues, claim_token, runner_id, started_at, last_error FROM asyncjobs.jobs WHERE id = $1", job_id
    )
    assert tuple(row or ()) == ("[]", columns.get("rescues", 0), None, None, None, None)
    assert await connection.fetchval("SELECT blamed FROM asyncjobs.former_runners") is None
    assert (await state(connection, killed))[:3] == ("pending", 1, 1)


@pytest.mark.parametrize(("asked", "status"), [("cancel", "cancelled"), ("dead", "dead"), ("fail", "failed")])
async def test_what_was_asked_of_a_job_holds_also_where_its_runner_stopped(
    link: Link, connection: Connection, asked: str, status: str
) -> None:
    now = await connection.fetchval("SELECT now()")
    await insert(connection, "former_runners", id=99, started_at=now, stopped_at=now, **FORMER)
    job_id = await lost(connection, attempts=1, requested_outcome=asked)
    await runners.rescue(link, 100, max_errors=10)
    assert (await state(connection, job_id))[0] == status


async def test_row_that_a_stranger_holds_keeps_no_other_from_being_given_back(link: Link, connection: Connection) -> None:
    now = await connection.fetchval("SELECT now()")
    await insert(connection, "former_runners", id=99, started_at=now, stopped_at=now, **FORMER)
    ids = [await lost(connection, attempts=1) for _ in range(3)]
    async with connection.transaction():
        await connection.execute("SELECT FROM asyncjobs.jobs WHERE id = $1 FOR UPDATE", ids[1])
        assert (await runners.rescue(link, 100, max_errors=10)).given_back == [ids[0], ids[2]]
    assert (await runners.rescue(link, 100, max_errors=10)).given_back == [ids[1]]


async def test_runner_that_stops_serves_nothing_and_dies_no_death(link: Link, connection: Connection) -> None:
    await insert_runner(connection, id=5, queues=["default"], types=["email"], beat=7)
    assert await connection.fetchval("SELECT asyncjobs.is_served('default', 'email', 1)")
    await runners.beat(link, 5, stops=True)
    since = await connection.fetchval("SELECT stopped_at FROM asyncjobs.runners")
    await runners.beat(link, 5, stops=True)
    assert await connection.fetchval("SELECT stopped_at FROM asyncjobs.runners") == since is not None
    assert not await connection.fetchval("SELECT asyncjobs.is_served('default', 'email', 1)")
    assert await runners.bury(link, {5: 9}) == {5: False}
    row = await connection.fetchrow("SELECT died_at, stopped_at FROM asyncjobs.former_runners")
    assert tuple(row or ()) == (None, since)
