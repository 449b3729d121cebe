"""What an end of a program leaves behind, sentence by sentence: `runtime/stopping.py`. With real programs."""

import signal

import pytest

from asyncjobs import AsyncJobs
from asyncjobs.store.database import Connection, quote_identifier
from tests.support.program import Program

pytestmark = pytest.mark.hurried

PROGRAM = ("-m", "tests.programs.ending")


TYPES = ("neighbour", "group", "forking")


async def _nothing() -> None: ...


class Ends:
    """Jobs of `tests.programs.ending`, and what became of them."""

    def __init__(self, dsn: str, schema: str, connection: Connection) -> None:
        self.env = {"ASYNCJOBS_DSN": dsn, "TEST_SCHEMA": schema}
        self._jobs = AsyncJobs(dsn, schema=schema)
        for type in TYPES:
            self._jobs.stub(f"ending.{type}")(_nothing)
        self._schema = quote_identifier(schema)
        self._connection = connection

    async def enqueue(self, *types: str) -> None:
        """One job of each."""
        async with self._jobs:
            for type in types:
                await self._jobs.enqueue(f"ending.{type}", {}, max_attempts=1)

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


async def test_two_interrupts_of_a_program_with_a_loop_of_its_own_give_its_jobs_back(ends: Ends) -> None:
    async with Program.python(*PROGRAM, "script", env=ends.env) as program:
        await program.line("entered")
        await ends.enqueue("neighbour")
        await program.line("neighbour works")
        program.interrupt()
        await program.line("leaving")
        program.interrupt()
        assert await program.wait(timeout=5) in (1, 130, -signal.SIGINT), program.said[-3000:]
    assert await ends.rest() == {"neighbour": ("pending", 0)}
    assert await ends.runners() == 0


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
