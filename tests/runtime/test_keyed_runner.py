"""What a runner does for keyed jobs beyond what it does for others: one call a job, and nothing after a freeze."""

import asyncio

from asyncjobs import AsyncJobs, Queue
from asyncjobs.runtime import points
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import OutcomeWritten
from tests.support.at_work import at_work
from tests.support.eventually import eventually


async def test_claim_that_answers_when_others_may_have_taken_its_jobs_starts_none(
    database: Database, connection: Connection
) -> None:
    """The process was frozen between the claim and its answer: they are given back, with their attempts."""
    async with at_work(database, connection) as rig:
        [job_id] = await rig.enqueue()

        async def freeze(point: str) -> None:
            if point == "finish.sent":
                rig.host.is_confirmed = False

        with points.installed(freeze):
            rig.wake()
            await eventually(lambda: rig.of(OutcomeWritten), description="the claim is given back")
        await rig.wait_idle()
        row = await rig.row(job_id)
        assert (row["status"], row["attempts"], rig.host.started) == ("pending", 0, [])


async def test_next_job_of_a_key_starts_with_the_call_that_ends_the_one_before_it(
    database: Database, connection: Connection
) -> None:
    calls: list[str] = []

    async def note(point: str) -> None:
        calls.append(point)

    async with at_work(database, connection) as rig:
        ids = await rig.enqueue_keyed(3)
        rig.wake()
        await rig.wait_running(1)
        with points.installed(note):
            rig.put(ids[0])
            await eventually(lambda: ids[1] in rig.host.running, description="the second one runs")
            rig.put(ids[1])
            await eventually(lambda: ids[2] in rig.host.running, description="the third one runs")
        assert [job.id for job in rig.host.started] == ids
        assert calls.count("finish.send") == 2
        assert rig.notified == []  # nothing became pending on the way


async def test_next_job_of_a_key_stands_behind_what_has_woken_the_coordinator(database: Database, connection: Connection) -> None:
    async with at_work(database, connection, Queue(concurrency=2)) as rig:
        ids = await rig.enqueue_keyed(3)
        rig.wake()
        await rig.wait_running(1)
        [other] = await rig.enqueue()
        rig.put(ids[0])
        rig.wake()
        await rig.wait_running(2)
        assert [job.id for job in rig.host.started] == [ids[0], other, ids[1]]


async def test_next_job_of_a_key_is_not_started_by_a_runner_that_was_declared_dead(
    database: Database, connection: Connection
) -> None:
    async with at_work(database, connection) as rig:
        first, second = await rig.enqueue_keyed(2)
        rig.wake()
        await rig.wait_running(1)
        await connection.execute("DELETE FROM asyncjobs.runners")
        rig.put(first)
        await eventually(lambda: rig.host.deaths, description="the runner is told")
        await rig.wait_idle()
        assert [job.id for job in rig.host.started] == [first]
        assert [(await rig.row(job_id))["status"] for job_id in (first, second)] == ["completed", "pending"]


async def test_result_that_cannot_be_stored_lets_the_key_go_on(database: Database, connection: Connection) -> None:
    async with at_work(database, connection) as rig:
        first, second = await rig.enqueue_keyed(2)
        rig.wake()
        await rig.wait_running(1)
        rig.put(first, result='"\\u0000"')
        await rig.wait_idle()
        rig.wake()
        await eventually(lambda: second in rig.host.running, description="the next one runs")
        assert (await rig.row(first))["status"] == "dead"


async def test_end_of_a_keyed_job_claims_the_next_of_its_key_in_the_same_call(dsn: str) -> None:
    app = AsyncJobs(dsn, queues=[Queue("default", concurrency=10)])
    ran: list[int] = []
    done = asyncio.Event()

    @app.job("work", serialize_by="k")
    async def work(number: int) -> None:
        ran.append(number)
        if number == 49:
            done.set()

    calls: list[str] = []

    async def count(point: str) -> None:
        if point == "finish.send":
            calls.append(point)

    async with app:
        await app.enqueue_many([work.new(number) for number in range(50)])
        with points.installed(count):
            async with app.runner():
                await asyncio.wait_for(done.wait(), 20)
    assert ran == list(range(50))
    assert len(calls) < 65  # the rest: the start, the poll, our own notifications
