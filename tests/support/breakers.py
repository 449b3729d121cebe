"""Breakers of several processes on one database, whose clocks a test moves together."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from asyncjobs.errors import CircuitOpen
from asyncjobs.model.breaker import Circuit, Policy
from asyncjobs.runtime import breakers
from asyncjobs.runtime.breakers import Breakers, Call, How
from asyncjobs.runtime.parts import Parts
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import breakers as store
from asyncjobs.store.database import Database, in_schema
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Event, Events
from asyncjobs.testing import MovableClock

#: The server's own time does not count: only what a test adds to it.
_STILL = """
CREATE OR REPLACE FUNCTION asyncjobs.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    RETURN timestamptz '2026-01-01 UTC' + coalesce((SELECT s.shift FROM asyncjobs.clock_shift AS s
        WHERE s.since <= now() ORDER BY s.since DESC LIMIT 1), '0')
"""


class Process:
    """One process's breakers. Its service runs."""

    def __init__(self, fleet: "Fleet", policy: Policy, **options: Any) -> None:
        self.fleet = fleet
        self.policy = policy
        self.pool = Pool(fleet.database, 2)
        self.wakes = Wakes(lambda payload: fleet.deliver(self, payload))
        self.events = Events()
        self.seen: list[Event] = []
        self.events.subscribe(self.seen.append)
        self.parts = Parts(self.events)
        self.breakers = Breakers(
            self.pool, self.wakes, [policy], events=self.events, start=self.parts.start, monotonic=fleet.monotonic,
            **({"look_seconds": 10.0} | options),
        )  # fmt: skip
        self.parts.start("breakers", self.breakers.run)

    async def looked(self) -> None:
        """Look, and wait until that is done."""
        passed = asyncio.create_task(self.breakers.wait_passed())
        await asyncio.sleep(0)
        self.breakers.look_now()
        await passed

    @property
    def circuit(self) -> Circuit:
        """What it knows."""
        return self.breakers._known[self.policy.service].circuit

    @property
    def state(self) -> str:
        """In which state it knows the breaker."""
        return self.circuit.state

    @property
    def free(self) -> int | None:
        """How many calls it would let through, None: all."""
        return self.breakers.free_probes(self.policy.service)

    async def enter(self) -> Call:
        return await self.breakers.enter(self.policy.service)

    async def call(self, how: How = "succeeded") -> How | str:
        """Call the service; what came of it, or "refused"."""
        try:
            call = await self.enter()
        except CircuitOpen:
            return "refused"
        await self.breakers.leave(call, how)
        return how

    async def close(self) -> None:
        await self.breakers.flush()
        await self.parts.stop()
        await self.pool.close()


class Fleet:
    """A database, its clock, and the processes. `statements` counts what is sent about breakers.

    Time stands still but for `advance`, in the database and in the processes.
    """

    def __init__(self, database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.database = database
        self.clock = clock
        self.processes: list[Process] = []
        self.statements: Counter[str] = Counter()
        self.notifies = True  # whether notifications arrive
        self.down: BaseException | None = None  # what the database answers instead
        self.hangs = False
        self._shift = 1000.0
        self._moving = asyncio.Lock()
        for name in ("look", "happen", "declare"):
            monkeypatch.setattr(store, name, self._counted(name, getattr(store, name)))

    def _counted(self, name: str, function: Any) -> Any:
        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.statements[name] += 1
            if self.hangs:
                await asyncio.Event().wait()
            if self.down is not None:
                raise self.down
            async with self._moving:  # one answer at a time, and none that time overtakes
                return await function(*args, **kwargs)

        return counted

    def monotonic(self) -> float:
        return self._shift

    async def advance(self, seconds: float) -> None:
        """Let time pass, for the server and for all processes, which wake up."""
        async with self._moving:
            await self.clock.advance(seconds)
            self._shift += seconds
        for process in self.processes:
            process.breakers._changed.set()
        await asyncio.sleep(0)

    def deliver(self, sender: Process, payload: str) -> None:
        for process in self.processes:
            if process is not sender and self.notifies:
                process.wakes.heard(payload)

    def start(self, **policy: Any) -> Process:
        """One more process."""
        options: dict[str, Any] = {"failure_threshold": 2, "open_seconds": 60.0} | policy
        process = Process(self, Policy(service="mail", **options))
        self.processes.append(process)
        return process


@asynccontextmanager
async def breaking(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Fleet]:
    """A fleet without processes yet. The clock it moves is the schema's."""
    async with MovableClock(database) as clock:
        await _stand_still(database)
        monkeypatch.setattr(breakers, "_ANSWER_SECONDS", 60.0)  # a machine that stands still is no silent database
        fleet = Fleet(database, clock, monkeypatch)
        try:
            yield fleet
        finally:
            fleet.down, fleet.hangs = None, False
            for process in fleet.processes:
                await process.close()


async def _stand_still(database: Database) -> None:
    connection = await database.connect("test")
    await connection.execute(in_schema(_STILL, database.schema))
    await connection.close()
