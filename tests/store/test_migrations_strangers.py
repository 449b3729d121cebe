"""A schema that is somebody else's, too, and a server that is too old."""

import re

import asyncpg
import pytest

import asyncjobs.store.migrate as migrations
from asyncjobs.errors import ConfigurationError, SchemaError
from asyncjobs.store.database import Database
from asyncjobs.store.migrate import check, migrate


@pytest.mark.parametrize(
    ("theirs", "what"),
    [
        ("CREATE TABLE public.migrations (id integer, applied date)", 'relation "migrations"'),
        ("CREATE TABLE public.jobs (id integer)", 'relation "jobs"'),
        ("CREATE FUNCTION public.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'", 'function "clock"'),
    ],
)
async def test_what_others_have_in_the_schema_is_named_and_left_alone(theirs: str, what: str, empty_dsn: str) -> None:
    database = Database(empty_dsn, schema="public")
    connection = await asyncpg.connect(empty_dsn)
    await connection.execute(theirs)
    relations = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    before = await connection.fetchval(relations)
    with pytest.raises(
        SchemaError, match=f'^schema "public" has a {what}.* that is not asyncjobs\' own: give asyncjobs a schema'
    ):
        await migrate(database)
    with pytest.raises(SchemaError):
        await check(database)
    assert await connection.fetchval(relations) == before
    await connection.close()


async def test_a_schema_that_others_use_is_shared_when_no_name_collides(empty_dsn: str) -> None:
    database = Database(empty_dsn, schema="public")
    connection = await asyncpg.connect(empty_dsn)
    await connection.execute("CREATE TABLE public.users (id integer)")
    assert await migrate(database) == [*(migration.name for migration in migrations.known()), "routines"]
    await check(database)
    await connection.close()


async def test_a_server_that_is_too_old_is_told_apart(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "_LEAST_SERVER", 99)
    with pytest.raises(SchemaError, match=r"^the database runs PostgreSQL \d+: asyncjobs needs 99 or newer\.$"):
        await migrate(Database(empty_dsn))


async def test_a_schema_that_was_renamed_is_refused_with_the_way_back(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute('ALTER SCHEMA asyncjobs RENAME TO "our ""jobs"')
    renamed = Database(dsn, schema='our "jobs')
    back = 'ALTER SCHEMA "our ""jobs" RENAME TO "asyncjobs"'
    for refused in (check, migrate):
        with pytest.raises(SchemaError, match=re.escape(back)):
            await refused(renamed)
    await connection.execute(back)
    await check(Database(dsn))
    await connection.close()


@pytest.mark.direct("sets it for the database, and a pooler keeps sessions from before")
async def test_an_isolation_level_that_a_pooler_keeps_from_being_set_is_refused(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")
    await check(Database(dsn))
    with pytest.raises(ConfigurationError, match=r"repeatable read.*ALTER ROLE .* SET default_transaction_isolation"):
        await check(Database(dsn, connect_kwargs={"server_settings": {}, "statement_cache_size": 0}))
    await connection.close()
