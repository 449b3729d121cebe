"""An acker at work for a runner whose handlers are the test's own hands."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from asyncjobs.config import Queue
from asyncjobs.model.claim import Ack, Claimed, Probe, Scan
from asyncjobs.runtime.acker import Acker
from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.runtime.host import Tokens
from asyncjobs.runtime.stubs import Stubs
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import jobs
from asyncjobs.store.database import Connection, Database
from asyncjobs.telemetry.events import Event, Events
from tests.support.claims import an_ack
from tests.support.eventually import eventually, patience
from tests.support.factories import a_row, insert_job, insert_runner
from tests.support.services import Woken


class Host:
    """What the acker knows of its runner. `end` ends a handler."""

    def __init__(self, coordinators: Sequence[Coordinator]) -> None:
        self.runner_id = 1
        self.other_runners = 0
        self.is_confirmed = True
        self.running: dict[int, tuple[Claimed, Scan]] = {}
        self.settling: set[int] = set()
        self.started: list[Claimed] = []
        self.deaths = 0
        self._coordinators = {coordinator.queue: coordinator for coordinator in coordinators}

    def running_ids(self) -> Collection[int]:
        return {*self.running, *self.settling}

    def may_take_suspect(self, scan: Scan) -> bool:
        return not any(job.suspicion for job, _ in self.running.values())

    def start_attempt(self, job: Claimed, scan: Scan) -> None:
        assert job.id not in self.running, f"job {job.id} was started twice"
        self._coordinators[scan.queue].slots.take(scan.lane)
        self.running[job.id] = job, scan
        self.started.append(job)

    def declared_dead(self) -> None:
        self.deaths += 1

    def end(self, job_id: int) -> Claimed:
        """Free the slot of a handler that ended; its job."""
        job, scan = self.running.pop(job_id)
        self._coordinators[scan.queue].slots.give_back(scan.lane)
        return job


class Gate:
    """Which types it may claim."""

    def __init__(self) -> None:
        self.open: list[str] = ["email"]
        self.allowed: list[Probe] = []
        self.found: list[list[int]] = []

    def types(self) -> Sequence[str]:
        return self.open

    def probes(self) -> Sequence[Probe]:
        return self.allowed

    def claimed(self, probes: Sequence[Probe], claimed: Sequence[Claimed], seconds: float) -> None:
        self.found.append([job.id for job in claimed])


class Acking:
    """An acker, its host, and what they said."""

    def __init__(self, database: Database, connection: Connection, queues: Sequence[Queue], **options: Any) -> None:
        self.connection = connection
        self.events = Events()
        self.seen: list[Event] = []
        self.events.subscribe(self.seen.append)
        self.notified: list[str] = []
        self.is_keyed = False
        self.wakes = Wakes(self.notified.append)
        self.woken = Woken()
        self.wakes.add(self.woken)
        loop = asyncio.get_running_loop()
        self.coordinators = [Coordinator(queue, ask=self._ask, later=loop.call_later) for queue in queues]
        self.host = Host(self.coordinators)
        self.gate = Gate()
        self.link = database.link("finish")
        defaults: dict[str, Any] = {"poll_seconds": lambda: 300.0, "reconcile_seconds": 300.0, "max_errors": 10}
        self.acker = Acker(
            self.link,
            self.host,
            self.coordinators,
            gate=cast("Any", self.gate),
            stubs=Stubs({}, queues),
            tokens=Tokens(5),
            wakes=self.wakes,
            events=self.events,
            **(defaults | options),
        )

    def _ask(self) -> None:
        self.acker.wake()

    def put(self, job_id: int, kind: str = "completed", **outcome: Any) -> Ack:
        """End a handler with this outcome."""
        ack = an_ack(self.host.end(job_id), kind, **outcome)
        self.acker.put(ack)
        return ack

    def wake(self, **options: Any) -> None:
        """Jobs became pending."""
        for coordinator in self.coordinators:
            coordinator.wake(**options)

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of this kind so far."""
        return [event for event in self.seen if isinstance(event, kind)]

    async def row(self, job_id: int) -> Any:
        """The job's row."""
        return await self.connection.fetchrow("SELECT * FROM asyncjobs.jobs WHERE id = $1", job_id)

    async def enqueue(self, count: int = 1, **columns: Any) -> list[int]:
        """Pending jobs of which nobody was told."""
        return [await insert_job(self.connection, **columns) for _ in range(count)]

    async def enqueue_keyed(self, count: int, key: str = "k") -> list[int]:
        """Jobs of a key, of which nobody was told. What is left of them at the end is taken away."""
        self.is_keyed = True
        link = self.link.database.link("enqueue")
        try:
            ids = await jobs.reserve_ids(link, count)
            await jobs.enqueue(link, [a_row(serialization_key=key)] * count, ids, ids)
        finally:
            await link.close()
        return ids

    async def wait_running(self, count: int) -> list[int]:
        """Wait until so many handlers run; their jobs."""
        await eventually(lambda: len(self.host.running) == count, description=f"{count} handlers run")
        return list(self.host.running)

    async def wait_idle(self) -> None:
        """Wait until all is written."""
        async with patience(10):
            await self.acker.wait_idle()


@asynccontextmanager
async def acking(database: Database, connection: Connection, *queues: Queue, **options: Any) -> AsyncGenerator[Acking]:
    """An acker that runs while the context is open, for a registered runner with id 1, and has had its first look.

    What runs at the end is completed.
    """
    await insert_runner(connection, id=1)
    made = Acking(database, connection, queues or [Queue(concurrency=5)], **options)
    task = asyncio.create_task(made.acker.run())
    try:
        await eventually(lambda: not any(one.is_hungry for one in made.coordinators), description="the first look is over")
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])
        await made.link.close()
        await connection.execute(
            "UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now(), runner_id = NULL WHERE status = 'processing'"
        )
        if made.is_keyed:
            await connection.execute(
                "DELETE FROM asyncjobs.serialized_jobs; DELETE FROM asyncjobs.jobs WHERE serialization_key IS NOT NULL"
            )
    assert task.cancelled(), "the acker ended by itself"
