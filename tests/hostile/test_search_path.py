"""A role's search_path that puts a stranger's schema first: no operator, function or cast of the stranger's is ever called."""

import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from asyncjobs import AsyncJobs, ConfigurationError
from asyncjobs.store import migrate
from asyncjobs.store.database import Connection, Database

pytestmark = pytest.mark.direct("sets a path for all sessions, which asyncjobs refuses where it cannot pin its own")

PACKAGE = Path(__file__).parents[2] / "asyncjobs"

#: In `public`: operators and functions of pg_catalog over the types that asyncjobs uses, under the same names and for the same
#: arguments, each of which says that it was called. Exact matches, so a path with `public` before pg_catalog takes these.
HOSTILE = r"""
CREATE FUNCTION public.trap(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'hostile % was called', $1; END $$;
DO $do$
DECLARE
    _used oid[] := ARRAY['bool', 'int2', 'int4', 'int8', 'float8', 'numeric', 'text', 'name', 'oid', 'timestamptz',
        'interval', 'jsonb', 'text[]', 'int8[]', 'int4[]']::regtype[]::oid[];
    _one record;
BEGIN
    FOR _one IN SELECT o.oprname AS name, o.oprleft::regtype AS l, o.oprright::regtype AS r, o.oprresult::regtype AS result
        FROM pg_operator AS o WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprleft = ANY (_used) AND o.oprright =
            ANY (_used)
    LOOP
        EXECUTE format('CREATE FUNCTION public.%I(%s, %s) RETURNS %s LANGUAGE plpgsql'
            ' AS $b$ BEGIN PERFORM public.trap(%L); END $b$',
            'op_' || md5(_one.name), _one.l, _one.r, _one.result, _one.name);
        EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.%I)',
            _one.name, _one.l, _one.r, 'op_' || md5(_one.name));
    END LOOP;
    FOR _one IN SELECT p.proname AS name, pg_get_function_identity_arguments(p.oid) AS args, p.prorettype::regtype AS result
        FROM pg_proc AS p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND NOT p.proretset
            AND p.provariadic = 0 AND p.prorettype = ANY (_used) AND p.proargtypes::oid[] <@ _used
            AND p.proname IN ('now', 'hashtext', 'left', 'coalesce', 'cardinality', 'array_length', 'jsonb_array_length',
                'jsonb_typeof', 'isfinite',
                'date_trunc', 'pg_backend_pid', 'nextval', 'pg_notify', 'set_config', 'current_setting',
                    'pg_advisory_xact_lock', 'starts_with',
                'pg_try_advisory_lock', 'make_interval', 'clock_timestamp', 'lower', 'length', 'abs', 'random', 'greatest')
    LOOP
        EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS $b$ BEGIN PERFORM public.trap(%L); END $b$',
            _one.name, _one.args, _one.result, _one.name);
    END LOOP;
    EXECUTE $c$CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $b$ BEGIN PERFORM
        public.trap('pg_notify'); END $b$ $c$;
    EXECUTE 'CREATE DOMAIN public.text AS pg_catalog.text CHECK (false)';
    EXECUTE 'CREATE DOMAIN public.jsonb AS pg_catalog.jsonb CHECK (false)';
    EXECUTE 'CREATE DOMAIN public.timestamptz AS pg_catalog.timestamptz CHECK (false)';
    EXECUTE 'CREATE DOMAIN public.float8 AS pg_catalog.float8 CHECK (false)';
END $do$"""


@pytest.fixture
async def hostile_dsn(empty_dsn: str) -> str:
    """A database whose every session looks names up in the stranger's schema first."""
    name = empty_dsn.rsplit("/", 1)[-1].partition("?")[0]
    owner = await asyncpg.connect(empty_dsn)
    await owner.execute(HOSTILE)
    await owner.execute(f'ALTER DATABASE "{name}" SET search_path = public, pg_catalog')
    await owner.close()
    victim = await asyncpg.connect(empty_dsn)
    with pytest.raises(asyncpg.RaiseError, match="hostile = was called"):
        await victim.execute("SELECT FROM pg_catalog.pg_class AS c WHERE c.relname = 'jobs'::name")
    await victim.close()
    return empty_dsn


async def test_migrations_bind_nothing_of_a_strangers(hostile_dsn: str) -> None:
    await AsyncJobs(hostile_dsn).migrate()
    owner = await asyncpg.connect(hostile_dsn, server_settings={"search_path": "pg_catalog"})
    found = await owner.fetch(
        """SELECT d.classid::regclass::text, d.objid, d.refobjid FROM pg_depend AS d
           JOIN (SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace
                 UNION ALL SELECT oid FROM pg_operator WHERE oprnamespace = 'public'::regnamespace
                 UNION ALL SELECT oid FROM pg_type WHERE typnamespace = 'public'::regnamespace) AS theirs ON theirs.oid =
                     d.refobjid
           WHERE d.classid IN ('pg_proc'::regclass, 'pg_rewrite'::regclass, 'pg_attrdef'::regclass,
               'pg_constraint'::regclass, 'pg_class'::regclass)
             AND EXISTS (SELECT FROM pg_proc AS p WHERE p.oid = d.objid AND p.pronamespace = 'asyncjobs'::regnamespace
                 UNION ALL SELECT FROM pg_class AS c WHERE c.oid = d.objid AND c.relnamespace = 'asyncjobs'::regnamespace)"""
    )
    await owner.close()
    assert found == []


async def test_script_of_the_migrations_binds_by_a_path_of_its_own() -> None:
    assert migrate.script(Database("postgresql://localhost/x")).startswith("SET LOCAL search_path = pg_catalog, pg_temp;")


async def test_every_function_has_a_fixed_path_or_was_bound_when_it_was_made(connection: Connection) -> None:
    loose = await connection.fetch(
        """SELECT p.oid::regprocedure::text AS name FROM pg_proc AS p
           WHERE p.pronamespace = 'asyncjobs'::regnamespace AND p.prokind = 'f' AND p.prosqlbody IS NULL
             AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)"""
    )
    assert loose == []


async def test_jobs_run_and_operators_see_them_beside_a_strangers_operators(hostile_dsn: str) -> None:
    jobs = AsyncJobs(hostile_dsn, auto_migrate=True, poll_interval=0.2, prune_interval=0.2, metrics_interval=0.2)

    @jobs.job("email")
    async def email(n: int) -> int:
        return n

    async with jobs.runner():
        handles = [await email.using(**options).enqueue(1) for options in _ways()]
        handles += await jobs.enqueue_many([email.new(2), email.using(serialization_key="k").new(3)])
        assert [(await handle.wait(timeout=10)).status for handle in handles] == ["completed"] * len(handles)
        admin = jobs.admin
        for look in (admin.find, admin.keys, admin.dead_letters, admin.stats, admin.sample, admin.metrics, admin.largest,
            admin.leases,
                     admin.runners, admin.schedules, admin.breakers, admin.pauses):  # fmt: skip
            await look()
        await admin.explain(handles[0].id)


def _ways() -> list[dict[str, Any]]:
    return [{}, {"serialization_key": "k"}, {"dedup_key": "d"}, {"delay": 0.1}, {"serialization_key": "k", "delay": 0.1}]


#: What their owner's path looks up: statements that are sent on connections of callers.
THEIRS = ("enqueue_in_transaction", "complete_in_transaction", "hold_lease_in_transaction", "verb_in_transaction")


async def test_statements_on_a_callers_connection_use_nothing_of_a_strangers(hostile_dsn: str) -> None:
    jobs = AsyncJobs(hostile_dsn, auto_migrate=True)

    @jobs.job("email")
    async def email(n: int) -> int:
        return n

    theirs = await asyncpg.connect(hostile_dsn)
    # Its driver's own look at the types of arrays is not ours to send: it is made before.
    await theirs.execute("SET search_path = pg_catalog")
    await theirs.fetchrow("SELECT NULL::bigint[], NULL::integer[], NULL::text[]")
    await theirs.execute("SET search_path = public, pg_catalog")
    async with jobs:
        async with theirs.transaction():
            for key in (None, "k"):
                assert (await email.using(connection=theirs, serialization_key=key).enqueue(1)).created
        database = Database(hostile_dsn)
        assert await theirs.fetchval(database.sql("complete_in_transaction"), "1", "1", None, None, None, "false") == "false"
        async with theirs.transaction():
            assert (await jobs.admin.change(1, delay=1, connection=theirs)).outcome == "changed"
            assert (await jobs.admin.cancel(1, connection=theirs)).outcome == "cancelled"
            assert (await jobs.get(1, connection=theirs) or 0) != 0
        assert await theirs.fetchval(database.sql("hold_lease_in_transaction"), "duty", "1", "1", "4.0") == "false"
    await theirs.close()


@pytest.mark.parametrize("name", THEIRS)
def test_statement_on_a_callers_connection_names_the_schema_of_each_type_and_uses_no_operator(name: str) -> None:
    text = re.sub(r"--.*", "", (PACKAGE / "store" / "sql" / f"{name}.sql").read_text(encoding="utf-8"))
    assert re.findall(r"::(?!pg_catalog\.|bigint|boolean|integer)\w+", text) == []
    assert re.findall(r"(?<!=)[<>+*/%|&~!]|(?<![=>])=(?!>)", text.replace("=>", "")) == []


#: Where a connection is made (the tests' own databases are statements without operators), and where a plain one is used.
CONNECTS = r"\b(?:asyncpg|psycopg|AsyncConnection)\.(?:connect|create_pool)\("
PLACES = {CONNECTS: {"store/database.py", "testing/databases.py"}, r"\.plain\(\)": {"store/doctoring.py"}}


def test_what_is_sent_where_is_known() -> None:
    texts = {file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")}
    on_callers = re.findall(r"call\(\s*connection, (?:self\.)?database\.sql\(\"(\w+)\"\)", "".join(texts.values()))
    assert set(on_callers) == set(THEIRS)
    assert {place: {name for name, text in texts.items() if re.search(place, text)} for place in PLACES} == PLACES
    assert re.findall(r"await connection|\.fetch_(?:often|behind)\(", texts["store/doctoring.py"]) == []


async def test_every_connection_of_asyncjobs_own_has_its_path_pinned(hostile_dsn: str) -> None:
    for options in (None, {"server_settings": {"statement_timeout": "60000"}}):
        connection = await Database(hostile_dsn, connect_kwargs=options).connect("test")
        assert await connection.fetchval("SHOW search_path") == "pg_catalog, pg_temp"
        await connection.close()


async def test_doctor_whom_every_pooler_lets_through_uses_nothing_of_a_strangers(hostile_dsn: str) -> None:
    jobs = AsyncJobs(hostile_dsn)
    await jobs.migrate()
    assert [one for one in await jobs.admin.doctor() if one.severity == "critical"] == []


async def test_path_of_a_plain_connection_is_left_as_it_was(hostile_dsn: str) -> None:
    database = Database(hostile_dsn).plain()
    connection = await database.connect("test")
    async with database.path_of(connection):
        assert await connection.fetchval("SHOW search_path") == "pg_catalog, pg_temp"
    assert await connection.fetchval("SHOW search_path") == "public, pg_catalog"
    await connection.close()


async def test_app_that_sends_no_settings_does_not_open_under_a_strangers_path(hostile_dsn: str) -> None:
    await AsyncJobs(hostile_dsn).migrate()
    with pytest.raises(ConfigurationError, match=r'looks names up in schema "public" before pg_catalog.*ALTER ROLE'):
        async with AsyncJobs(hostile_dsn, connect_kwargs={"statement_cache_size": 0, "server_settings": {}}):
            pass
