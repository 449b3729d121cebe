"""The schema as text, from the catalogs: the same for the same schema, whatever made it.

python -m tests.support.snapshot > tests/store/schema.sql
"""

import asyncio
import hashlib
import re
import sys
from collections.abc import AsyncIterator

import asyncpg

from asyncjobs.store.database import Connection, Database
from asyncjobs.store.migrate import migrate
from tests.support.server import running_server

_SEQUENCES = """
SELECT format('CREATE SEQUENCE %s AS %s INCREMENT %s CACHE %s;', s.seqrelid::regclass, format_type(s.seqtypid, NULL),
              s.seqincrement, s.seqcache)
FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
WHERE c.relnamespace = $1::regnamespace
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i') ORDER BY 1"""

_RELATIONS = """
SELECT c.oid, c.oid::regclass::text AS name, c.relkind::text AS kind, array_to_string(c.reloptions, ', ') AS options
FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('c', 'r', 'p', 'v') ORDER BY c.relkind, c.relname"""

_COLUMNS = """
SELECT format('    %s %s', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod))
    || CASE WHEN a.attidentity <> '' THEN ' GENERATED ALWAYS AS IDENTITY' ELSE '' END
    || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""

_CONSTRAINTS = """
SELECT format('    CONSTRAINT %I %s', conname, pg_get_constraintdef(oid))
FROM pg_constraint WHERE conrelid = $1 AND contype NOT IN ('n', 't') ORDER BY contype, conname"""

_INDEXES = """
SELECT pg_get_indexdef(i.indexrelid) || ';' FROM pg_index i
WHERE i.indrelid = $1 AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid) ORDER BY 1"""

_TRIGGERS = "SELECT pg_get_triggerdef(oid) || ';' FROM pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal ORDER BY tgname"

_FUNCTIONS = """
SELECT pg_get_functiondef(p.oid) AS definition, p.prosrc AS body FROM pg_proc p
WHERE p.pronamespace = $1::regnamespace AND p.prokind <> 'a' ORDER BY p.proname, pg_get_function_identity_arguments(p.oid)"""

_AGGREGATES = """
SELECT format('CREATE AGGREGATE %s (SFUNC = %s, STYPE = %s, INITCOND = %L, COMBINEFUNC = %s, PARALLEL = %s);',
              a.aggfnoid::regprocedure, a.aggtransfn, a.aggtranstype::regtype, a.agginitval, a.aggcombinefn, p.proparallel)
FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid WHERE p.pronamespace = $1::regnamespace ORDER BY p.proname"""

#: The alias of a query's only relation, before whose columns it is said by PostgreSQL 15 and older.
_ALIAS = re.compile(r"\bFROM \S+ (\w+)(?=;|\n)")

_BODY = re.compile(r"\n(AS \$function\$|BEGIN ATOMIC| ?RETURN ).*", re.DOTALL)


async def snapshot(connection: Connection, schema: str = "asyncjobs") -> str:
    """Sequences, types of rows, tables, views, indexes, triggers, functions and aggregates, each kind in the order of names."""
    await connection.execute("SET search_path = ''")
    return "\n\n".join([part async for part in _parts(connection, schema)]) + "\n"


async def _parts(connection: Connection, schema: str) -> AsyncIterator[str]:
    yield "-- The schema as migrations and routines make it. Rewrite: python -m tests.support.snapshot > tests/store/schema.sql"
    yield "\n".join(await _texts(connection, _SEQUENCES, schema))
    for relation in await connection.fetch(_RELATIONS, schema):
        if relation["kind"] == "v":
            definition = await connection.fetchval("SELECT pg_get_viewdef($1::oid)", relation["oid"])
            yield f"CREATE VIEW {relation['name']} AS\n{_unqualified(definition)}"
            continue
        inside = [text for query in (_COLUMNS, _CONSTRAINTS) for text in await _texts(connection, query, relation["oid"])]
        if relation["kind"] == "c":
            yield f"CREATE TYPE {relation['name']} AS (\n" + ",\n".join(inside) + "\n);"
            continue
        options = f" WITH ({relation['options']})" if relation["options"] else ""
        table = f"CREATE TABLE {relation['name']} (\n" + ",\n".join(inside) + f"\n){options};"
        around = [text for query in (_INDEXES, _TRIGGERS) for text in await _texts(connection, query, relation["oid"])]
        yield "\n".join([table, *around])
    for function in await connection.fetch(_FUNCTIONS, schema):
        yield _declaration(function["definition"], function["body"])
    for text in await _texts(connection, _AGGREGATES, schema):
        yield text


def _unqualified(query: str) -> str:
    """A query of one relation as PostgreSQL 16 and later say it."""
    alias = _ALIAS.search(query) if query.count("FROM") == 1 else None
    return re.sub(rf"\b{alias[1]}\.", "", query) if alias else query


def _declaration(definition: str, body: str) -> str:
    """A function without its body, which is in store/routines; a sum tells that it was changed."""
    lines = [line.strip() for line in _BODY.sub("", definition).replace("CREATE OR REPLACE", "CREATE").splitlines()]
    total = hashlib.sha256(body.encode()).hexdigest()[:16] if body else "SQL"
    return "\n    ".join(lines) + f"\n-- body: {total}"


async def _texts(connection: Connection, query: str, of: object) -> list[str]:
    return [row[0] for row in await connection.fetch(query, of)]


async def _main() -> None:
    with running_server() as dsn:
        await migrate(Database(dsn))
        connection = await asyncpg.connect(dsn)
        sys.stdout.write(await snapshot(connection))
        await connection.close()


if __name__ == "__main__":
    asyncio.run(_main())
