"""What runners declare of their types: which definition counts while programs of several ages run, and what a crash leaves."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import asyncpg
import pytest

from asyncjobs.model.declared_type import DeclaredType
from asyncjobs.store import runners
from asyncjobs.store.database import Connection, Database, Link
from tests.support.eventually import eventually


def a_type(queue: str, /, *, version: int = 1, name: str = "email") -> DeclaredType:
    """A definition that is known by its queue."""
    return DeclaredType(
        name=name, type=name, version=version, queue=queue, lane=None, priority=100, max_attempts=3, timeout_seconds=None,
        app_timeout_seconds=None, expires_seconds=None, on_dead="advance", serialize_by=None, dedup_by=None, tags=(),
        schema={"fields": [], "checks": []}, sieve="strict $ ? (@.x == 1)",
        queues={queue: {}}, max_payload_bytes=1000, max_depth=200,
    )  # fmt: skip


class Programs:
    """Runners of programs of several ages."""

    def __init__(self, link: Link, connection: Connection) -> None:
        self.link, self.connection = link, connection

    async def open(self, *declares: DeclaredType, id: int | None = None) -> int:
        runner_id = id or runners.new_runner_id()
        await runners.register(
            self.link, runner_id, host="h", pid=1, version="0", queues=["default"], types=["email"], declares=declares
        )
        return runner_id

    async def end(self, runner_id: int) -> None:
        await runners.leave(self.link, runner_id)

    async def counts(self, name: str = "email") -> str | None:
        """The queue of the definition that counts."""
        queue: str | None = await self.connection.fetchval("SELECT (asyncjobs.newest_type($1)).queue", name)
        return queue

    async def known(self) -> list[str]:
        return [row["queue"] for row in await self.connection.fetch("SELECT queue FROM asyncjobs.types ORDER BY id")]

    async def prune(self) -> None:
        await self.connection.execute("SELECT asyncjobs.forget_types()")


@pytest.fixture
async def programs(database: Database, connection: Connection) -> AsyncGenerator[Programs]:
    link = database.link("test")
    yield Programs(link, connection)
    await link.close()
    await connection.execute("DELETE FROM asyncjobs.runners")


OLD, NEW, NEXT = a_type("old"), a_type("new"), a_type("next", version=2)


async def test_a_digest_is_of_all_that_is_declared() -> None:
    others: dict[str, Any] = {
        "queue": "x",
        "version": 2,
        "lane": "x",
        "schema": {"fields": ["a"]},
        "queues": {"old": {"fast": None}},
    }
    digests = {OLD.digest, *(DeclaredType(**{**_fields(OLD), name: value}).digest for name, value in others.items())}
    assert len(digests) == len(others) + 1
    assert OLD.digest == a_type("old").digest


def _fields(one: DeclaredType) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


async def test_what_was_declared_stays_when_its_runner_ends_or_dies(programs: Programs) -> None:
    await programs.end(await programs.open(OLD))
    await programs.prune()
    assert await programs.counts() == "old"
    await programs.open(NEW)
    await programs.connection.execute("DELETE FROM asyncjobs.runners")
    await programs.prune()
    assert await programs.counts() == "new"


async def test_the_newest_version_wins_whichever_opens_last(programs: Programs) -> None:
    for opened in (OLD, NEXT, OLD, NEW):
        await programs.open(opened)
    assert await programs.counts() == "next"


async def test_of_one_version_the_one_that_was_never_there_before_wins_and_an_old_program_that_restarts_does_not(
    programs: Programs,
) -> None:
    old = await programs.open(OLD)
    await programs.open(NEW)
    assert await programs.counts() == "new"
    await programs.end(old)
    await programs.open(OLD)
    await programs.prune()
    assert await programs.counts() == "new"


@pytest.mark.parametrize("newer", [NEW, NEXT], ids=["another definition", "another version"])
async def test_a_rolled_back_definition_gives_way_when_no_runner_declares_it(newer: DeclaredType, programs: Programs) -> None:
    await programs.open(OLD)
    newest = await programs.open(newer)
    await programs.end(newest)  # or it died as it opened: a crash leaves its word until somebody looks
    assert await programs.counts() == newer.queue
    await programs.prune()
    assert await programs.counts() == "old"
    await programs.open(newer)
    assert await programs.counts() == newer.queue, "deployed once more"


async def test_a_program_that_opens_alone_puts_its_definition_back_at_once(programs: Programs) -> None:
    await programs.end(await programs.open(OLD))
    await programs.end(await programs.open(NEXT))
    await programs.open(OLD)
    assert await programs.counts() == "old"


async def test_a_runner_that_registers_anew_declares_again(programs: Programs) -> None:
    runner_id = await programs.open(OLD)
    await programs.connection.execute("DELETE FROM asyncjobs.types")
    await programs.open(OLD, id=runner_id)
    assert await programs.counts() == "old"


async def test_former_definitions_are_few(programs: Programs) -> None:
    for number in range(20):
        await programs.end(await programs.open(a_type(f"q{number}"), a_type("mail", name="other")))
    assert await programs.counts() == "q19"
    assert len(await programs.known()) == 10, "nine of this type, one of the other"
    assert await programs.counts("other") == "mail"


class InTransaction:
    """A link whose statements are part of a transaction of the test's."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self.connection, self.database = connection, database

    async def fetch(self, name: str, *args: Any) -> Any:
        return await self.connection.fetch(self.database.sql(name), *args)


@pytest.fixture
async def other(programs: Programs, dsn: str, database: Database) -> AsyncGenerator[Programs]:
    """Programs of another session. One of an old definition lives, the new one was rolled back and would be forgotten."""
    await programs.open(OLD)
    await programs.end(await programs.open(NEW))
    connection = await asyncpg.connect(dsn)
    yield Programs(cast("Link", InTransaction(connection, database)), connection)
    await connection.close()


async def test_a_definition_that_a_runner_is_declaring_is_not_forgotten(programs: Programs, other: Programs) -> None:
    async with other.connection.transaction():
        await other.open(NEW)
        await programs.prune()
    assert await programs.counts() == "new"


async def test_a_definition_that_was_declared_since_the_look_is_not_forgotten(programs: Programs, other: Programs) -> None:
    async with other.connection.transaction():
        await other.connection.execute(
            "LOCK TABLE asyncjobs.types IN EXCLUSIVE MODE"
        )  # who looks is let through, who locks rows is not
        pruning = asyncio.create_task(programs.prune())
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'asyncjobs.types'::regclass"
        await eventually(lambda: other.connection.fetchval(waits), description="it has looked, and waits")
        await other.open(NEW)
    await pruning
    assert await programs.counts() == "new"


async def test_runners_that_open_and_end_at_once_lose_no_definition(programs: Programs, database: Database) -> None:
    types = [a_type("x", name=f"type {number}") for number in range(20)]

    async def program(number: int) -> None:
        link = database.link("test")
        mine = Programs(link, programs.connection)
        for turn in range(10):
            runner_id = await mine.open(*types, a_type(f"of {number}" if turn % 2 else "shared"))
            counts = await link.fetch("own_backend")  # a round trip
            assert counts
            await mine.end(runner_id)
        await link.close()

    await asyncio.gather(*map(program, range(4)))
    await programs.open(*types, OLD)
    assert await programs.counts() == "old"
    for one in types:
        assert await programs.counts(one.name) == "x"
