"""Processes that enqueue: jobs of all kinds, at random, each of them at the same keys as the others, and what they were told."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from random import Random
from typing import Any, Final

from asyncjobs import AsyncJobs
from asyncjobs.errors import AsyncJobsError, KeyNotFound, StateError
from asyncjobs.store.failures import DATABASE_ERRORS
from asyncjobs.testing import Held
from tests.simulation.course import Course
from tests.simulation.flows import Flows
from tests.simulation.process import Process

_ERRORS: Final = (AsyncJobsError, *DATABASE_ERRORS)


#: For so long a resume whose request or answer was lost may come after it was sent.
_LOST_SECONDS: Final = 20.0


class Told:
    """What all clients were told, and did."""

    def __init__(self, *, is_lossy: bool) -> None:
        self.held: list[Held] = []  # pauses that were answered
        self._is_lossy = is_lossy
        self._resumes: dict[tuple[str, str], float] = {}  # until when one may be under way
        self._resuming: Counter[tuple[str, str]] = Counter()  # how many are
        self.number = 0  # the latest that was given to a job
        self.accepted: dict[int, list[int]] = {}  # number -> ids that the enqueue said
        self.due: dict[int, float] = {}  # id -> when it was accepted and due
        self.steered: set[int] = set()  # workflows of which an operator has retried some
        self.retried: set[int] = set()  # ids that an operator started over, perhaps
        self.released: set[int] = set()  # heads that halted their keys, before these were let go
        self.deleted: set[int] = set()  # ids that somebody's hand has deleted

    def paused(self, kind: Any, name: str, claimed: Collection[int], sent_at: float, now: float) -> None:
        """A pause was answered. It says nothing if a resume was under way that may have come after it."""
        if self._resumes.get((kind, name), 0.0) <= sent_at:
            self.held.append(Held(kind, name, now, claimed))

    def resumes(self, kind: Any, name: str, now: float) -> None:
        """A resume is sent: from now on what is paused may start."""
        self._resumes[kind, name] = now + _LOST_SECONDS if self._is_lossy else float("inf")
        self._resuming[kind, name] += 1
        self.held = [
            one._replace(resumed_at=min(one.resumed_at, now)) if (one.kind, one.name) == (kind, name) else one
            for one in self.held
        ]

    def resumed(self, kind: Any, name: str, now: float) -> None:
        """It was answered, or has failed: where no answer is lost that is the end of it."""
        self._resuming[kind, name] -= 1
        if not self._is_lossy and not self._resuming[kind, name]:
            self._resumes[kind, name] = now


class Client(Flows):
    """Enqueues through an open app, and acts as its operator."""

    def __init__(self, process: Process, jobs: AsyncJobs, random: Random, course: Course, told: Told) -> None:
        self.process = process
        self.jobs = jobs
        self.random = random
        self.told = told
        self.is_done = False
        self._crossing = asyncio.Lock()
        self.course = course

    async def work(self) -> None:
        """All of it, some of it at the same time."""
        course = self.course
        ways: list[Callable[[], Awaitable[None]]] = [getattr(self, "_" + way) for way in course.ways]
        under_way: list[asyncio.Task[None]] = []
        try:
            while self.told.number < course.jobs:
                await asyncio.sleep(self.random.expovariate(course.jobs / course.clients / course.seconds))
                way = self.random.choice(ways)
                together = self.random.choice([1, 1, 1, 3])
                under_way += [asyncio.create_task(self._go(way)) for _ in range(together)]
            await asyncio.gather(*under_way)
        finally:
            for task in under_way:
                task.cancel()
        await self._clear_up()

    async def _go(self, way: Callable[[], Awaitable[None]]) -> None:
        try:
            await way()
        except _ERRORS as error:
            self.process.world.trace("failed", self.process.name, type(error).__name__)
            if self.course.is_calm:
                self.process.world.violations.append(f"P1: an enqueue failed where nothing does: {error!r}")

    async def _clear_up(self) -> None:
        """Nothing stays paused, or halted."""
        self.is_done = True
        while True:
            with contextlib.suppress(*_ERRORS):
                for pause in await self.jobs.admin.pauses():
                    await self._resume(pause.kind, pause.name)
                for key in await self.jobs.admin.keys() if "halt" in self.course.ways else ():
                    if key.halted_at is not None:
                        self.told.released.add(key.head_id)
                        await self.jobs.admin.release_key(key.key)
            await asyncio.sleep(4.0 if {"pause", "halt"} & set(self.course.ways) else 1000.0)

    async def _resume(self, kind: Any, name: str) -> None:
        self.told.resumes(kind, name, self.process.world.now)
        try:
            await self.jobs.admin.resume(**{kind: name})
        finally:
            self.told.resumed(kind, name, self.process.world.now)

    def new(self, *, seconds: float | None = None, **options: Any) -> Any:
        self.told.number += 1
        plan = list(self.random.choice(self.course.plans))
        drawn = self.random.choice(self.course.durations)
        payload = {"plan": plan, "seconds": drawn if seconds is None else seconds, "number": self.told.number}
        return self.told.number, "act", payload, {"queue": self.random.choice(["default", "default", "side"]), **options}

    async def _enqueue(self, job_type: str = "act", **options: Any) -> int:
        number, _, payload, given = self.new(**options)
        handle = await self.jobs.enqueue(job_type, payload, **given)
        self._accepted(number, handle.id, options.get("delay") or 0.0)
        return handle.id

    def _accepted(self, number: int, job_id: int, delay: float = 0.0) -> None:
        self.told.accepted.setdefault(number, []).append(job_id)
        self.told.due.setdefault(job_id, self.process.world.now + delay)

    def key(self) -> str:
        return self.random.choice(self.course.keys)

    async def _plain(self) -> None:
        await self._enqueue(priority=self.random.choice([100, 100, 1]))

    async def _keyed(self) -> None:
        await self._enqueue(serialization_key=self.key())

    async def _line(self) -> None:
        """Several of one key and one queue, one behind the other."""
        key = self.key()
        for _ in range(self.random.choice([3, 8])):
            await self._enqueue(serialization_key=key, queue="default")

    async def _delayed(self) -> None:
        key = self.random.choice([None, self.key(), self.key()])
        await self._enqueue(delay=self.random.choice([0.2, 1.0, 3.0]), serialization_key=key)

    async def _many(self) -> None:
        await asyncio.gather(*(self._keyed() if self.random.random() < 0.5 else self._plain() for _ in range(4)))

    async def _dedup(self) -> None:
        await self._enqueue(dedup_key=self.random.choice("xy"), serialization_key=self.random.choice([None, self.key()]))

    async def _expiring(self) -> None:
        """Some that may not be started in time, some of them delayed, one behind the other."""
        for _ in range(self.random.choice([1, 4])):
            await self._enqueue(
                expires=self.random.choice([0.2, 0.2, 1.0, 4.0]), delay=self.random.choice([None, None, 0.3]),
                serialization_key=self.random.choice([None, None, self.key()]),
            )  # fmt: skip

    async def _limited(self) -> None:
        """Some of one limit key, perhaps urgent, perhaps of a serialization key, too."""
        key = self.key()
        for _ in range(self.random.choice([1, 4])):
            await self._enqueue(
                "limited", limit_key=key, priority=self.random.choice([100, 100, 1]),
                serialization_key=self.random.choice([None, None, None, key]),
            )  # fmt: skip

    async def _limited_here(self) -> None:
        """One in a transaction of its own, which takes its time, or is rolled back."""
        await self._here("limited", limit_key=self.key())

    async def _starting(self) -> None:
        """Several of one dedup key, which is free as soon as one has been started: none is lost."""
        key = self.random.choice([None, self.key()])
        for _ in range(self.random.choice([1, 3])):
            number, type, payload, given = self.new(
                dedup_key=f"s{key}", dedup_until="start", serialization_key=key,
                on_duplicate=self.random.choice(["return", "replace"]),
            )  # fmt: skip
            handle = await self.jobs.enqueue(type, payload, **given)
            self._accepted(number, handle.id)
            if handle.did == "dropped":
                self.process.world.violations.append(f"dedup: an enqueue was dropped for job {handle.id}, which had started")

    async def _cancel(self) -> None:
        job_id = await self._enqueue(
            serialization_key=self.random.choice([None, self.key()]), delay=self.random.choice([None, 1.0])
        )
        await asyncio.sleep(self.random.random())
        await self.jobs.admin.cancel(job_id)

    async def _halt(self) -> None:
        """A job of which the key halts when it dies; perhaps started over."""
        job_id = await self._enqueue("halting", serialization_key=self.key())
        if self.random.random() < 0.5:
            await self._start_over(job_id)

    async def _retry(self) -> None:
        await self._start_over(await self._enqueue(serialization_key=self.random.choice([None, self.key()])))

    async def _start_over(self, job_id: int) -> None:
        await asyncio.sleep(self.random.choice([0.5, 3.0]))
        self.told.retried.add(job_id)
        await self.jobs.admin.retry(job_id)

    async def _pause(self) -> None:
        kind, name = self.random.choice([("key", self.key()), ("type", "act"), ("queue", "default")])
        sent_at = self.process.world.now
        await self.jobs.admin.pause(**{kind: name})
        self.told.paused(kind, name, self.process.claimed, sent_at, self.process.world.now)
        await self._enqueue(serialization_key=self.random.choice([None, self.key()]))
        await asyncio.sleep(self.random.choice([0.1, 2.0]))
        await self._resume(kind, name)

    async def _press(self) -> None:
        """A line of jobs that end at once, and a pause in its middle."""
        key = self.key()
        await asyncio.gather(*(self._enqueue(serialization_key=key, seconds=0.0) for _ in range(6)))
        await asyncio.sleep(self.random.random() * 0.01)
        sent_at = self.process.world.now
        await self.jobs.admin.pause(key=key)
        self.told.paused("key", key, self.process.claimed, sent_at, self.process.world.now)
        await asyncio.sleep(0.2)
        await self._resume("key", key)

    async def _touch(self) -> None:
        """An operator wants a key to go on that is not halted: the row of its head is locked for a moment, and left as it is."""
        key = self.key()
        await self._enqueue(serialization_key=key)
        with contextlib.suppress(KeyNotFound, StateError):
            await self.jobs.admin.release_key(key)

    async def _chase(self) -> None:
        """A delayed job, and another that is to be due soon, of which is told at about the time at which the first one is due."""
        await self._enqueue(delay=0.3)
        await asyncio.sleep(0.2 + 0.3 * self.random.random())
        await self._enqueue(delay=0.1)
        await asyncio.sleep(1.7)

    async def _cross(self) -> None:
        """Of two keys one has one job, the other two: the first ones end together, and then both are enqueued for at once."""
        async with self._crossing:
            await asyncio.gather(*(self._enqueue(serialization_key=key, seconds=0.05, queue="default") for key in "aab"))
            await asyncio.sleep(self.random.uniform(0.05, 0.1))
            await self._enqueue_for("a", "b", seconds=0.05)
            await asyncio.sleep(0.8)

    async def _enqueue_for(self, *keys: str, seconds: float) -> None:
        """One for each, in one transaction."""
        connection = await self.process.world.connect(self.process, "application", 5.0)
        enqueued: dict[int, int] = {}
        try:
            async with connection.transaction():
                for key in keys:
                    number, type, payload, options = self.new(serialization_key=key, seconds=seconds)
                    enqueued[number] = (await self.jobs.enqueue(type, payload, connection=connection, **options)).id
            for number, job_id in enqueued.items():
                self._accepted(number, job_id)
        finally:
            connection.terminate()

    async def _here(self, type: str = "act", **given: Any) -> None:
        """In a transaction of its own, which may be rolled back, and may take its time."""
        key = self.random.choice([None, self.key(), self.key()])
        number, _, payload, options = self.new(serialization_key=key, **given)
        connection = await self.process.world.connect(self.process, "application", 5.0)
        try:
            with contextlib.suppress(_RolledBack):
                async with connection.transaction():
                    handle = await self.jobs.enqueue(type, payload, connection=connection, **options)
                    await asyncio.sleep(self.random.choice([0.0, 0.0, 1.0, 2.5]))
                    if self.random.random() < 0.3:
                        raise _RolledBack
                self._accepted(number, handle.id)
        finally:
            connection.terminate()

    async def _joined(self) -> None:
        """Several in one transaction, which takes its time between them: they join the lines of their keys at its commit."""
        isolation = self.random.choice([None, None, "repeatable_read"])
        connection = await self.process.world.connect(self.process, "application", 5.0)
        enqueued: dict[int, int] = {}
        try:
            with contextlib.suppress(_RolledBack):
                async with connection.transaction(isolation=isolation):
                    for _ in range(self.random.choice([2, 3])):
                        number, type, payload, options = self.new(serialization_key=self.key())
                        handle = await self.jobs.enqueue(type, payload, connection=connection, **options)
                        enqueued[number] = handle.id
                        await asyncio.sleep(self.random.choice([0.0, 0.01, 0.5]))
                    if self.random.random() < 0.2:
                        raise _RolledBack
                for number, job_id in enqueued.items():
                    self._accepted(number, job_id)
        finally:
            connection.terminate()

    async def _replace(self) -> None:
        key = self.random.choice([None, self.key()])
        await self._enqueue(
            dedup_key=self.random.choice("xy"), on_duplicate="replace", serialization_key=key,
            delay=self.random.choice([None, 1.0]),
        )  # fmt: skip

    async def _swap(self) -> None:
        """Jobs with keys are enqueued and replaced in a transaction: it waits for their rows and their keys when it commits."""
        connection = await self.process.world.connect(self.process, "application", 5.0)
        try:
            async with connection.transaction():
                for _ in range(self.random.choice([1, 2])):
                    _, type, payload, options = self.new(
                        dedup_key=self.random.choice("xy"), on_duplicate="replace", serialization_key=self.key(),
                        delay=self.random.choice([None, None, 0.3]),
                    )  # fmt: skip
                    await self.jobs.enqueue(type, payload, connection=connection, **options)
        finally:
            connection.terminate()

    async def _move(self) -> None:
        """A job that waits for its time is started over and replaced, at the same time, while the head of its key ends."""
        async with self._crossing:
            given: dict[str, Any] = {"serialization_key": self.key(), "dedup_key": "m", "seconds": 0.0}
            await self._enqueue(serialization_key=given["serialization_key"], seconds=self.random.uniform(0.1, 0.5))
            job_id = await self._enqueue(**given, delay=8.0)
            self.told.retried.add(job_id)
            await asyncio.gather(self.jobs.admin.retry(job_id), self._replace_soon(given))
            await asyncio.sleep(0.5)

    async def _replace_soon(self, given: dict[str, Any]) -> None:
        await asyncio.sleep(0.01)
        connection = await self.process.world.connect(self.process, "application", 5.0)
        try:
            async with connection.transaction():
                _, type, payload, options = self.new(**given, on_duplicate="replace")
                await self.jobs.enqueue(type, payload, connection=connection, **options)
        finally:
            connection.terminate()

    async def _sweep(self) -> None:
        """An operator cancels all there is."""
        await self._many()
        await self.jobs.admin.cancel_all(type="act")

    async def _revive(self) -> None:
        """A job that was killed is brought back to life; the same is enqueued when its dedup key is not kept for it any more."""
        given: dict[str, Any] = {"dedup_key": "z", "serialization_key": self.random.choice([None, self.key()])}
        job_id = await self._enqueue(**given, dedup_for=0.8, delay=self.random.choice([None, 0.3]), seconds=2.0)
        await self.jobs.admin.kill(job_id)
        self.told.retried.add(job_id)
        await self.jobs.admin.retry(job_id)
        await asyncio.sleep(1.0)
        await self._enqueue(**given)

    async def _end(self) -> None:
        """An operator kills a job, or fails what runs."""
        job_id = await self._enqueue(
            serialization_key=self.random.choice([None, self.key()]), delay=self.random.choice([None, None, 1.0])
        )
        await asyncio.sleep(self.random.choice([0.0, 0.1, 1.0]))
        if self.random.random() < 0.5:
            await self.jobs.admin.kill(job_id)
        else:
            await self.jobs.admin.fail(job_id, will_retry=self.random.random() < 0.7)

    async def _requeue(self) -> None:
        """Jobs are killed, and what died is given another try."""
        await self.jobs.admin.kill(await self._enqueue(serialization_key=self.key()))
        await asyncio.sleep(self.random.choice([0.0, 0.5]))
        for dead_letter in (await self.jobs.admin.dead_letters(limit=3)).dead_letters:
            if dead_letter.requeued_as is None:
                done = await self.jobs.admin.requeue(dead_letter.id, by="operator")
                if done.new_id is not None:
                    self._accepted(-done.new_id, done.new_id)


class _RolledBack(Exception):
    pass
