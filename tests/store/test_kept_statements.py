"""Statements that are made again and again are prepared once, and survive what becomes of them."""

from itertools import count

import pytest

from asyncjobs.store import jobs
from asyncjobs.store.database import Connection, Database, Link, in_schema
from tests.support.factories import a_row

_ids = count(1_000_000)

PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE name <> '' AND statement LIKE $1"


async def enqueue(link: Link) -> None:
    """Write one more row, by the statement that is kept."""
    await jobs.enqueue(link, [a_row()], [next(_ids)], [1])


@pytest.mark.direct("counts the prepared statements of its own session")
async def test_it_is_prepared_once(database: Database) -> None:
    link = database.link("kept")
    for _ in range(3):
        await enqueue(link)
    assert await (await link.connection()).fetchval(PREPARED, "%enqueue_token%") == 1
    await link.close()


async def test_it_is_made_anew_on_another_connection(database: Database, connection: Connection) -> None:
    link = database.link("kept")
    await enqueue(link)
    link.abort()
    await enqueue(link)
    await link.close()
    await enqueue(link)
    await link.close()
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 3


async def test_a_migration_that_changes_what_it_answers_disturbs_nobody(database: Database, connection: Connection) -> None:
    link = database.link("kept")
    await enqueue(link)
    await connection.execute("CREATE TABLE asyncjobs.changing (one integer); INSERT INTO asyncjobs.changing VALUES (1)")
    database._sql["changing"] = in_schema("SELECT * FROM asyncjobs.changing", database.schema)
    await link.fetch_often("changing")
    await connection.execute("ALTER TABLE asyncjobs.changing ADD COLUMN two text; ALTER TABLE asyncjobs.jobs ADD COLUMN new text")
    assert list((await link.fetch_often("changing"))[0].keys()) == ["one", "two"]
    await enqueue(link)
    await link.close()


async def test_one_that_a_pooler_has_forgotten_is_made_again(database: Database, connection: Connection) -> None:
    link = database.link("kept")
    await enqueue(link)
    await (await link.connection()).execute("DEALLOCATE ALL")
    await enqueue(link)
    await link.close()
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 2


async def test_none_is_kept_where_sessions_change(database: Database, connection: Connection) -> None:
    plain = database.plain()
    link = plain.link("kept")
    for _ in range(2):
        await enqueue(link)
    assert await (await link.connection()).fetchval(PREPARED, "%enqueue_token%") == 0
    await link.close()
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 2
