"""The coordinators, the call line and the actors of a runner at work, for handlers that are the test's own hands."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

from asyncjobs.model.claim import Ack, Claimed, Probe
from asyncjobs.runtime.call_line import CallLine
from asyncjobs.runtime.coordinator import Coordinator, Shared
from asyncjobs.runtime.keys import KeyActors
from asyncjobs.runtime.orders import refuse
from asyncjobs.runtime.polling import Polling
from asyncjobs.runtime.probation import Probation
from asyncjobs.runtime.queues import Queues
from asyncjobs.runtime.stubs import Stubs
from asyncjobs.runtime.tokens import Tokens
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.settings import Queue, Settings
from asyncjobs.store import jobs
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Event, Events
from tests.support.claims import an_ack
from tests.support.eventually import eventually, patience
from tests.support.factories import a_row, insert_job, insert_runner
from tests.support.services import Woken


class Host:
    """Under which id they work, whether they may, and what runs by the test's hands."""

    def __init__(self) -> None:
        self.runner_id = 1
        self.other_runners = 0
        self.is_confirmed = True
        self.running: dict[int, tuple[Claimed, str | None]] = {}
        self.started: list[Claimed] = []
        self.deaths = 0

    def declared_dead(self) -> None:
        self.deaths += 1


class ByHand(Coordinator):
    """Starts nothing but a note that it did."""

    def __init__(self, queue: Queue, shared: Shared, host: Host) -> None:
        super().__init__(queue, shared)
        self.host = host

    def start(self, job: Claimed, lane: str | None) -> None:
        assert job.id not in self.host.running, f"job {job.id} was started twice"
        if job.losses:
            self._shared.probation.began(job)
        self.host.running[job.id] = job, lane
        self.host.started.append(job)

    def end(self, job_id: int, ack: Ack, *, completed_in_transaction: bool = False) -> None:
        """The handler ends."""
        job, lane = self.host.running.pop(job_id)
        self._ended(cast("Any", SimpleNamespace(claimed=job, lane=lane, completed_in_transaction=completed_in_transaction)), ack)

    @property
    def is_hungry(self) -> bool:
        """Whether there is something that it has not seen."""
        return not self.is_stopped and self._is_hungry


class Turnstile:
    """Which types they may claim."""

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

    def ended(self, job: Claimed) -> None: ...

    def is_held(self, job: Claimed) -> bool:
        return False


class AtWork:
    """A call line, its coordinators and actors, and what they said."""

    def __init__(
        self, database: Database, connection: Connection, queues: Sequence[Queue], *, poll_seconds: float = 300.0, **options: Any
    ) -> None:
        self.connection = connection
        self.events = Events()
        self.seen: list[Event] = []
        self.events.subscribe(self.seen.append)
        self.notified: list[str] = []
        self.is_keyed = False
        self.wakes = Wakes(self.notified.append)
        self.woken = Woken()
        self.wakes.add(self.woken)
        self.verified: list[Ack] = []
        self.host, self.turnstile, self.queues = Host(), Turnstile(), Queues()
        self.link = database.link("finish")
        self.pool = Pool(database, 1)
        probation = Probation(self.pool, events=self.events, released=self.queues.look_at_the_front)
        defaults: dict[str, Any] = {
            "reconcile_seconds": 300.0, "max_errors": 10, "has_many": len(queues) > 1,
            "most_unwritten": sum(3 * queue.concurrency + queue.prefetch for queue in queues),
        }  # fmt: skip
        self.line = CallLine(
            self.link, turnstile=cast("Any", self.turnstile), probation=probation, stubs=Stubs({}, queues, Settings()),
            tokens=Tokens(5), wakes=self.wakes, events=self.events, runner_id=lambda: self.host.runner_id,
            may_claim=lambda: self.host.is_confirmed, declared_dead=self.host.declared_dead, is_ample=self.queues.is_ample,
            **(defaults | options),
        )  # fmt: skip
        verifier: Any = SimpleNamespace(verify=self._verify)
        self.keys = KeyActors(self.line, self.queues, verifier, self.pool, self.wakes, events=self.events)
        self.polling = Polling(lambda: poll_seconds)
        nobody: Any = SimpleNamespace(add=lambda _: None, remove=lambda _: None)
        shared = Shared(
            line=self.line, attempts=nobody, handlers={}, surroundings=cast("Any", None), polling=self.polling,
            turnstile=cast("Any", self.turnstile), probation=probation, keys=self.keys, verify=self._verify, note=lambda *_: None,
            others=lambda: self.host.other_runners,
        )  # fmt: skip
        self.running: list[asyncio.Task[None]] = []
        self.coordinators = [ByHand(queue, shared, self.host) for queue in queues]
        for coordinator in self.coordinators:
            self.queues.add(coordinator)

    def _verify(self, _attempt: Any, ack: Ack) -> None:
        self.verified.append(ack)

    def put(self, job_id: int, kind: str = "completed", **outcome: Any) -> Ack:
        """End a handler with this outcome."""
        job, _ = self.host.running[job_id]
        ack = an_ack(job, kind, **outcome)
        self.queues[job.queue].end(job_id, ack)  # type: ignore[attr-defined]
        return ack

    def complete_in_transaction(self, job_id: int) -> None:
        """End a handler that has completed its job in a transaction."""
        job, _ = self.host.running[job_id]
        self.queues[job.queue].end(job_id, an_ack(job), completed_in_transaction=True)  # type: ignore[attr-defined]

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
        """Pending jobs of which nobody was told, and which are there at once."""
        async with self.connection.transaction():
            return [await insert_job(self.connection, **columns) for _ in range(count)]

    async def enqueue_keyed(self, count: int, key: str = "k", **columns: Any) -> list[int]:
        """Jobs of a key, of which nobody was told. What is left of them at the end is taken away."""
        self.is_keyed = True
        link = self.link.database.link("enqueue")
        try:
            ids = await jobs.reserve_ids(link, count)
            await jobs.enqueue(link, [a_row(serialization_key=key, **columns)] * count, ids, ids)
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
            await self.keys.wait_passed_on()
            await self.line.wait_idle()

    @property
    def tasks(self) -> list[Any]:
        """What runs, by the order of their start."""
        return [self.line.run, *(actor.run for actor in self.keys.actors), *(one.run for one in self.coordinators)]

    def again(self, at: int) -> None:
        """End what runs there, and start it again."""
        self.running[at].cancel()
        self.running[at] = asyncio.create_task(self.tasks[at]())

    @property
    def accounted(self) -> set[int]:
        """Where the jobs are that are ours: they run, wait for a slot, are an actor's, a verifier's, or the line's."""
        waiting = {job_id for coordinator in self.coordinators for job_id in coordinator.stock._line}
        taken = {ack.id for actor in self.keys.actors for ack in actor.taken}
        outcomes = {ack.id for ack in self.line._ledger.unwritten.values()}
        return {*self.host.running, *waiting, *taken, *outcomes, *(ack.id for ack in self.verified)}

    @property
    def is_satisfied(self) -> bool:
        """Whether no coordinator wants anything, now or in a moment: else it would see half of what a test writes."""
        return not any(one.is_hungry or one._is_look_planned for one in self.coordinators)


@asynccontextmanager
async def at_work(database: Database, connection: Connection, *queues: Queue, **options: Any) -> AsyncGenerator[AtWork]:
    """All of it runs while the context is open, for a registered runner with id 1, and has had its first look.

    What runs at the end is completed.
    """
    await insert_runner(connection, id=1)
    made = AtWork(database, connection, queues or [Queue(concurrency=5)], **options)
    made.host.other_runners = 1  # the look for what the first scans have skipped comes sooner
    tasks = made.running = [asyncio.create_task(run()) for run in made.tasks]
    try:
        await eventually(lambda: made.is_satisfied, description="the first look is over")
        made.host.other_runners = 0
        yield made
        await eventually(lambda: set(made.line.claims) == made.accounted, description="the ledger is what there is")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        refuse(made.line._orders)
        made.polling.close()
        await made.link.close()
        await made.pool.close()
        await connection.execute(
            "UPDATE asyncjobs.jobs SET status = 'completed', completed_at = now(), runner_id = NULL WHERE status = 'processing'"
        )
        if made.is_keyed:
            await connection.execute(
                "DELETE FROM asyncjobs.serialized_jobs; DELETE FROM asyncjobs.jobs WHERE serialization_key IS NOT NULL"
            )
    for task in tasks[: 1 + len(made.keys.actors)]:
        assert task.cancelled(), "a part ended by itself"
    for lane in (lane for coordinator in made.coordinators for lane in coordinator.lanes.values()):
        held = sum(slot == lane.name for _, slot in made.host.running.values())
        assert len(made.coordinators) > 1 or lane.slots.taken == held, "slots are lost"
