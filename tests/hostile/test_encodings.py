"""A database in another encoding than UTF-8: it is migrated and works, and a text that it cannot hold fails its own caller."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

import asyncjobs
from asyncjobs import AsyncJobs, EnqueueError, JobContext, Snooze, UsageError
from asyncjobs.store.databases import drop_database
from asyncjobs.testing.databases import with_database
from tests.support.eventually import eventually, patience

STORE: Final = Path(asyncjobs.__file__).parent / "store"
HELD, NOT_HELD = "æ", "Ω…😀"  # of LATIN1
NAME: Final = "test_latin1"


def test_sql_is_ascii() -> None:
    files = [*STORE.glob("**/*.sql")]
    assert files
    assert [file.name for file in files if not file.read_bytes().isascii()] == []


@pytest.fixture
async def latin1_dsn(server_dsn: str) -> AsyncGenerator[str]:
    connection = await asyncpg.connect(server_dsn, timeout=10, command_timeout=60)
    try:
        await connection.execute(f"CREATE DATABASE {NAME} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
        yield with_database(server_dsn, NAME)
    finally:
        await drop_database(connection, NAME)
        await connection.close(timeout=5)


async def note_of(jobs: AsyncJobs, job_id: int) -> Any:
    async def note() -> Any:
        found = await jobs.get(job_id)
        return None if found is None or found.progress is None else found.progress["note"]

    return await eventually(note, description="its note is written")


@pytest.mark.direct("a database of its own on the server")
async def test_text_that_the_database_cannot_hold_fails_its_own_caller(latin1_dsn: str) -> None:
    jobs = AsyncJobs(latin1_dsn)

    @jobs.job("says", max_attempts=1)
    async def says(text: str, *, ends: str = "well") -> str:
        if ends == "with an error":
            raise RuntimeError(f"{HELD} {NOT_HELD}")
        return NOT_HELD if ends == "with a result" else text

    @jobs.job("notes")
    async def notes(ctx: JobContext, *, held: bool) -> None:
        ctx.progress(0.5, "plain" if held else NOT_HELD)
        await noted.wait()

    @jobs.job("says at its end")
    async def says_last(ctx: JobContext) -> int:
        ctx.progress(1.0, NOT_HELD)
        return 7

    noted = asyncio.Event()
    assert await jobs.migrate()
    async with jobs.runner(), patience(20):
        with pytest.raises(EnqueueError, match="LATIN1"):
            await says.enqueue(NOT_HELD)
        with pytest.raises(EnqueueError, match="LATIN1"):
            await jobs.enqueue_many([says.new(HELD), says.new(NOT_HELD)])
        held = await says.enqueue(HELD)
        assert await held.result() == HELD
        unstorable = await (await says.enqueue("a", ends="with a result")).wait()
        failed = await (await says.enqueue("a", ends="with an error")).wait()
        many = [await notes.enqueue(held=held) for held in (True, False)]
        assert [await note_of(jobs, job.id) for job in many] == ["plain", r"\u03a9\u2026\U0001f600"]
        last = await says_last.enqueue()
        assert await last.result() == 7
        assert await note_of(jobs, last.id) == r"\u03a9\u2026\U0001f600"
        noted.set()
        await asyncio.gather(*(job.wait() for job in many))
        with pytest.raises(UsageError, match=r"a character that the database cannot hold.*LATIN1"):
            await jobs.admin.pause(type="says", reason=NOT_HELD)
    assert (unstorable.status, failed.status) == ("dead", "dead")
    refused = "the database refused to store the outcome of this attempt"
    assert unstorable.error_message == refused
    assert failed.error_message == rf"{refused}: RuntimeError: \xe6 \u03a9\u2026\U0001f600"
    async with jobs:
        assert len((await jobs.admin.find(type="says")).jobs) == 3


@pytest.mark.direct("a database of its own on the server")
async def test_note_of_a_job_that_was_to_be_completed_in_a_transaction_does_not_end_it(latin1_dsn: str) -> None:
    jobs = AsyncJobs(latin1_dsn)

    @jobs.job("settles", max_attempts=1)
    async def settles(ctx: JobContext) -> int:
        if not ctx.job.snoozes:
            ctx.progress(0.5, NOT_HELD)
            theirs = await asyncpg.connect(latin1_dsn)
            try:
                await ctx.complete(theirs)  # the note goes with it
            except asyncpg.PostgresError:
                raise Snooze(0.01) from None
            finally:
                await theirs.close()
        return 7

    assert await jobs.migrate()
    async with jobs.runner(), patience(20):
        assert await (await settles.enqueue()).result() == 7
