"""What becomes due while nobody holds the lease: late by a fail-over after a crash, on time when the lease was handed over."""

import asyncio
from contextlib import AsyncExitStack

import msgspec
import pytest

from asyncjobs import AsyncJobs
from asyncjobs.store.database import Connection
from tests.support.eventually import eventually
from tests.support.program import Program

#: What a busy machine may add.
SLACK_SECONDS = 3.0
#: By when what comes at once has come, on a busy machine.
AT_ONCE_SECONDS = 2.5


class Late(msgspec.Struct, frozen=True):
    """The longest that anything came after its time."""

    delayed: float  # jobs that were enqueued with a delay, from when they were due to when they began
    ticks: float  # of a schedule, to when their jobs were made


@pytest.fixture(autouse=True)
async def traces(connection: Connection) -> None:
    await connection.execute(
        "CREATE TABLE public.traces (pid integer NOT NULL, began_at timestamptz NOT NULL, ended_at timestamptz NOT NULL)"
    )


async def lose_the_holder(
    dsn: str, connection: Connection, how: str, *, scale: float, seconds: float, patience: float = 40.0
) -> Late:
    """Enqueue jobs that become due during so many seconds, one each 0.2 s, and lose the runner that promotes and fires soon."""
    jobs = AsyncJobs(dsn)
    mail = jobs.stub("mail")(nothing)
    async with AsyncExitStack() as stack:
        env = {"ASYNCJOBS_DSN": dsn, "SCALE": str(scale)}
        programs = [Program.python("-m", "tests.programs.leader", env=env) for _ in range(2)]
        for program in programs:
            await stack.enter_async_context(program)
            await program.line("listens", timeout=60.0)
            if program is programs[0]:
                await program.line("acquired promote")
                await program.line("acquired cron")
        await stack.enter_async_context(jobs)
        for number in range(int(seconds / 0.2)):
            await mail.using(delay=0.2 * (number + 1), created_by="test").enqueue()
        await asyncio.sleep(1.0)  # in the middle of it
        getattr(programs[0], how)()
        await programs[1].line("acquired promote", timeout=patience)
        await programs[1].line("acquired cron", timeout=patience)
        await eventually(lambda: all_ended(connection), description="all have run", timeout=seconds + patience)
    return await late(connection)


async def nothing() -> None: ...


async def all_ended(connection: Connection) -> bool:
    query = "SELECT bool_and(status = 'completed') FROM asyncjobs.jobs WHERE created_by = 'test'"
    return bool(await connection.fetchval(query))


async def late(connection: Connection) -> Late:
    # A job that was killed with its runner began in time, and once more when it was taken back.
    delayed = await connection.fetchval(
        "SELECT extract(epoch FROM max(started_at - run_at)) FROM asyncjobs.jobs WHERE created_by = 'test' AND attempts = 1"
    )
    ticks = await connection.fetchval(
        "SELECT extract(epoch FROM max(created_at - scheduled_at)) FROM asyncjobs.jobs WHERE created_by = 'schedule often'"
    )
    found = Late(float(delayed), float(ticks))
    print(found)  # noqa: T201 - the figures are the point
    return found


@pytest.mark.direct("its bounds are those of runners that LISTEN", only="poll")
@pytest.mark.parametrize(("how", "scale", "patience"), [("kill", 0.2, 40.0), ("terminate", 1.0, 5.0)])
async def test_what_becomes_due_between_two_terms_is_done_by_the_next_holder(
    dsn: str, connection: Connection, how: str, scale: float, patience: float
) -> None:
    """After a hand-over it has the lease at once: what a crash would take is more than the test's patience.

    A killed holder's lease has to expire first, and so has the runner, whose jobs are taken back only then.
    """
    await lose_the_holder(dsn, connection, how, scale=scale, seconds=2.0, patience=patience)


@pytest.mark.proof
async def test_after_a_crash_nothing_is_later_than_a_fail_over(dsn: str, connection: Connection) -> None:
    found = await lose_the_holder(dsn, connection, "kill", scale=0.2, seconds=6.0)
    assert max(found.delayed, found.ticks) <= 15 * 0.2 + SLACK_SECONDS


@pytest.mark.proof
async def test_after_a_hand_over_nothing_is_late(dsn: str, connection: Connection) -> None:
    found = await lose_the_holder(dsn, connection, "terminate", scale=1.0, seconds=5.0)
    assert max(found.delayed, found.ticks) <= AT_ONCE_SECONDS


@pytest.mark.proof
async def test_after_a_crash_nothing_is_later_than_15_seconds(dsn: str, connection: Connection) -> None:
    found = await lose_the_holder(dsn, connection, "kill", scale=1.0, seconds=20.0)
    assert max(found.delayed, found.ticks) <= 15.0
