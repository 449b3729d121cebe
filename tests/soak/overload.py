"""More than can be: enqueues arrive at twice the rate that one runner and one enqueuing process sustain, and afterwards stop.

1. Measured first: so many callers as there may be, each enqueues the next job when its last is accepted. What is accepted *and
   done* in a second is what is sustained: no backlog grows.
2. Then jobs arrive at twice that rate, whatever becomes of those before. As a server does that sheds load, one that finds
   `most_in_flight` others waiting is turned away: all that asyncjobs holds is bounded by that, and by the room of its batchers.
3. The backlog drains. What is enqueued then is accepted and starts as fast as before.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Final
from unittest.mock import patch

import msgspec

from asyncjobs.testing import Ready, Serving
from tests.programs import soak as program
from tests.soak import spool
from tests.soak.figures import resident_mib
from tests.soak.judge import Verdict, Waited, judge
from tests.support.eventually import eventually
from tests.support.own_server import OwnServer
from tests.support.program import Program

_TIMES: Final = 2.0
_CALLERS: Final = 200
_PROBES: Final = 50
_TICK_SECONDS: Final = 0.005
_EVENTS_A_JOB: Final = 3
_SAMPLED: Final = 50  # one of so many


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How much, for how long."""

    measure_seconds: float = 8.0
    seconds: float = 60.0
    most_in_flight: int = 15_000  # more than there is room for in a batcher
    least_rate: float = 0.0  # whatever was measured


class Latency(msgspec.Struct, frozen=True):
    """Medians, in milliseconds."""

    accepted_ms: float  # from the call to its return
    started_ms: float  # from the call to the start of the attempt

    def __str__(self) -> str:
        return f"accepted after {self.accepted_ms:,.1f} ms, started after {self.started_ms:,.1f} ms"


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    sustained: float  # jobs a second
    arrived: int
    accepted: int
    turned_away: int
    backlog: int  # jobs that waited when the load ended
    drained_seconds: float  # until none did
    before: Latency
    during: Latency
    after: Latency
    client_mib: tuple[float, float, float]  # before, at most, after
    runner_mib: tuple[float, float, float]
    verdict: Verdict

    def __str__(self) -> str:
        client, runner = (" / ".join(f"{one:.0f}" for one in mib) for mib in (self.client_mib, self.runner_mib))
        return (
            f"sustained {self.sustained:,.0f} jobs/s; {self.arrived:,} arrived at twice that, {self.accepted:,} were accepted, "
            f"{self.turned_away:,} turned away; {self.backlog:,} waited at the end, for {self.drained_seconds:.1f} s\n"
            f"before: {self.before}\nduring: {self.during}\nafter:  {self.after}\n"
            f"MiB before / at most / after: enqueuing process {client}, runner {runner}\n{self.verdict}"
        )


class Overload:
    """One load on a server with an empty migrated database."""

    def __init__(self, server: OwnServer, load: Load, folder: Path) -> None:
        self.load = load
        self.accepted: list[int] = []
        self.turned_away = self.arrived = 0
        self._server, self._spool = server, folder / "spool-load"
        self._in_flight = 0
        self._sent: dict[int, tuple[float, float]] = {}  # of some jobs: when it was sent, and accepted
        self._client_most = self._runner_most = 0.0
        self._to_monotonic = time.monotonic() - time.time()

    async def run(self) -> LoadReport:
        """All of it; the runner has stopped in good order when it returns."""
        self._server.fetch(program.EFFECTS)
        env = {"ASYNCJOBS_DSN": self._server.dsn, "SPOOL": str(self._spool)}
        async with AsyncExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, env))
            runner = await stack.enter_async_context(Program.python("-m", "tests.programs.soak"))
            registered = await runner.line("registered", timeout=60)
            serving = Serving(int(registered.split()[1]), "default", program.SLOTS, time.monotonic())
            await stack.enter_async_context(program.jobs)
            sustained = await self._measure()
            await self._drained()
            before, memory = await self._probe(), self._memory(runner)
            during, backlog, seconds = await self._overload(max(sustained * _TIMES, self.load.least_rate), runner)
            after, memory_after = await self._probe(), self._memory(runner)
            serving = serving._replace(until=time.monotonic())
            runner.terminate()
            assert await runner.wait(timeout=60) == 0, runner.said[-3000:]
        ready = [Ready(job_id, accepted_at, "default") for job_id, (_, accepted_at) in self._sent.items()]
        waited = Waited(ready, [serving])
        verdict = await judge(self._server.dsn, [self._spool], self.accepted, self._to_monotonic, waited)
        starts = self._starts()
        return LoadReport(
            sustained=sustained, arrived=self.arrived, accepted=len(self.accepted), turned_away=self.turned_away,
            backlog=backlog, drained_seconds=seconds, before=self._latency(before, starts), during=self._latency(during, starts),
            after=self._latency(after, starts), client_mib=(memory[0], self._client_most, memory_after[0]),
            runner_mib=(memory[1], self._runner_most, memory_after[1]), verdict=verdict,
        )  # fmt: skip

    async def _enqueue(self, *, is_sampled: bool = False) -> None:
        sent = time.monotonic()
        handle = await program.plain.enqueue()
        self.accepted.append(handle.id)
        if is_sampled:
            self._sent[handle.id] = sent, time.monotonic()

    @property
    def _done(self) -> int:
        return self._spool.stat().st_size // (spool.SIZE * _EVENTS_A_JOB)

    async def _drained(self) -> None:
        await eventually(lambda: self._done >= len(self.accepted), description="the backlog is done", timeout=600)

    # The parts.

    async def _measure(self) -> float:
        ends = time.monotonic() + self.load.measure_seconds
        began, done = time.monotonic(), self._done

        async def call() -> None:
            while time.monotonic() < ends:
                await self._enqueue()

        await asyncio.gather(*(call() for _ in range(_CALLERS)))
        return min(len(self.accepted), self._done - done) / (time.monotonic() - began)

    async def _probe(self) -> list[int]:
        """Jobs on an idle system, one after the other."""
        known = set(self._sent)
        for _ in range(_PROBES):
            await self._enqueue(is_sampled=True)
            await asyncio.sleep(_TICK_SECONDS)
        await self._drained()
        return [job_id for job_id in self._sent if job_id not in known]

    async def _overload(self, rate: float, runner: Program) -> tuple[list[int], int, float]:
        known = set(self._sent)
        async with asyncio.TaskGroup() as group:
            began = time.monotonic()
            while (passed := time.monotonic() - began) < self.load.seconds:
                self._arrive(int(passed * rate) - self.arrived, group)
                self._note(runner)
                await asyncio.sleep(_TICK_SECONDS)
        backlog = len(self.accepted) - self._done
        ended = time.monotonic()
        await self._drained()
        self._note(runner)
        return [job_id for job_id in self._sent if job_id not in known], backlog, time.monotonic() - ended

    def _arrive(self, count: int, group: asyncio.TaskGroup) -> None:
        for _ in range(count):
            self.arrived += 1
            if self._in_flight >= self.load.most_in_flight:
                self.turned_away += 1
                continue
            self._in_flight += 1
            group.create_task(self._enqueue(is_sampled=self.arrived % _SAMPLED == 0)).add_done_callback(self._landed)

    def _landed(self, _task: "asyncio.Task[None]") -> None:
        self._in_flight -= 1

    # What it takes.

    def _memory(self, runner: Program) -> tuple[float, float]:
        return resident_mib(os.getpid()), resident_mib(runner.pid)

    def _note(self, runner: Program) -> None:
        client, running = self._memory(runner)
        self._client_most, self._runner_most = max(self._client_most, client), max(self._runner_most, running)

    def _starts(self) -> dict[int, float]:
        return {entry.job_id: entry.at for entry in spool.entries(self._spool) if entry.kind == spool.STARTED}

    def _latency(self, job_ids: Sequence[int], starts: dict[int, float]) -> Latency:
        sent = [self._sent[job_id] for job_id in job_ids]
        accepted = median(accepted_at - sent_at for sent_at, accepted_at in sent)
        started = median(starts[job_id] - self._sent[job_id][0] for job_id in job_ids)
        return Latency(accepted * 1000, started * 1000)
