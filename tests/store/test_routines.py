"""Functions and views are those of the newest program that migrated; see the rules in `asyncjobs/store/routines.py`."""

from collections.abc import AsyncGenerator, Callable, Iterable
from functools import cache

import asyncpg
import pytest

import asyncjobs.store.migrate as migrations
from asyncjobs.errors import SchemaError, SchemaOutdated
from asyncjobs.store import routines
from asyncjobs.store.database import Connection, Database
from asyncjobs.store.migrate import Migration, check, migrate, status
from asyncjobs.store.routines import Routine

Pretend = Callable[[Iterable[Routine]], None]
ONE = Routine("one", "sums", "CREATE FUNCTION asyncjobs.one() RETURNS integer LANGUAGE sql RETURN 1;\n")
SUM = Routine(
    "sum_of", "sums", "CREATE FUNCTION asyncjobs.sum_of(_a integer) RETURNS integer LANGUAGE sql\nRETURN _a + asyncjobs.one();\n"
)
NOTES = Routine(
    "note",
    "notes",
    """CREATE FUNCTION asyncjobs.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
REVOKE EXECUTE ON FUNCTION asyncjobs.note() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER noted AFTER INSERT ON asyncjobs.pauses
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION asyncjobs.note();
""",
)
VIEW = Routine("sums", "sums", "CREATE VIEW asyncjobs.sums AS SELECT asyncjobs.sum_of(1) AS one;\n")


@pytest.fixture
def empty(empty_dsn: str) -> Database:
    return Database(empty_dsn)


@pytest.fixture
async def admin(empty_dsn: str) -> AsyncGenerator[Connection]:
    connection = await asyncpg.connect(empty_dsn, command_timeout=30)
    yield connection
    await connection.close()


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """As if this version had these routines besides its own."""
    own = routines.known()

    def change(more: Iterable[Routine]) -> None:
        every = (*own, *more)
        monkeypatch.setattr(routines, "known", cache(lambda: every))

    return change


@pytest.fixture
def next_migration(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    own, original = migrations.known(), Database.migration

    def add(*, breaking: bool) -> str:
        more = Migration(9000, "9000_more.sql", breaking, "hash")
        monkeypatch.setattr(migrations, "known", lambda: (*own, more))
        monkeypatch.setattr(
            Database, "migration", lambda self, name: "-- routines only" if name == more.name else original(self, name)
        )
        return more.name

    return add


def changed(routine: Routine, old: str, new: str) -> Routine:
    assert old in routine.text
    return Routine(routine.name, routine.chapter, routine.text.replace(old, new))


async def signatures(admin: Connection, name: str) -> list[str]:
    rows = await admin.fetch(
        "SELECT pg_get_function_identity_arguments(p.oid) AS s FROM pg_proc AS p "
        "WHERE p.pronamespace = 'asyncjobs'::regnamespace AND p.proname = $1",
        name,
    )
    return sorted(row["s"] for row in rows)


async def test_a_changed_text_is_made_anew_and_no_other(empty: Database, admin: Connection, pretend: Pretend) -> None:
    pretend([ONE, SUM])
    await migrate(empty)
    made = "SELECT proname, xmin::text FROM pg_proc WHERE pronamespace = 'asyncjobs'::regnamespace"
    before = {tuple(row) for row in await admin.fetch(made)}
    pretend([changed(ONE, "RETURN 1", "RETURN 2"), SUM])
    with pytest.raises(SchemaOutdated, match="routines"):
        await check(empty)
    assert await migrate(empty) == ["routines"]
    assert await admin.fetchval("SELECT asyncjobs.sum_of(1)") == 3
    assert {name for name, _ in before ^ {tuple(row) for row in await admin.fetch(made)}} == {"one"}
    assert await migrate(empty) == []
    await check(empty)


async def test_a_routine_comes_after_those_that_are_named_outside_of_its_body() -> None:
    seen: set[str] = set()
    names = {one.name for one in routines.known()}
    for one in routines.known():
        assert one.needs & names <= seen, one.name
        seen.add(one.name)
    assert any(one.needs & names for one in routines.known())


async def test_a_trigger_is_made_anew_with_its_function(empty: Database, admin: Connection, pretend: Pretend) -> None:
    pretend([NOTES])
    await migrate(empty)
    pretend([changed(NOTES, "AFTER INSERT ON", "AFTER INSERT OR UPDATE ON")])
    assert await migrate(empty) == ["routines"]
    made = "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'noted'"
    assert [row[0].partition(" ON ")[0] for row in await admin.fetch(made)] == [
        "CREATE CONSTRAINT TRIGGER noted AFTER INSERT OR UPDATE"
    ]
    allowed = "SELECT has_function_privilege('public', 'asyncjobs.note()', 'EXECUTE')"
    assert await admin.fetchval(allowed) is False


async def test_an_older_program_leaves_the_texts_of_a_newer_one(
    empty: Database, admin: Connection, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend([ONE])
    await migrate(empty)
    await admin.execute("INSERT INTO asyncjobs.migrations (number, name, breaking) VALUES (9001, '9001_more.sql', false)")
    pretend([changed(ONE, "RETURN 1", "RETURN 0")])
    assert (await status(empty)).pending == []
    assert await migrate(empty) == []
    await check(empty)
    assert await admin.fetchval("SELECT asyncjobs.one()") == 1


async def test_other_parameters_stand_beside_the_former_until_a_breaking_migration(
    empty: Database, admin: Connection, pretend: Pretend, next_migration: Callable[..., str]
) -> None:
    await admin.execute("CREATE SCHEMA asyncjobs; CREATE FUNCTION asyncjobs.theirs() RETURNS integer LANGUAGE sql RETURN 7")
    pretend([ONE, SUM, VIEW])
    await migrate(empty)
    wider = Routine(
        "sum_of",
        "sums",
        "CREATE FUNCTION asyncjobs.sum_of(_a integer, _b integer) RETURNS integer LANGUAGE sql\n"
        "RETURN _a + _b + asyncjobs.one();\n",
    )
    pretend([ONE, wider])
    assert await migrate(empty) == ["routines"]
    assert await signatures(admin, "sum_of") == ["_a integer", "_a integer, _b integer"]
    assert await admin.fetchval("SELECT one FROM asyncjobs.sums") == 2
    more = next_migration(breaking=True)
    assert await migrate(empty) == [more]
    assert await signatures(admin, "sum_of") == ["_a integer, _b integer"]
    assert await admin.fetchval("SELECT to_regclass('asyncjobs.sums')") is None
    assert await admin.fetchval("SELECT asyncjobs.theirs()") == 7
    left = await admin.fetch("SELECT name FROM asyncjobs.routines")
    assert {row["name"] for row in left} == {m.name for m in migrations.known()} | {one.name for one in routines.known()}
    await check(empty)


async def test_a_migration_that_breaks_nothing_drops_nothing(
    empty: Database, admin: Connection, pretend: Pretend, next_migration: Callable[..., str]
) -> None:
    pretend([ONE, SUM])
    await migrate(empty)
    pretend([ONE])
    more = next_migration(breaking=False)
    assert await migrate(empty) == [more]
    assert await signatures(admin, "sum_of") == ["_a integer"]


async def test_a_routine_that_cannot_be_made_leaves_everything_as_it_was(
    empty: Database, admin: Connection, pretend: Pretend
) -> None:
    pretend([ONE, SUM])
    await migrate(empty)
    pretend([changed(ONE, "RETURN 1", "RETURN 2"), changed(SUM, "_a +", "_b +")])
    with pytest.raises(asyncpg.UndefinedColumnError):
        await migrate(empty)
    assert await admin.fetchval("SELECT asyncjobs.sum_of(1)") == 2
    assert (await status(empty)).pending == ["routines"]


async def test_a_schema_of_before_the_first_release_is_refused_in_words(empty: Database, admin: Connection) -> None:
    await admin.execute(
        "CREATE SCHEMA asyncjobs; CREATE TABLE asyncjobs.migrations (number integer PRIMARY KEY, name text, breaking boolean, "
        "applied_at timestamptz); "
        "INSERT INTO asyncjobs.migrations VALUES (1, '0001_tables.sql', false), (2, '0002_keys.sql', false)"
    )
    for refused in (check, migrate):
        with pytest.raises(SchemaError, match=r"before its first release \(0002_keys\.sql\).*another schema"):
            await refused(empty)
    assert (
        await admin.fetchval("SELECT count(*) FROM pg_class WHERE relnamespace = 'asyncjobs'::regnamespace AND relkind = 'r'")
        == 1
    )


async def test_a_schema_whose_tables_come_from_another_text_of_a_migration_is_refused_in_words(
    empty: Database, admin: Connection
) -> None:
    await migrate(empty)
    await check(empty)
    baseline = migrations.known()[0]
    for change in ("SET hash = 'of another text'", "SET name = name || '.orig'"):  # recorded as another, or not at all
        await admin.execute(f"UPDATE asyncjobs.routines {change} WHERE name = $1", baseline.name)
        for refused in (check, migrate):
            with pytest.raises(SchemaError, match=r"before its first release \(0019_baseline\.sql\).*another schema"):
                await refused(empty)
        assert (await status(empty)).pending == []
        await admin.execute(
            "UPDATE asyncjobs.routines SET name = $1, hash = $2 WHERE name LIKE $1 || '%'", baseline.name, baseline.hash
        )
    await check(empty)
