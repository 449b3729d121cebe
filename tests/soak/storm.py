"""Many jobs from end to end while their runners are killed, their server is restarted, and one of them is cut off.

Three runners. Two are victims: every few seconds one of them gets SIGKILL, and another is started in its place. The third stays:
it is behind a proxy that becomes a black hole until the others declare it dead; its memory is watched. The server is
ended in each of the ways there are, and comes back. Meanwhile jobs are enqueued in bulk, one by one, and in transactions, a
third of them on keys, never more than `ahead` before the runners. It goes on until all faults have happened, and every job has
ended.
"""

import array
import asyncio
import os
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import asyncpg
import msgspec

from asyncjobs.declare.definition import NewJob
from asyncjobs.errors import AsyncJobsError
from asyncjobs.store.failures import DATABASE_ERRORS
from asyncjobs.testing import Proxy
from tests.programs import soak as program
from tests.soak import spool
from tests.soak.figures import Sample, private_mib, resident_mib, sockets, trimmed_mib
from tests.soak.judge import Verdict, judge
from tests.support.eventually import eventually
from tests.support.own_server import End, OwnServer
from tests.support.program import Program

_SINGLES: Final = 24
_EVENTS_A_JOB: Final = 3
_ERRORS: Final = (AsyncJobsError, *DATABASE_ERRORS, TimeoutError, OSError)
_ENDS: Final[tuple[End, ...]] = ("immediate", "crash", "fast")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything. `seconds`: after so many nothing more is enqueued, and no fault begins."""

    jobs: int = 1_000_000
    keys: int = 500
    kills: int = 20
    kill_every: float = 5.0
    restarts: int = 3
    partitions: int = 2
    seconds: float = 900.0
    runner_timeout: float = 4.8
    ahead: int = 5_000
    sample_every: float = 1.0
    seed: int = 0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    accepted: int
    uncertain: int  # enqueued by calls that failed: there, or not
    kills: int
    restarts: int
    partitions: int
    seconds: float
    samples: Sequence[Sample]
    verdict: Verdict


class Storm:
    """One soak on a server of its own with a migrated database."""

    def __init__(self, server: OwnServer, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.accepted = array.array("q")
        self.uncertain = 0
        self.kills = self.restarts = self.partitions = 0
        self.samples: list[Sample] = []
        self._server, self._folder = server, folder
        self._random = random.Random(plan.seed)
        self._victims: list[Program] = []
        self._spools = 0
        self._parted = asyncio.Lock()
        self._up = asyncio.Lock()  # a runner that finds no server when it starts ends
        self._began = time.monotonic()
        self._to_monotonic = time.monotonic() - time.time()
        self._stack = AsyncExitStack()

    async def run(self) -> Report:
        """All of it; the runners have stopped in good order when it returns."""
        self._server.fetch(program.EFFECTS)
        async with self._stack:
            self._stack.enter_context(patch.dict(os.environ, {"ASYNCJOBS_DSN": self._server.dsn}))
            self._proxy = await self._stack.enter_async_context(Proxy(self._server.dsn))
            self._steady = await self._start(self._proxy.dsn)
            self._victims = [await self._start(self._server.dsn) for _ in range(2)]
            async with program.jobs, self._sampled():
                async with asyncio.TaskGroup() as group:
                    faults = [group.create_task(one) for one in (self._kill_again_and_again(), self._restart(), self._part())]
                    for produce in (self._in_bulk, self._in_transactions, *[self._one_by_one] * _SINGLES):
                        group.create_task(self._produce(produce, faults))
                await eventually(self._is_drained, description="all jobs have ended", timeout=300, interval=0.5)
            for runner in (self._steady, *self._victims):
                runner.terminate()
            for runner in (self._steady, *self._victims):
                assert await runner.wait(timeout=60) == 0, runner.said[-3000:]
        seconds = time.monotonic() - self._began
        verdict = await judge(self._server.dsn, sorted(self._folder.glob("spool-*")), self.accepted, self._to_monotonic)
        return Report(
            accepted=len(self.accepted), uncertain=self.uncertain, kills=self.kills, restarts=self.restarts,
            partitions=self.partitions, seconds=seconds, samples=self.samples, verdict=verdict,
        )  # fmt: skip

    async def _start(self, dsn: str) -> Program:
        path = self._folder / f"spool-{self._spools}"
        self._spools += 1
        env = {"ASYNCJOBS_DSN": dsn, "SPOOL": str(path), "RUNNER_TIMEOUT": str(self.plan.runner_timeout)}
        runner = await self._stack.enter_async_context(Program.python("-m", "tests.programs.soak", env=env))
        await runner.line("registered", timeout=60)
        return runner

    # How far it is.

    @property
    def done(self) -> int:
        """Jobs that have ended, nearly: by what attempts wrote of themselves, which costs no look at a table."""
        size = sum(path.stat().st_size for path in self._folder.glob("spool-*"))
        return size // (spool.SIZE * _EVENTS_A_JOB)

    @property
    def _is_late(self) -> bool:
        return time.monotonic() - self._began > self.plan.seconds

    async def _reaches(self, part: float) -> None:
        """Wait until so much of the jobs is accepted."""
        while len(self.accepted) < self.plan.jobs * part and not self._is_late:
            await asyncio.sleep(0.05)

    async def _is_drained(self) -> bool:
        with suppress(*_ERRORS):
            left = "SELECT EXISTS (SELECT FROM asyncjobs.jobs WHERE status NOT IN ('completed', 'dead', 'cancelled'))"
            return not await self._fetch(left + " OR EXISTS (SELECT FROM asyncjobs.serialized_jobs)")
        return False

    async def _fetch(self, statement: str) -> Any:
        connection = await asyncpg.connect(self._server.dsn, timeout=10, command_timeout=60)
        try:
            return await connection.fetchval(statement)
        finally:
            connection.terminate()

    # What is enqueued.

    async def _produce(self, produce: Callable[[], Awaitable[None]], faults: Sequence["asyncio.Task[None]"]) -> None:
        while not self._is_late and (len(self.accepted) < self.plan.jobs or not all(task.done() for task in faults)):
            if len(self.accepted) - self.done > self.plan.ahead:
                await asyncio.sleep(0.05)
                continue
            await produce()

    def _new(self) -> NewJob[None]:
        draw = self._random.random
        seconds = self._random.choice((0.005, 0.03)) if draw() < 0.05 else 0.0
        failures = int(draw() < 0.02)
        if draw() < 0.01:
            return program.whole.new()
        if draw() < 0.33:
            return program.keyed.new(key=self._random.randrange(self.plan.keys), seconds=seconds, failures=failures)
        return program.plain.using(delay=0.2 if draw() < 0.02 else None).new(seconds=seconds, failures=failures)

    async def _count(self, enqueue: Awaitable[Sequence[int]], count: int) -> None:
        try:
            self.accepted.extend(await enqueue)
        except _ERRORS:
            self.uncertain += count
            await asyncio.sleep(0.2)

    async def _in_bulk(self) -> None:
        async def enqueue() -> list[int]:
            return [handle.id for handle in await program.jobs.enqueue_many([self._new() for _ in range(200)])]

        await self._count(enqueue(), 200)

    async def _one_by_one(self) -> None:
        async def enqueue() -> list[int]:
            return [(await program.jobs.enqueue(self._new())).id]

        await self._count(enqueue(), 1)

    async def _in_transactions(self) -> None:
        async def enqueue() -> list[int]:
            connection = await asyncpg.connect(self._server.dsn, timeout=10, command_timeout=30)
            try:
                async with connection.transaction():
                    made = await program.jobs.enqueue_many([self._new() for _ in range(20)], connection=connection)
                    await asyncio.sleep(0.01)
            finally:
                connection.terminate()
            return [handle.id for handle in made]

        await self._count(enqueue(), 20)

    # What befalls them.

    async def _kill_again_and_again(self) -> None:
        while not self._is_late and (self.kills < self.plan.kills or len(self.accepted) < self.plan.jobs):
            await asyncio.sleep(self.plan.kill_every)
            victim = self._victims.pop(self._random.randrange(2))
            victim.kill()
            await victim.wait()
            self.kills += 1
            async with self._up:
                self._victims.append(await self._start(self._server.dsn))

    async def _restart(self) -> None:
        for number in range(self.plan.restarts):
            await self._reaches((number + 0.5) / self.plan.restarts)
            if not self._is_late:
                async with self._parted, self._up:
                    self._server.end(_ENDS[number % len(_ENDS)])
                    await self._server.back()
                self.restarts += 1

    async def _part(self) -> None:
        for number in range(self.plan.partitions):
            await self._reaches((number + 0.25) / self.plan.partitions)
            if self._is_late:
                return
            async with self._parted:
                await self._cut_off(self._steady)
            self.partitions += 1

    async def _cut_off(self, runner: Program) -> None:
        """Nothing gets through until the others have declared it dead; it registers anew when it hears of that."""

        def registered() -> list[str]:
            return [line for line in runner.output if line.startswith("registered")]

        before = registered()
        number = int(before[-1].split()[1])

        async def is_dead() -> bool:
            with suppress(*_ERRORS):
                return not await self._fetch(f"SELECT EXISTS (SELECT FROM asyncjobs.runners WHERE id = {number})")
            return False

        self._proxy.black_hole()
        await eventually(is_dead, description="it is declared dead", timeout=60, interval=0.1)
        self._proxy.heal()
        await eventually(lambda: len(registered()) > len(before), description="it registers anew", timeout=60)

    # What it takes.

    @asynccontextmanager
    async def _sampled(self) -> AsyncGenerator[None]:
        task = asyncio.create_task(self._sample())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _sample(self) -> None:
        while True:
            with suppress(*_ERRORS):
                found = await self._fetch("SELECT array_agg(pid) FROM pg_stat_activity WHERE application_name LIKE 'asyncjobs %'")
                pids: list[int] = found or []
                self.samples.append(
                    Sample(
                        self.done,
                        resident_mib(self._steady.pid),
                        trimmed_mib(),
                        sum(map(private_mib, pids)),
                        len(pids),
                        sockets(self._steady.pid),
                        sockets("self"),
                    )
                )
            await asyncio.sleep(self.plan.sample_every)
