"""A database in another encoding than UTF-8: it is migrated and works, and a text that it cannot hold fails its own caller."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import asyncpg
import pytest

import asyncjobs
from asyncjobs import AsyncJobs, EnqueueError
from asyncjobs.store.databases import drop_database
from asyncjobs.testing.databases import with_database
from tests.support.eventually import patience

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


@pytest.mark.direct("a database of its own on the server")
async def test_text_that_the_database_cannot_hold_fails_its_own_caller(latin1_dsn: str) -> None:
    jobs = AsyncJobs(latin1_dsn)

    @jobs.job("says", max_attempts=1)
    async def says(text: str, *, ends: str = "well") -> str:
        if ends == "with an error":
            raise RuntimeError(f"{HELD} {NOT_HELD}")
        return NOT_HELD if ends == "with a result" else text

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
    assert (unstorable.status, failed.status) == ("dead", "dead")
    refused = "the database refused to store the outcome of this attempt"
    assert unstorable.error_message == refused
    assert failed.error_message == rf"{refused}: RuntimeError: \xe6 \u03a9\u2026\U0001f600"
    async with jobs:
        assert len((await jobs.admin.find(type="says")).jobs) == 3
