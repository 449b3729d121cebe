import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import asyncpg
import pytest

import asyncjobs.store.migrate as migrations
from asyncjobs.errors import SchemaMissing, SchemaOutdated, SchemaTooNew
from asyncjobs.store.database import Connection, Database, quote_identifier
from asyncjobs.store.migrate import Migration, check, known, migrate, status
from tests.support.eventually import eventually
from tests.support.program import Program
from tests.support.snapshot import snapshot

NAMES = [migration.name for migration in known()]
EVERYTHING = [*NAMES, "routines"]


@pytest.fixture
def empty(empty_dsn: str, schema: str) -> Database:
    """A database of the test's own, with no schema in it yet."""
    return Database(empty_dsn, schema=schema)


@pytest.fixture
async def admin(empty_dsn: str) -> AsyncGenerator[Connection]:
    connection = await asyncpg.connect(empty_dsn, command_timeout=30)
    yield connection
    await connection.close()


@pytest.mark.matrix("schema")
async def test_an_empty_database_gets_all_migrations_once(empty: Database) -> None:
    with pytest.raises(SchemaMissing, match="asyncjobs migrate"):
        await check(empty)
    assert (await status(empty)).pending == EVERYTHING
    assert await migrate(empty) == EVERYTHING
    assert await migrate(empty) == []
    found = await status(empty)
    assert (found.applied, found.pending, found.unknown) == (NAMES, [], [])
    await check(empty)


@pytest.mark.matrix("schema")
async def test_twenty_at_once_do_the_work_once(empty: Database) -> None:
    answers = await asyncio.gather(*(migrate(empty) for _ in range(20)))
    assert Counter(name for names in answers for name in names) == Counter(EVERYTHING)


async def test_processes_at_once_do_the_work_once(empty: Database, admin: Connection) -> None:
    script = "import asyncio, sys\nfrom asyncjobs.store.database import Database\nfrom asyncjobs.store.migrate import migrate\n"
    script += "print(*asyncio.run(migrate(Database(sys.argv[1]))), 'done')"
    programs = [Program.python("-c", script, empty.dsn) for _ in range(3)]
    for program in programs:
        await program.__aenter__()
    said = [await program.line("done") for program in programs]
    for program in programs:
        assert await program.wait() == 0
        await program.__aexit__()
    assert sorted(name for line in said for name in line.split()[:-1]) == EVERYTHING
    assert await admin.fetchval("SELECT count(*) FROM asyncjobs.migrations") == len(NAMES)


async def test_a_current_schema_costs_no_ddl(empty: Database, admin: Connection) -> None:
    await migrate(empty)
    await admin.execute(
        """
        CREATE FUNCTION public.refuse() RETURNS event_trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE 'DDL in a current schema: %', tg_tag; END $$;
        CREATE EVENT TRIGGER refuse ON ddl_command_start EXECUTE FUNCTION public.refuse();
        """
    )
    with pytest.raises(asyncpg.RaiseError):
        await admin.execute("CREATE TABLE public.seen_to_refuse ()")
    assert await migrate(empty) == []
    await check(empty)


async def test_a_newer_breaking_schema_is_refused_by_name(empty: Database, admin: Connection) -> None:
    await migrate(empty)
    await admin.execute("INSERT INTO asyncjobs.migrations (number, name, breaking) VALUES (9001, '9001_other.sql', true)")
    for refuses in (check, migrate):
        with pytest.raises(SchemaTooNew, match=r"9001_other\.sql"):
            await refuses(empty)


async def test_a_newer_schema_that_breaks_nothing_is_worked_with(empty: Database, admin: Connection) -> None:
    await migrate(empty)
    await admin.execute("INSERT INTO asyncjobs.migrations (number, name, breaking) VALUES (9001, '9001_more.sql', false)")
    assert await migrate(empty) == []
    await check(empty)
    assert (await status(empty)).unknown == ["9001_more.sql"]


async def test_an_older_schema_is_named_and_brought_up_to_date(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await migrate(empty)
    more = _pretend(monkeypatch, "CREATE TABLE asyncjobs.more (number integer)")
    with pytest.raises(SchemaOutdated, match=more):
        await check(empty)
    assert await migrate(empty) == [more]
    await check(empty)


async def test_a_breaking_migration_waits_for_someone_who_allows_it(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await migrate(empty)
    more = _pretend(monkeypatch, "CREATE TABLE asyncjobs.more (number integer)", breaking=True)
    with pytest.raises(SchemaOutdated, match=more):
        await migrate(empty, allow_breaking=False)
    assert (await status(empty)).pending == [more]
    assert await migrate(empty, allow_breaking=True) == [more]


async def test_a_new_schema_takes_breaking_migrations_without_asking(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    more = _pretend(monkeypatch, "CREATE TABLE asyncjobs.more (number integer)", breaking=True)
    assert await migrate(empty, allow_breaking=False) == [*NAMES, more, "routines"]


async def test_a_migration_that_fails_leaves_nothing_of_itself(
    empty: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = _pretend(monkeypatch, "CREATE TABLE asyncjobs.more (number integer); SELECT 1 / 0;")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(empty)
    assert await admin.fetchval("SELECT to_regnamespace('asyncjobs')") is None
    assert (await status(empty)).pending == [*NAMES, more, "routines"]


async def test_a_long_transaction_delays_a_migration_but_not_everybody_else(
    empty: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(empty)
    more = _pretend(monkeypatch, "ALTER TABLE asyncjobs.jobs ADD COLUMN more integer")
    reader = await empty.connect("reader")
    async with reader.transaction():
        await reader.execute("SELECT FROM asyncjobs.jobs")
        migrating = asyncio.create_task(migrate(empty))
        blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'asyncjobs.jobs'::regclass"
        await eventually(lambda: admin.fetchval(blocked), description="the migration waits for the table")
        # It stands in front of this one, and steps back after its lock_timeout.
        await asyncio.wait_for(admin.execute("INSERT INTO asyncjobs.jobs (enqueue_token, type) VALUES (0, 'email')"), 4.5)
        assert not migrating.done()
    assert await migrating == [more]
    await reader.close()


async def test_a_killed_migration_leaves_nothing_and_is_done_by_the_next(empty: Database, admin: Connection) -> None:
    await admin.execute(
        """
        CREATE FUNCTION public.stop_here() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
            IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() AS c WHERE c.object_identity LIKE 'asyncjobs.enqueue(%') THEN
                PERFORM pg_advisory_xact_lock(42);
            END IF;
        END $$;
        CREATE EVENT TRIGGER stop_here ON ddl_command_end EXECUTE FUNCTION public.stop_here();
        SELECT pg_advisory_lock(42);
        """
    )
    script = "import asyncio, sys\nfrom asyncjobs.store.database import Database\nfrom asyncjobs.store.migrate import migrate\n"
    script += "asyncio.run(migrate(Database(sys.argv[1])))"
    waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted"
    async with Program.python("-c", script, empty.dsn) as program:
        await eventually(lambda: admin.fetchval(waits), description="it is in the middle of a migration", timeout=20)
        program.kill()
        await program.wait()
    await eventually(
        lambda: admin.fetchval(f"SELECT NOT EXISTS ({waits.replace('count(*)', '')})"), description="its session ended"
    )
    assert (await status(empty)).pending == EVERYTHING
    assert await admin.fetchval("SELECT to_regnamespace('asyncjobs')") is None
    doing = asyncio.create_task(migrate(empty))
    await admin.execute("SELECT pg_advisory_unlock(42)")
    assert await doing == EVERYTHING


@pytest.mark.matrix("schema")
async def test_an_ordinary_role_may_migrate_what_it_owns(empty: Database, admin: Connection, empty_dsn: str) -> None:
    name = quote_identifier(_name(empty_dsn))
    role = quote_identifier(f"owner of {_name(empty_dsn)}")
    await admin.execute(f"CREATE ROLE {role} NOSUPERUSER; GRANT CREATE ON DATABASE {name} TO {role}")
    await admin.execute(f"ALTER DATABASE {name} SET role = {role}")
    try:
        assert await migrate(empty) == EVERYTHING
        owners = await admin.fetchval("SELECT array_agg(DISTINCT tableowner) FROM pg_tables WHERE schemaname = $1", empty.schema)
        assert [quote_identifier(owner) for owner in owners] == [role]
    finally:
        await admin.execute(f"DROP OWNED BY {role}; ALTER DATABASE {name} RESET role; DROP ROLE {role}")


@pytest.mark.matrix("schema")
async def test_the_search_path_does_not_matter(empty: Database, admin: Connection, empty_dsn: str) -> None:
    await admin.execute(f"ALTER DATABASE {quote_identifier(_name(empty_dsn))} SET search_path = ''")
    assert await migrate(empty) == EVERYTHING
    # Objects of the same names elsewhere are not taken for ours.
    await admin.execute(f"ALTER DATABASE {quote_identifier(_name(empty_dsn))} SET search_path = decoy, public")
    await admin.execute("CREATE SCHEMA decoy; CREATE TABLE decoy.migrations (); CREATE TABLE decoy.jobs ()")
    assert await migrate(empty) == []


async def test_the_schema_is_the_reviewed_one(empty: Database, admin: Connection) -> None:
    await migrate(empty)
    reviewed = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
    assert await snapshot(admin) == reviewed, "review the change, then: python -m tests.support.snapshot > tests/store/schema.sql"


def _name(dsn: str) -> str:
    return dsn.rpartition("/")[2]


def _pretend(monkeypatch: pytest.MonkeyPatch, sql: str, *, breaking: bool = False) -> str:
    """As if this version had one migration more."""
    more = Migration(9000, "9000_more.sql", breaking, "hash")
    every = (*known(), more)
    original = Database.migration
    monkeypatch.setattr(migrations, "known", lambda: every)
    monkeypatch.setattr(Database, "migration", lambda self, name: sql if name == more.name else original(self, name))
    return more.name
