"""What a runner does for keyed jobs beyond what it does for others: one call a job, and nothing after a freeze."""

import asyncio

from asyncjobs import AsyncJobs, Queue
from asyncjobs.runtime import points
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import OutcomeWritten
from tests.support.acking import acking
from tests.support.eventually import eventually


async def test_claim_that_answers_when_others_may_have_taken_its_jobs_starts_none(
    database: Database, connection: Connection
) -> None:
    """The process was frozen between the claim and its answer: they are given back, with their attempts."""
    async with acking(database, connection) as rig:
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
