"""No connection of asyncjobs' own asks the server what its own types are: each of its first statements would."""

from contextlib import suppress
from importlib.resources import files

import asyncpg
import pytest
from asyncpg import introspection

from asyncjobs.store import known_types
from asyncjobs.store.database import Connection, Database

STATEMENTS = sorted(file.name.removesuffix(".sql") for file in files("asyncjobs.store").joinpath("sql").iterdir())
VALUES = {
    "boolean": "true",
    "bigint": "9007199254740993",
    "integer": "7",
    "double precision": "0.1",
    "timestamp with time zone": "'2026-05-05 05:05:05.000005+00'",
}


def arrays(name: str) -> str:
    """Of all kinds there are: with a NULL in it, with nothing, in two dimensions, absent."""
    made = (f"ARRAY[{VALUES[name]}, NULL]", "ARRAY[]", f"ARRAY[[{VALUES[name]}], [{VALUES[name]}]]", "NULL")
    return ", ".join(f"{one}::{name}[]" for one in made)


def test_each_known_type_is_tried() -> None:
    assert [row["elemtype_name"] for row in known_types._KNOWN.values()] == list(VALUES)


@pytest.mark.direct("asks who asks")
async def test_a_first_statement_with_arrays_is_all_that_is_sent(database: Database) -> None:
    connection, sent = await database.connect("test"), list[str]()
    connection.add_query_logger(lambda record: sent.append(record.query))
    for name in VALUES:
        await connection.fetch(f"SELECT {arrays(name)}")
    await connection.close()
    assert sent == [f"SELECT {arrays(name)}" for name in VALUES]


async def test_arrays_are_what_they_are_on_other_connections(database: Database) -> None:
    own, other = await database.connect("test"), await asyncpg.connect(database.dsn)
    for name in VALUES:
        answer = await other.fetchrow(f"SELECT {arrays(name)}")
        assert await own.fetchrow(f"SELECT {arrays(name)}") == answer
        assert answer is not None
        assert await own.fetchval(f"SELECT $1::{name}[]", answer[0]) == answer[0]
    await own.close()
    await other.close()


async def test_known_is_what_the_server_would_say(connection: Connection) -> None:
    """And no driver has changed what it asks."""
    rows = await connection.fetch(introspection.INTRO_LOOKUP_TYPES, list(known_types._KNOWN))
    told = {row["oid"]: dict(row) for row in rows if row["oid"] in known_types._KNOWN}
    assert told == known_types._KNOWN


@pytest.mark.direct("asks who asks")
async def test_no_statement_has_a_type_that_is_not_known(database: Database) -> None:
    connection, sent = await database.connect("test"), list[str]()
    connection.add_query_logger(lambda record: sent.append(record.query))
    for name in STATEMENTS:
        with suppress(asyncpg.PostgresError):  # several commands, or what needs another statement first
            await connection.prepare(database.sql(name))
    await connection.close()
    assert len(STATEMENTS) > 100
    assert sent == []


async def test_other_types_are_asked_for(database: Database) -> None:
    connection = await database.connect("test")
    assert await connection.fetchval("SELECT ARRAY['1 day'::interval]::interval[] || NULL::interval[]")
    await connection.close()
