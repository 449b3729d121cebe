"""Outcomes that the database refuses: each is its own attempt's trouble, and the others of its call are written."""

import asyncio

import pytest

from asyncjobs.runtime import points
from asyncjobs.settings import Queue
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import ClaimWasLost, OutcomeRefused, OutcomeWritten
from tests.support.at_work import at_work
from tests.support.eventually import eventually, patience


async def test_value_that_the_database_refuses_fails_its_own_attempt_only(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=20)) as rig:
        await rig.enqueue(20)
        rig.wake()
        running = await rig.wait_running(20)
        hold, go = asyncio.Event(), asyncio.Event()

        async def wait(point: str) -> None:
            hold.set()
            await go.wait()

        with points.installed(wait):
            rig.put(running[0])
            await hold.wait()
            for number, job_id in enumerate(running[1:], start=1):
                rig.put(job_id, result={7: '"\\u0000"', 12: "no json", 13: '"\ud800"'}.get(number, '"fine"'))
            await connection.execute("DELETE FROM asyncjobs.jobs WHERE id = $1", running[15])
            go.set()
            await rig.wait_idle()
        statuses = [(await rig.row(job_id) or {"status": None})["status"] for job_id in running]
        assert [at for at, status in enumerate(statuses) if status != "completed"] == [7, 12, 13, 15]
        assert [statuses[at] for at in (7, 12, 13, 15)] == ["dead", "dead", "dead", None]
        assert [event.job_id for event in rig.of(ClaimWasLost)] == [running[15]]
        assert "refused to store" in (await rig.row(running[7]))["error_message"]


REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.status <> 'processing' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON asyncjobs.jobs FOR EACH ROW WHEN (OLD.priority = 99) EXECUTE FUNCTION public.refuse()
"""


@pytest.mark.parametrize("bad", [1, 3, 12])
async def test_outcomes_that_the_database_refuses_are_set_aside_and_the_others_written(
    database: Database, connection: Connection, bad: int
) -> None:
    """Twelve are more than what one turn sets aside before it takes the database to be at fault: the next turns go on."""
    async with at_work(database, connection, Queue(concurrency=20)) as rig:
        refused = await rig.enqueue(bad, priority=99)
        good = await rig.enqueue(20 - bad)
        rig.wake()
        await rig.wait_running(20)
        await connection.execute(REFUSE)
        for job_id in [*refused, *good]:
            rig.put(job_id)
        async with patience(10):
            await eventually(lambda: len(rig.of(OutcomeWritten)) == len(good), description="the others are written")
            await eventually(lambda: rig.line.refused == bad, description="these are set aside")
        assert {event.job_id for event in rig.of(OutcomeRefused)} == set(refused)
        await rig.enqueue()
        rig.wake()
        await rig.wait_running(1)
        await connection.execute("DELETE FROM asyncjobs.jobs WHERE id = $1", refused[0])
        await connection.execute("DROP TRIGGER refuse ON asyncjobs.jobs")
        async with patience(10):
            await eventually(lambda: rig.line.unwritten == 0, description="what is refused no more is written")
        assert {(await rig.row(job_id))["status"] for job_id in [*refused[1:], *good]} == {"completed"}
        assert [event.job_id for event in rig.of(ClaimWasLost)] == [refused[0]]


async def test_outcome_that_is_set_aside_is_tried_less_and_less_often(database: Database, connection: Connection) -> None:
    async with at_work(database, connection) as rig:
        [job_id] = await rig.enqueue(priority=99)
        rig.wake()
        await rig.wait_running(1)
        await connection.execute(REFUSE)
        rig.put(job_id)
        await eventually(lambda: len(rig.of(OutcomeRefused)) >= 4, description="it was tried again")
        told = [(event.refusals, event.again_in_seconds) for event in rig.of(OutcomeRefused)]
        assert told[:4] == [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8)]
        assert rig.line.is_idle
        assert rig.line._may_claim()
        await connection.execute("DROP TRIGGER refuse ON asyncjobs.jobs")
