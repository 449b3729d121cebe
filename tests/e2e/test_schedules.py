"""Schedules in runner processes that are killed, and on a server that crashes: one job of each tick, whatever happens."""

import os
import random
import signal
from collections.abc import Generator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs
from asyncjobs.store.database import Connection
from tests.support.embedded import open_folder
from tests.support.eventually import eventually
from tests.support.own_server import started
from tests.support.program import Program

SECOND = timedelta(seconds=1)


async def ticks(connection: Connection, name: str) -> list[datetime]:
    """The instants that the schedule's jobs were made for, in order."""
    rows = await connection.fetch(
        "SELECT scheduled_at FROM asyncjobs.jobs WHERE created_by = 'schedule ' || $1 ORDER BY scheduled_at",
        name,
    )
    return [row["scheduled_at"] for row in rows]


async def one_job_of_each_tick(connection: Connection) -> None:
    """None missing with `all`, none doubled with any policy."""
    for name in ("all", "one", "skip", "queue"):
        made = await ticks(connection, name)
        steps = [after - before for before, after in pairwise(made)]
        assert made, name
        assert all(step >= SECOND and step % SECOND == timedelta() for step in steps), (name, made)
        if name == "all":
            assert set(steps) == {SECOND}, made
            assert made[-1] == await connection.fetchval("SELECT last_tick FROM asyncjobs.schedules WHERE name = 'all'")


class Fleet:
    """Three runner processes; one that was killed is replaced."""

    def __init__(self, stack: AsyncExitStack, dsn: str) -> None:
        self._stack = stack
        self._dsn = dsn
        self.programs: list[Program] = []

    async def start(self) -> None:
        """One more."""
        env = {"ASYNCJOBS_DSN": self._dsn}
        program = await self._stack.enter_async_context(Program.python("-m", "tests.programs.scheduled", env=env))
        await program.line("registered")
        self.programs.append(program)

    def busiest(self) -> Program:
        """The one that fired most lately: what a leader would be."""
        return max(self.programs, key=lambda one: sum(line.startswith("fired") for line in one.output[-20:]))

    async def kill(self, program: Program) -> None:
        """SIGKILL."""
        self.programs.remove(program)
        program.kill()
        await program.wait()

    async def stop(self) -> None:
        """All in good order."""
        for program in self.programs:
            program.terminate()
        for program in self.programs:
            assert await program.wait() == 0, program.said


async def reached(connection: Connection, count: int, *, within: float) -> None:
    """Return when the schedule `all` has made so many jobs."""

    async def enough() -> bool:
        return len(await ticks(connection, "all")) >= count

    await eventually(enough, description=f"{count} ticks", timeout=within, interval=0.2)


async def test_a_tick_each_second_goes_on_when_a_runner_is_killed(dsn: str, connection: Connection) -> None:
    async with AsyncExitStack() as stack:
        fleet = Fleet(stack, dsn)
        for _ in range(3):
            await fleet.start()
        await reached(connection, 2, within=20)
        await fleet.kill(fleet.busiest())
        await reached(connection, 7, within=20)
        await fleet.stop()
    await one_job_of_each_tick(connection)


@pytest.fixture
def own_server() -> Generator[str]:
    """A server of this test's own, which it may crash."""
    with open_folder() as folder, started(folder / "server") as server:
        yield server.dsn


async def connected(dsn: str) -> Connection:
    """A connection, as soon as the server takes one."""

    async def connect() -> Any:
        try:
            return await asyncpg.connect(dsn, command_timeout=30)
        except (OSError, asyncpg.PostgresError):
            return None

    made: Connection = await eventually(connect, description="the server is up again", timeout=60, interval=0.2)
    return made


async def crash(connection: Connection) -> None:
    """Kill this connection's backend: PostgreSQL then restarts with all of them, and recovers."""
    os.kill(connection.get_server_pid(), signal.SIGKILL)
    await eventually(connection.is_closed, description="the backend is gone")


@pytest.mark.proof
async def test_two_minutes_of_seconds_with_five_kills_and_a_crash(own_server: str) -> None:
    await AsyncJobs(own_server).migrate()
    chance = random.Random(15)
    kills = sorted(chance.sample(range(10, 110, 5), 5))
    connection = await connected(own_server)
    async with AsyncExitStack() as stack:
        fleet = Fleet(stack, own_server)
        for _ in range(3):
            await fleet.start()
        for number, at in enumerate(kills):
            await reached(connection, at, within=150)
            await fleet.kill(fleet.busiest())
            await fleet.start()
            if number == len(kills) // 2:
                await crash(connection)
                connection = await connected(own_server)
        await reached(connection, 120, within=150)
        await fleet.stop()
    await one_job_of_each_tick(connection)
    unfinished = await connection.fetch("SELECT id, status FROM asyncjobs.jobs WHERE status IN ('dead', 'processing')")
    await connection.close()
    assert unfinished == []
