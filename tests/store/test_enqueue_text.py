"""Texts that look like SQL: as names of the schema, in the search path, and in every text of a job."""

import contextlib
from itertools import count
from typing import Any

import asyncpg
import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from asyncjobs.app import AsyncJobs
from asyncjobs.errors import InvalidOption
from asyncjobs.model.names import check_schema_name
from asyncjobs.model.new_row import NewRow
from asyncjobs.store import callers, jobs
from asyncjobs.store.database import Connection, Database, quote_identifier
from asyncjobs.store.migrate import check, migrate
from tests.support.factories import a_row

SCHEMAS = [
    'a "quoted" name',
    "100 %s %d %(x)s",
    "$1 and $2",
    "$$ body",
    "$body$ $$",
    "it's",
    "back\\slash",
    "my asyncjobs.jobs",
    "SELECT",
]
ROWS = [a_row(payload={"n": 1}), a_row(serialization_key="k", dedup_key="d"), a_row(serialization_key="k", dedup_key="d")]


@pytest.mark.parametrize("name", SCHEMAS)
async def test_a_schema_may_have_any_name(name: str, empty_dsn: str) -> None:
    database = Database(empty_dsn, schema=check_schema_name(name))
    await migrate(database)
    await check(database)
    link = database.link("own")
    ids = await jobs.reserve_ids(link, 3)
    answer = await jobs.enqueue(link, ROWS, ids, ids)
    assert [one.id for one in answer.enqueued] == [ids[0], ids[1], ids[1]]
    job = await jobs.get(link, ids[1])
    assert job is not None
    assert (job.serialization_key, job.status) == ("k", "pending")
    await link.close()

    one: Any = await asyncpg.connect(empty_dsn)
    others: list[Any] = [await psycopg.AsyncConnection.connect(empty_dsn)]
    engines = [
        create_async_engine(empty_dsn.replace("postgresql://", f"postgresql+{driver}://"), poolclass=NullPool)
        for driver in ("asyncpg", "psycopg")
    ]
    others += [await engine.connect() for engine in engines]
    for theirs in (one, *others):
        answer = await callers.enqueue(theirs, database, ROWS, [1, 2, 3])
        assert [enqueued.created for enqueued in answer.enqueued] == [True, False, False]
        if theirs is not one:
            await theirs.commit()
            await theirs.close()
    for engine in engines:
        await engine.dispose()
    assert await one.fetchval(f"SELECT count(*) FROM {quote_identifier(name)}.jobs") == 6
    await one.close()


#: What a search path may put in front of the server's own.
EVIL = """
    CREATE SCHEMA evil;
    CREATE TABLE evil.jobs (id bigint);
    CREATE FUNCTION evil.fail(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END';
    CREATE FUNCTION evil.fail(text, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END';
    CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END';
    CREATE FUNCTION evil.unnest(anyarray) RETURNS SETOF anyelement LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END';
    CREATE FUNCTION evil.nextval(text) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END';
    CREATE FUNCTION evil.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END';
    CREATE FUNCTION evil.hashtext(text) RETURNS integer LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END';
    CREATE FUNCTION evil.jsonb_array_elements(jsonb) RETURNS SETOF jsonb LANGUAGE plpgsql AS 'BEGIN RAISE ''evil''; END';
    CREATE OPERATOR evil.= (FUNCTION = evil.fail, LEFTARG = bigint, RIGHTARG = bigint);
    CREATE OPERATOR evil.= (FUNCTION = evil.fail, LEFTARG = text, RIGHTARG = text);
    CREATE OPERATOR evil.<> (FUNCTION = evil.fail, LEFTARG = bigint, RIGHTARG = bigint);
"""


@pytest.mark.matrix("schema")
@pytest.mark.parametrize("path", ["''", "evil, pg_catalog", "evil, pg_temp, pg_catalog"])
async def test_the_callers_search_path_does_not_matter(path: str, database: Database, connection: Connection) -> None:
    await connection.execute(EVIL)
    await connection.execute(f"SET search_path = {path}")
    async with connection.transaction():
        await callers.enqueue(connection, database, ROWS, [1, 2, 3])
        refused = await callers.enqueue(connection, database, [a_row(dedup_key="d", on_duplicate="raise")], [4])
        replaced = a_row(dedup_key="d", serialization_key="k", on_duplicate="replace", delay_seconds=5.0)
        await callers.enqueue(connection, database, [replaced], [5])
    assert refused.refused[0].status == "waiting"
    await connection.execute("SET search_path = pg_catalog")
    assert await connection.fetchval(f"SELECT count(*) FROM {quote_identifier(database.schema)}.jobs") == 2


FRAGMENTS = st.sampled_from(
    ["'", "''", '"', "\\", "\\'", ";", "--", "/*", "*/", "$1", "$$", "%", "%s", "%(a)s", "{", "}", "{}", ":a", "?", "NULL",
     "\\u0000", "'; DROP TABLE asyncjobs.jobs; --", "E'\\''", "${x}", "ä", "\U0001f600", "\u202e", "é", "e\u0301", "\u2028",
     "asyncjobs.jobs", "'asyncjobs.", "\t", "\n", "\r", "\x7f"]
)  # fmt: skip
ANY = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
TEXTS = st.lists(st.one_of(FRAGMENTS, ANY), min_size=1, max_size=5).map("".join).filter(bool)
#: Of these a row has one each: what the public names and options check is weaker than what is tried here.
FIELDS = ("queue", "lane", "correlation_id", "created_by", "dedup_key", "serialization_key", "trace_context", "type")

NUMBERS = count()
PATIENT = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def rows_of(texts: dict[str, str]) -> NewRow:
    named = {name: text for name, text in texts.items() if name != "type"}
    return a_row(texts["type"], **named, payload={"text": texts["type"], texts["queue"] + "-": [texts["lane"]]})


@PATIENT
@given(texts=st.fixed_dictionaries(dict.fromkeys(FIELDS, TEXTS)))
@example(texts=dict.fromkeys(FIELDS, "'; DROP TABLE asyncjobs.jobs; --"))
async def test_texts_of_rows_never_become_part_of_a_statement_and_come_back(
    texts: dict[str, str], database: Database, connection: Connection
) -> None:
    rows = [
        rows_of(texts | {name: texts[name] + str(next(NUMBERS)) for name in ("dedup_key", "serialization_key")}) for _ in range(3)
    ]
    statements: set[str] = set()
    link = database.link("own")
    other = await psycopg.AsyncConnection.connect(database.dsn, autocommit=True)
    try:
        for watched in (connection, await link.connection()):
            watched.add_query_logger(lambda record: statements.add(record.query))
        ids = await jobs.reserve_ids(link, 1)
        answers = [
            await jobs.enqueue(link, rows[:1], ids, ids),
            await callers.enqueue(connection, database, rows[1:2], [1]),
            await callers.enqueue(other, database, rows[2:], [1]),
        ]
        found = [await jobs.get(link, answer.enqueued[0].id) for answer in answers]
    finally:
        await other.close()
        await link.close()
    for row, job in zip(rows, found, strict=True):
        assert job is not None
        assert {name: getattr(job, name) for name in FIELDS} == {name: getattr(row, name) for name in FIELDS}
        assert job.payload == {"text": texts["type"], texts["queue"] + "-": [texts["lane"]]}
    known = {database.sql(name) for name in ("reserve_ids", "enqueue", "enqueue_in_transaction", "job")}
    assert all("typeinfo_tree" in text or "'jit'" in text for text in statements - known), "but for asyncpg's own"


@PATIENT
@given(
    texts=st.fixed_dictionaries(dict.fromkeys(("correlation_id", "created_by", "dedup_key", "serialization_key", "text"), TEXTS))
)
async def test_texts_of_options_come_back_or_are_refused_before_anything_is_written(texts: dict[str, str], dsn: str) -> None:
    app = AsyncJobs(dsn)

    @app.job("email")
    async def email(text: str, more: dict[str, str]) -> None: ...

    payload = texts.pop("text")
    options: dict[str, Any] = texts
    async with app:
        handle = None
        with contextlib.suppress(InvalidOption):  # what cannot be printed
            handle = await email.using(**options).enqueue(payload, more={payload: payload})
        job = await app.get(handle.id) if handle else None
    if job is None:
        assert not all(text.isprintable() for text in texts.values())
        return
    if handle and handle.created:  # else an example before it had the same dedup key
        assert job.payload == {"text": payload, "more": {payload: payload}}
        assert {name: getattr(job, name) for name in options} == options
