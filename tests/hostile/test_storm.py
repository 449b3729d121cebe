"""Two runners that are killed, frozen and stopped, and whose connections break: nothing is lost, and nothing overlaps."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from asyncjobs.handles import JobHandle
from asyncjobs.store.database import Connection
from asyncjobs.testing import Proxy
from tests.programs import storm_worker as program
from tests.support.eventually import eventually
from tests.support.executions import Ran
from tests.support.program import Program

pytestmark = pytest.mark.usefixtures("auditor")

ROLES = ("finish", "listener", "heartbeat", "notifier", "pool", None)
SLOTS = 8
DEAD_SECONDS = 2.4 + 3 * 0.33


class Storm:
    """Two runners behind a proxy, and what befalls them."""

    def __init__(self, proxy: Proxy, table: Ran, dsn: str, *, seed: int) -> None:
        self.random = random.Random(seed)
        self.handles: list[JobHandle[None]] = []
        self._proxy, self._table = proxy, table
        self._env = {"ASYNCJOBS_DSN": proxy.dsn, "RAN_DSN": dsn}
        self._stack = AsyncExitStack()
        self._runners: list[Program] = []

    async def start(self) -> None:
        """One more runner."""
        runner = await self._stack.enter_async_context(Program.python("-m", "tests.programs.storm_worker", env=self._env))
        await runner.line("registered")
        self._runners.append(runner)

    async def close(self) -> None:
        """Stop the runners."""
        for runner in self._runners:
            runner.terminate()
            assert await runner.wait() == 0
        await self._stack.aclose()

    async def enqueue(self, count: int) -> None:
        """Jobs of both kinds, on three keys, as a caller whose database never fails."""
        for number in range(count):
            seconds = self.random.choice((0.0, 0.01, 0.05))
            self.handles.append(await program.plain.enqueue(seconds=seconds))
            self.handles.append(await program.keyed.enqueue(key=f"key {number % 3}", seconds=seconds))

    def _one(self) -> Program:
        return self._runners.pop(self.random.randrange(len(self._runners)))

    async def kill(self) -> None:
        """SIGKILL, and another in its place."""
        runner = self._one()
        runner.kill()
        await runner.wait()
        await self._table.bury(runner.pid)
        await self.start()

    async def freeze(self) -> None:
        """SIGSTOP until the others take its jobs, and SIGCONT."""
        runner = self._one()
        runner.pause()
        await self._table.bury(runner.pid)
        before = runner.said.count("registered")
        await asyncio.sleep(DEAD_SECONDS)  # for so long it has to be silent
        runner.unpause()
        await eventually(lambda: runner.said.count("registered") > before, description="it registers anew", timeout=20)
        self._runners.append(runner)

    async def terminate(self) -> None:
        """SIGTERM, and another in its place."""
        runner = self._one()
        runner.terminate()
        assert await runner.wait() == 0
        await self.start()

    async def cut(self) -> None:
        """Connections are broken, or silent for a moment, or lose an answer."""
        role = self.random.choice(ROLES)
        how = self.random.choice((self._proxy.reset, self._proxy.close, self._proxy.drop_next_response, self._proxy.silence))
        how(role)

    async def part(self) -> None:
        """Nothing gets through for a while that is shorter than what gets a runner declared dead."""
        self._proxy.black_hole(self.random.choice(ROLES))
        await asyncio.sleep(0.5)
        self._proxy.heal()


@pytest.fixture
async def storm(dsn: str, connection: Connection, monkeypatch: pytest.MonkeyPatch, seed: int) -> AsyncGenerator[Storm]:
    monkeypatch.setenv("ASYNCJOBS_DSN", dsn)
    table = Ran(connection)
    await table.create()
    async with Proxy(dsn) as proxy, program.jobs:
        made = Storm(proxy, table, dsn, seed=seed)
        await asyncio.gather(made.start(), made.start())
        yield made
        await made.close()


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(5))
async def test_nothing_is_lost_and_nothing_overlaps(storm: Storm, connection: Connection) -> None:
    faults: list[Callable[[], Awaitable[None]]] = [storm.kill, storm.freeze, storm.terminate, *[storm.part] * 2, *[storm.cut] * 6]
    storm.random.shuffle(faults)
    for fault in faults:
        await storm.enqueue(20)
        await fault()
    jobs = [await handle.wait(timeout=60) for handle in storm.handles]
    executions = await Ran(connection).executions()
    assert {job.status for job in jobs} == {"completed"}
    assert executions.overlaps == []
    assert executions.out_of_order == []
    assert executions.times.keys() == {job.id for job in jobs}
    assert executions.unended == 0
    # A connection that breaks repeats nothing: only what was killed, frozen or stopped is executed again.
    again = [job_id for job_id, times in executions.times.items() if times > 1]
    assert len(again) <= SLOTS * 3
