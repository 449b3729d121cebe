"""Holders of leases that are killed, frozen and stopped, as processes: never two at work, and soon another one."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

import asyncpg
import pytest

from asyncjobs.store.database import Connection
from tests.support.eventually import Stopwatch, eventually
from tests.support.program import Program

#: Times of the protocol in the short versions: a fifth of the defaults.
SHORT = 0.2
#: What starting a process and a busy machine may add.
SLACK_SECONDS = 3.0


@pytest.fixture
async def traces(connection: Connection) -> None:
    await connection.execute(
        "CREATE TABLE public.traces (pid integer NOT NULL, began_at timestamptz NOT NULL, ended_at timestamptz NOT NULL)"
    )


def a_leader(dsn: str, scale: float) -> Program:
    return Program.python("-m", "tests.programs.leader", env={"ASYNCJOBS_DSN": dsn, "SCALE": str(scale)})


class Watch:
    """Asks all the time who leads, with the SQL of operators, and takes note of answers that name somebody long dead."""

    LEADERS = "SELECT job_name, held_by_worker_id FROM background_job_leases WHERE held_by_worker_id <> 'none'"
    STUCK = (
        "SELECT job_name, held_by_worker_id FROM background_job_leases WHERE heartbeat_at > now() - interval '30 seconds' "
        "AND (metadata->>'last_run')::timestamptz < now() - interval '5 minutes'"
    )

    def __init__(self, connection: Connection, *, within_seconds: float) -> None:
        self.looks = 0
        self.wrong: list[str] = []
        self._connection = connection
        self._within_seconds = within_seconds
        self._killed: dict[str, Stopwatch] = {}  # None of the living is here.

    async def kill(self, program: Program) -> None:
        """Kill it, and remember when."""
        runner = (await program.line("registered")).split()[1]
        program.kill()
        self._killed[runner] = Stopwatch()

    async def run(self) -> None:
        """Ask until cancelled."""
        await self._connection.execute("SET search_path = asyncjobs")
        while True:
            for query in (self.LEADERS, self.STUCK):
                ago_of = {runner: watch.seconds for runner, watch in self._killed.items()}
                for duty, runner in await self._connection.fetch(query):
                    ago = ago_of.get(runner, 0.0)
                    if ago > self._within_seconds:
                        self.wrong.append(f"{duty}: {runner}, killed {ago:.1f} s ago")
            self.looks += 1
            await asyncio.sleep(0.05)


@asynccontextmanager
async def watching(dsn: str, *, within_seconds: float) -> AsyncGenerator[Watch]:
    """A watch that goes on until the end of the context, where it has to have found nothing wrong."""
    connection = await asyncpg.connect(dsn, command_timeout=30, server_settings={"application_name": "test"})
    watch = Watch(connection, within_seconds=within_seconds)
    task = asyncio.create_task(watch.run())
    try:
        yield watch
        assert not task.done()
        assert watch.looks > 10
        assert watch.wrong == []
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        connection.terminate()


async def holder(connection: Connection) -> int:
    """The process of the runner that holds the lease; 0 for none."""
    query = (
        "SELECT r.pid FROM asyncjobs.background_job_leases AS l JOIN asyncjobs.runners AS r ON r.id::text = l.held_by_worker_id "
        "WHERE l.job_name = 'trace'"
    )
    return int(await connection.fetchval(query) or 0)


async def last_pid(connection: Connection) -> int:
    """Who left the last trace."""
    return int(await connection.fetchval("SELECT pid FROM public.traces ORDER BY ended_at DESC LIMIT 1") or 0)


async def now(connection: Connection) -> datetime:
    at: datetime = await connection.fetchval("SELECT clock_timestamp()")
    return at


async def overlaps(connection: Connection) -> int:
    """Pairs of passes of two processes that were at work at the same time."""
    return int(
        await connection.fetchval(
            "SELECT count(*) FROM public.traces AS a JOIN public.traces AS b "
            "ON a.pid < b.pid AND a.began_at < b.ended_at AND b.began_at < a.ended_at"
        )
    )


async def seconds_until_another(connection: Connection, former: int, *, timeout: float) -> float:
    """From now until a pass of another process than `former` has ended."""
    since, watch = await now(connection), Stopwatch()

    async def at() -> datetime | None:
        found: datetime | None = await connection.fetchval(
            "SELECT min(ended_at) FROM public.traces WHERE pid <> $1 AND ended_at > $2", former, since
        )
        return found

    await eventually(at, description="another holder's pass", timeout=timeout)
    return watch.stop()


async def fleet(stack: AsyncExitStack, dsn: str, scale: float, count: int) -> dict[int, Program]:
    programs = [await stack.enter_async_context(a_leader(dsn, scale)) for _ in range(count)]
    for program in programs:
        await program.line("registered", timeout=60.0)
    return {program.pid: program for program in programs}


@pytest.mark.usefixtures("traces")
async def test_killed_holder_is_replaced_in_time(dsn: str, connection: Connection) -> None:
    async with AsyncExitStack() as stack:
        programs = await fleet(stack, dsn, SHORT, 2)
        former = await eventually(lambda: last_pid(connection), description="a first pass", timeout=20.0)
        watch = await stack.enter_async_context(watching(dsn, within_seconds=15 * SHORT + SLACK_SECONDS))
        await watch.kill(programs[former])
        assert await seconds_until_another(connection, former, timeout=30.0) <= 15 * SHORT + SLACK_SECONDS
    assert await overlaps(connection) == 0


@pytest.mark.usefixtures("traces")
@pytest.mark.parametrize("scale", [SHORT, pytest.param(1.0, marks=pytest.mark.proof)])
async def test_frozen_holder_does_nothing_more_under_its_old_token(dsn: str, connection: Connection, scale: float) -> None:
    async with AsyncExitStack() as stack:
        programs = await fleet(stack, dsn, scale, 2)
        former = await eventually(lambda: last_pid(connection), description="a first pass", timeout=20.0)
        programs[former].pause()
        await seconds_until_another(connection, former, timeout=30.0)
        taken_at = await now(connection)
        programs[former].unpause()
        await programs[former].line("ended trace lost")
        assert await holder(connection) not in {0, former}
        late = "SELECT count(*) FROM public.traces WHERE pid = $1 AND ended_at > $2"
        assert await connection.fetchval(late, former, taken_at) == 0
    assert await overlaps(connection) == 0


@pytest.mark.direct("is about LISTEN", only="poll")
@pytest.mark.usefixtures("traces")
async def test_holder_that_stops_is_replaced_at_once(dsn: str, connection: Connection) -> None:
    async with AsyncExitStack() as stack:
        programs = await fleet(stack, dsn, SHORT, 2)
        former = await eventually(lambda: last_pid(connection), description="a first pass", timeout=20.0)
        for program in programs.values():
            await program.line("listens")
        programs[former].terminate()
        await programs[former].line("ended trace released")
        assert await seconds_until_another(connection, former, timeout=10.0) < 10 * SHORT, "nobody waits for its lease to expire"
        await programs[former].succeeds()
    assert await overlaps(connection) == 0


@pytest.mark.proof
@pytest.mark.usefixtures("traces")
async def test_twenty_kills_of_the_holder_among_five(dsn: str, connection: Connection) -> None:
    chance, taken = random.Random(4), list[float]()
    async with AsyncExitStack() as stack:
        programs = await fleet(stack, dsn, 1.0, 5)
        watch = await stack.enter_async_context(watching(dsn, within_seconds=15.0))
        for _ in range(20):
            former = await eventually(lambda: holder(connection), description="a holder", timeout=30.0)
            await asyncio.sleep(chance.uniform(0.0, 4.0))
            await watch.kill(programs.pop(former))
            taken.append(await seconds_until_another(connection, former, timeout=40.0))
            programs |= await fleet(stack, dsn, 1.0, 1)
    print(f"fail-over: {min(taken):.1f} to {max(taken):.1f} s, {sum(taken) / len(taken):.1f} on average")  # noqa: T201
    assert max(taken) <= 15.0
    assert await overlaps(connection) == 0
