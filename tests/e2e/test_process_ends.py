"""What an end of a program leaves behind, sentence by sentence: `runtime/stopping.py`. With real programs."""

import asyncio
import signal
import time
from typing import Any, Final

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.store.database import Connection, quote_identifier
from tests.support.eventually import eventually
from tests.support.program import Program

pytestmark = pytest.mark.hurried

PROGRAM = ("-m", "tests.programs.ending")
RESCUING: Final[dict[str, Any]] = {"heartbeat": 0.2, "runner_timeout": 2.4, "rescue_interval": 0.3}


TYPES = ("neighbour", "group", "forking", "stubborn")
LASTING = ("plain", "tidy")


async def _nothing() -> None: ...


async def _lasting(seconds: float) -> None: ...


class Ends:
    """Jobs of `tests.programs.ending`, and what became of them."""

    def __init__(self, dsn: str, schema: str, connection: Connection) -> None:
        self.env = {"ASYNCJOBS_DSN": dsn, "TEST_SCHEMA": schema}
        self._jobs = AsyncJobs(dsn, schema=schema)
        for type in TYPES:
            self._jobs.stub(f"ending.{type}")(_nothing)
        for type in LASTING:
            self._jobs.stub(f"ending.{type}")(_lasting)
        self._schema = quote_identifier(schema)
        self._connection = connection

    async def enqueue(self, *types: str, **payload: Any) -> None:
        """One job of each."""
        async with self._jobs:
            for type in types:
                await self._jobs.enqueue(f"ending.{type}", payload, max_attempts=1)

    async def rescued(self) -> dict[str, tuple[str, int]]:
        """`rest` when the runners that are gone have been found out: by one that runs none of these jobs."""
        others = AsyncJobs(self.env["ASYNCJOBS_DSN"], schema=self.env["TEST_SCHEMA"], **RESCUING)
        others.job("other")(_nothing)
        async with others.runner() as runner:

            async def only_one() -> bool:
                ids: list[int] = await self._connection.fetchval(f"SELECT array_agg(id) FROM {self._schema}.runners")
                return ids == [runner.id]

            await eventually(only_one, description="the other is gone", timeout=20)
            await eventually(self.nothing_processing, description="its jobs are taken back")
        return await self.rest()

    async def forget(self) -> None:
        """Begin anew."""
        await self._connection.execute(f"DELETE FROM {self._schema}.jobs")

    async def nothing_processing(self) -> bool:
        """Whether no job is processing."""
        return all(status != "processing" for status, _ in (await self.rest()).values())

    async def column(self, what: str) -> Any:
        """One value of one row."""
        return await self._connection.fetchval(f"SELECT {what}".replace("asyncjobs.", f"{self._schema}."))

    async def rest(self) -> dict[str, tuple[str, int]]:
        """Status and attempts, by type."""
        rows = await self._connection.fetch(f"SELECT type, status, attempts FROM {self._schema}.jobs")
        return {row["type"].removeprefix("ending."): (row["status"], row["attempts"]) for row in rows}

    async def runners(self) -> int:
        """How many are registered."""
        count: int = await self._connection.fetchval(f"SELECT count(*) FROM {self._schema}.runners")
        return count


@pytest.fixture
def ends(dsn: str, schema: str, connection: Connection) -> Ends:
    return Ends(dsn, schema, connection)


async def test_program_that_another_task_ends_gives_its_jobs_back(ends: Ends) -> None:
    async with Program.python(*PROGRAM, "task", env=ends.env) as program:
        await program.line("entered")
        await ends.enqueue("neighbour")
        assert await program.wait() == 3
    assert await ends.rest() == {"neighbour": ("pending", 0)}
    assert await ends.runners() == 0


async def test_program_that_a_task_of_a_handler_ends_charges_that_handler_and_nobody_else(ends: Ends) -> None:
    async with Program.python(*PROGRAM, "group", env=ends.env) as program:
        await program.line("entered")
        await ends.enqueue("group", "neighbour")
        assert await program.wait() == 3
    assert await ends.rest() == {"group": ("dead", 1), "neighbour": ("pending", 0)}
    assert await ends.runners() == 0


async def interrupted_twice(ends: Ends, way: tuple[str, ...], gap: float) -> None:
    """One run: two interrupts with so many seconds between them give the program's job back."""
    async with Program.python("-X", "faulthandler", *way, env=ends.env) as program:
        await ends.enqueue("neighbour")
        await program.line("neighbour works")
        program.interrupt()
        ends_at = time.monotonic() + gap
        while time.monotonic() < ends_at:
            pass  # a timer would be late by more
        program.interrupt()
        # Two that come at the same moment may be one for the kernel.
        await asyncio.wait({ended := asyncio.create_task(program.wait())}, timeout=1.5)
        if not ended.done():
            program.interrupt()
        assert await ended in (0, 1, 130, -signal.SIGINT), program.said[-3000:]
    assert await ends.rest() == {"neighbour": ("pending", 0)}, program.said[-3000:]
    assert await ends.runners() == 0
    await ends.forget()


OWN_LOOP = (*PROGRAM, "script")
COMMAND = ("-m", "asyncjobs", "run", "tests.programs.ending:jobs")


@pytest.mark.parametrize("gap", [0.002, 0.3])
async def test_two_interrupts_of_a_program_with_a_loop_of_its_own_give_its_jobs_back(ends: Ends, gap: float) -> None:
    await interrupted_twice(ends, OWN_LOOP, gap)


@pytest.mark.proof
@pytest.mark.parametrize("way", [OWN_LOOP, COMMAND], ids=["own loop", "command"])
@pytest.mark.parametrize("gap", [0, 0.0005, 0.001, 0.002, 0.003, 0.01, 0.05, 0.2])
async def test_two_interrupts_with_any_time_between_them_give_the_jobs_back(ends: Ends, way: tuple[str, ...], gap: float) -> None:
    for _ in range(20):
        await interrupted_twice(ends, way, gap)


@pytest.mark.parametrize("way", ["run", "uvicorn"])
async def test_handler_that_terminates_a_forked_child_ends_the_child_and_not_the_runner(ends: Ends, way: str) -> None:
    uvicorn = ("-m", "uvicorn", "--factory", "tests.programs.ending:web", "--port", "0")
    async with Program.python(*((*PROGRAM, "run") if way == "run" else uvicorn), env=ends.env | {"TEST_GRACE": "0.3"}) as program:
        await ends.enqueue("forking")
        assert await program.line("child ended with") == f"child ended with {-signal.SIGTERM}"
        await ends.enqueue("neighbour")
        await program.line("neighbour works")
        program.interrupt()
        await program.wait()
    assert (await ends.rest())["forking"] == ("completed", 1)


@pytest.mark.parametrize("how", ["beyond the grace", "killed in it"])
async def test_plain_function_that_outlives_its_process_costs_no_attempt(ends: Ends, how: str) -> None:
    grace = "0.3" if how == "beyond the grace" else "60"
    async with Program.python(*PROGRAM, "run", env=ends.env | {"TEST_GRACE": grace}) as program:
        await ends.enqueue("plain", seconds=3600)
        await program.line("plain works")
        program.terminate()
        if how == "killed in it":
            await eventually(lambda: ends.column("stopped_at FROM asyncjobs.runners"), description="it says that it stops")
            program.kill()
        await program.wait()
    assert await ends.rest() == {"plain": ("processing", 1)}
    assert await ends.column("count(*) FROM asyncjobs.runners WHERE stopped_at IS NOT NULL") == 1
    assert await ends.rescued() == {"plain": ("pending", 0)}
    assert await ends.column("count(*) FROM asyncjobs.former_runners WHERE died_at IS NULL AND stopped_at IS NOT NULL") == 2
    assert await ends.column("(errors = '[]', rescues, losses, suspicion, claim_token) FROM asyncjobs.jobs") == (
        True,
        0,
        0,
        0,
        None,
    )


async def test_coroutine_that_ignores_the_stop_is_given_back_when_its_loop_is_gone(ends: Ends) -> None:
    async with Program.python(*PROGRAM, "run", env=ends.env | {"TEST_GRACE": "0.3"}) as program:
        await ends.enqueue("stubborn")
        await program.line("stubborn works")
        program.terminate()
        await program.wait()
    assert await ends.rest() == {"stubborn": ("pending", 0)}
    assert await ends.runners() == 0


@pytest.mark.parametrize("seconds", [1, pytest.param(5, marks=pytest.mark.proof)])
@pytest.mark.parametrize("way", ["run", "lives"])
async def test_handler_has_its_time_to_clean_up(ends: Ends, way: str, seconds: float) -> None:
    """Within the grace; and where the process lives on, also beyond it."""
    env = {"TEST_GRACE": "0.3"} if way == "lives" else {"TEST_GRACE": str(seconds + 0.7), "TEST_CLEANUP": str(seconds + 0.5)}
    async with Program.python(*PROGRAM, way, env=ends.env | env) as program:
        await ends.enqueue("tidy", seconds=seconds)
        await program.line("tidy works")
        program.terminate()
        await program.line("tidied")
        await program.wait()
    assert await ends.rest() == {"tidy": ("pending", 0)}
    assert await ends.runners() == 0


@pytest.mark.parametrize("seconds", [1, pytest.param(6, marks=pytest.mark.proof)])
async def test_plain_function_that_returns_after_the_stop_of_an_app_is_done_and_runs_nowhere_else(
    ends: Ends, seconds: float
) -> None:
    async with Program.python(*PROGRAM, "lives", env=ends.env | {"TEST_GRACE": "0.3"}) as program:
        await ends.enqueue("plain", seconds=seconds)
        await program.line("plain works")
        program.terminate()
        await program.line("left")
        assert await ends.rest() == {"plain": ("processing", 1)}
        if seconds > RESCUING["runner_timeout"]:
            rescuing = asyncio.create_task(ends.rescued())
            await program.line("plain returns")
            await rescuing
        await program.wait()
    assert program.said.count("plain works") == 1
    assert await ends.rest() == {"plain": ("completed", 1)}
    assert await ends.runners() == 0
    assert await ends.column("count(*) FROM asyncjobs.former_runners WHERE died_at IS NOT NULL") == 0
