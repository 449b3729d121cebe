"""Bring the schema up to date, or say in what state it is.

Migrations are the numbered SQL files of `store/migrations/`; they change tables. Functions, views and triggers are not changed
step by step: see `store/routines.py`. All that is missing is applied in one transaction, together with its rows in the ledgers
`migrations` and `routines`, under a transaction-scoped advisory lock: any number of processes may start together, one does the
work, the others find it done; a process that dies halfway leaves nothing behind. A schema that is current costs three SELECTs and
no DDL. Statements give up waiting for a table's lock after `lock_timeout` and are tried again, so that a migration that waits
for a long transaction does not make every other statement queue up behind it.

A file whose first line is `-- breaking: <why>` makes older programs refuse the schema. Others may run beside it.

Until the first release files are changed in place. So the ledger `routines` has the hash of each that was applied, too, without
its comments: a schema whose tables come from another text is refused, not repaired.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import asyncpg
import msgspec

from asyncjobs.errors import ConfigurationError, SchemaError, SchemaMissing, SchemaOutdated, SchemaTooNew
from asyncjobs.model.chance import CHANCE
from asyncjobs.store import closing, pooler, routines
from asyncjobs.store.database import ISOLATION, Connection, Database, Record, in_schema, quote_identifier, quote_literal
from asyncjobs.store.failures import is_passing

_ATTEMPTS = 12
#: Bodies, conditions and defaults are bound to operators and functions when they are made: by this path, for any role.
_PATH = "SET LOCAL search_path = pg_catalog, pg_temp;"
_LEAST_SERVER = 14  # functions whose bodies are parsed when they are made
_LEDGERS = ("migrations_table", "routines_table")
_COMMENT = re.compile(r"--.*")
_ROUTINES = "routines"  # what all of them are called where migrations are named


class Migration(msgspec.Struct, frozen=True):
    """One numbered file."""

    number: int
    name: str
    breaking: bool
    hash: str  # of its text without comments


class Status(msgspec.Struct, frozen=True):
    """The migrations in the schema, what this program would add, and those it has never heard of.

    `pending` ends with "routines" when functions or views differ from this program's.
    """

    schema_exists: bool
    applied: list[str]
    pending: list[str]
    unknown: list[str]
    unknown_breaking: list[str]
    isolation: str = ISOLATION  # at which the program's sessions begin
    renamed_from: str | None = None  # the schema for which its functions were made, if that is another
    forgotten: list[str] = msgspec.field(default_factory=list)  # of before the first release: no way leads on from there

    @property
    def breaking(self) -> list[str]:
        """Those of the pending ones after which older programs refuse the schema."""
        return [migration.name for migration in known() if migration.breaking and migration.name in self.pending]


@cache
def known() -> tuple[Migration, ...]:
    """The migrations of this version of asyncjobs, in order."""
    found: list[Migration] = []
    for file in files("asyncjobs.store").joinpath("migrations").iterdir():
        if file.name.endswith(".sql"):
            text = file.read_text(encoding="utf-8")
            bare = " ".join(_COMMENT.sub("", text).split())
            hashed = hashlib.sha256(bare.encode()).hexdigest()
            found.append(Migration(int(file.name[:4]), file.name, text.startswith("-- breaking"), hashed))
    return tuple(sorted(found, key=lambda migration: migration.number))


def newest() -> int:
    """The number of the last migration that this version of asyncjobs knows."""
    return known()[-1].number


async def status(database: Database) -> Status:
    """What is applied and what is not. Reads only."""
    connection = await database.connect("migrate")
    try:
        async with database.path_of(connection):
            return await _first_status(database, connection)
    finally:
        await closing.close(connection, seconds=1)


def script(database: Database) -> str:
    """All migrations as one script, for a new schema, with their rows in the ledger: what a database administrator runs by hand.

    For `psql --single-transaction -v ON_ERROR_STOP=1`.
    """
    parts = [_PATH, f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(database.schema)};", *map(database.sql, _LEDGERS)]
    for one in known():
        values = (str(one.number), quote_literal(one.name), str(one.breaking).lower())
        record = database.sql("migrations_record")
        for number, value in enumerate(values, 1):
            record = record.replace(f"${number}", value)
        parts += [f"-- {one.name}", database.migration(one.name), record]
    hashes = [*((m.name, m.hash) for m in known()), *((one.name, one.hash) for one in routines.known())]
    rows = ", ".join(f"({quote_literal(name)}, {quote_literal(hashed)})" for name, hashed in hashes)
    parts += [in_schema(one.text, database.schema) for one in routines.known()]
    parts.append(in_schema(f"INSERT INTO asyncjobs.routines (name, hash) VALUES {rows};", database.schema))
    return "\n".join(part.strip() for part in parts)


async def check(database: Database) -> None:
    """Return when this program can work with the schema.

    Raises SchemaMissing, SchemaOutdated (migrations are pending), SchemaTooNew (a newer asyncjobs changed it in a way that this
    one would misread) or SchemaError (it was renamed).
    """
    found = await status(database)
    pooler.check_isolation(database, found.isolation)
    if found.renamed_from is not None:
        raise _renamed(database, found.renamed_from)
    if found.forgotten:
        raise _too_old(database, found)
    if not found.applied:
        raise SchemaMissing(
            f'schema "{database.schema}" has no asyncjobs tables: run `asyncjobs migrate pkg:jobs` or `await jobs.migrate()`, '
            "or give auto_migrate=True."
        )
    if found.unknown_breaking:
        raise _too_new(database, found)
    if found.pending:
        raise _outdated(database, found.pending)


async def migrate(database: Database, *, allow_breaking: bool = True) -> list[str]:
    """Apply what is missing; returns the names of what this call applied (empty when the schema was current).

    With `allow_breaking=False` it stops with SchemaOutdated before the first migration that is marked breaking, unless the schema
    is new. Raises SchemaTooNew for a schema that a newer asyncjobs changed incompatibly, SchemaError for one in which something
    of another program's has a name of ours.
    """
    connection = await database.connect("migrate", command_timeout=300)
    try:
        _check_version(database, connection)
        found = await _first_status(database, connection)
        if not _is_missing_something(database, found, allow_breaking=allow_breaking):
            return []
        return await _apply(database, connection, allow_breaking=allow_breaking)
    finally:
        await closing.close(connection, seconds=1)


def _is_missing_something(database: Database, found: Status, *, allow_breaking: bool) -> bool:
    """Whether there is something to apply. Raises SchemaError where that must not be."""
    if found.renamed_from is not None:
        raise _renamed(database, found.renamed_from)
    if found.forgotten:
        raise _too_old(database, found)
    if found.unknown_breaking:
        raise _too_new(database, found)
    if found.breaking and found.applied and not allow_breaking:
        raise _outdated(database, found.breaking)
    return bool(found.pending)


def _check_path(database: Database, first: str | None) -> None:
    if first != "pg_catalog":
        raise ConfigurationError(
            f'{database.place} looks names up in schema "{first}" before pg_catalog, whose operators and functions could then be '
            "anybody's: ALTER ROLE … SET search_path = pg_catalog, pg_temp for the role that connects."
        )


def _check_version(database: Database, connection: Connection) -> None:
    major = connection.get_server_version().major
    if major < _LEAST_SERVER:
        raise SchemaError(f"{database.place} runs PostgreSQL {major}: asyncjobs needs {_LEAST_SERVER} or newer.")


def _too_new(database: Database, found: Status) -> SchemaTooNew:
    names = ", ".join(found.unknown_breaking)
    return SchemaTooNew(
        f'schema "{database.schema}" was changed by a newer asyncjobs ({names}): update asyncjobs in this program.'
    )


def _too_old(database: Database, found: Status) -> SchemaError:
    return SchemaError(
        f'schema "{database.schema}" was made by asyncjobs before its first release ({", ".join(found.forgotten[-1:])}): '
        "let its jobs end there, and give this program another schema, or drop that one."
    )


def _renamed(database: Database, former: str) -> SchemaError:
    return SchemaError(
        f'schema "{database.schema}" was renamed or copied: its functions work on the tables of "{former}". '
        f"Rename it back: ALTER SCHEMA {quote_identifier(database.schema)} RENAME TO {quote_identifier(former)}."
    )


def _occupied(database: Database, what: str) -> SchemaError:
    return SchemaError(
        f'schema "{database.schema}" has a {what} that is not asyncjobs\' own: give asyncjobs a schema for itself (schema="…").'
    )


def _outdated(database: Database, names: list[str]) -> SchemaOutdated:
    return SchemaOutdated(
        f'schema "{database.schema}" lacks {", ".join(names)}: run `asyncjobs migrate pkg:jobs` or `await jobs.migrate()`.'
    )


async def _first_status(database: Database, connection: Connection) -> Status:
    exists = await connection.fetchrow(database.sql("migrations_exists"), database.schema)
    if exists:
        await pooler.check(database, connection, exists["pid"])
        _check_path(database, exists["first_schema"])
        database.by_door = exists["inserts"] is False
    return await _status_of(database, connection, exists)


async def _status(database: Database, connection: Connection) -> Status:
    return await _status_of(database, connection, await connection.fetchrow(database.sql("migrations_exists"), database.schema))


async def _status_of(database: Database, connection: Connection, exists: Record | None) -> Status:
    if exists and exists["other"]:
        raise _occupied(database, 'relation "migrations"')
    rows = await connection.fetch(database.sql("migrations_applied")) if exists and exists["ledger"] else []
    numbers = {row["number"] for row in rows}
    forgotten = [row["name"] for row in rows if row["number"] < known()[0].number]
    unknown = [row for row in rows if row["number"] not in {m.number for m in known()} and row["name"] not in forgotten]
    pending = [m.name for m in known() if m.number not in numbers]
    if not rows:
        pending.append(_ROUTINES)
    elif not forgotten and not unknown:
        hashes = await _hashes(database, connection)
        forgotten = [m.name for m in known() if m.number in numbers and hashes.get(m.name) != m.hash]
        if not forgotten and _changed(hashes):
            pending.append(_ROUTINES)
    return Status(
        schema_exists=bool(exists and exists["schema"]),
        applied=[row["name"] for row in rows],
        pending=pending,
        unknown=[row["name"] for row in unknown],
        unknown_breaking=[row["name"] for row in unknown if row["breaking"]],
        forgotten=forgotten,
        isolation=exists["isolation"] if exists else ISOLATION,
        renamed_from=exists["home"] if exists and exists["home"] not in {None, database.schema} else None,
    )


async def _hashes(database: Database, connection: Connection) -> dict[str, str]:
    return {row["name"]: row["hash"] for row in await connection.fetch(database.sql("routines_applied"))}


def _changed(hashes: Mapping[str, str]) -> dict[str, bool]:
    """The routines whose texts are not those of this program, and whether the schema has had another text of theirs."""
    return {one.name: one.name in hashes for one in routines.known() if hashes.get(one.name) != one.hash}


async def _apply(database: Database, connection: Connection, *, allow_breaking: bool) -> list[str]:
    for attempt in range(_ATTEMPTS):
        try:
            async with connection.transaction(isolation="read_committed"):
                return await _apply_once(database, connection, allow_breaking=allow_breaking)
        except (asyncpg.DuplicateTableError, asyncpg.DuplicateFunctionError, asyncpg.DuplicateObjectError) as error:
            raise _occupied(database, str(error).removesuffix(" already exists")) from error
        except asyncpg.PostgresError as error:
            if attempt == _ATTEMPTS - 1 or connection.is_closed() or not is_passing(error):
                raise
            await asyncio.sleep(CHANCE.uniform(0.05, 0.1) * 2 ** min(attempt, 6))
    raise AssertionError("unreachable")


async def _apply_once(database: Database, connection: Connection, *, allow_breaking: bool) -> list[str]:
    await connection.execute(_PATH)
    await connection.execute("SET LOCAL lock_timeout = '60s'")
    await connection.execute(database.sql("migrations_lock"))
    await connection.execute(
        "SET LOCAL lock_timeout = '3s'; SET LOCAL client_min_messages = warning; SET LOCAL check_function_bodies = off"
    )
    found = await _status(database, connection)
    if not _is_missing_something(database, found, allow_breaking=allow_breaking):
        return []
    if not found.schema_exists:
        await connection.execute(f"CREATE SCHEMA {quote_identifier(database.schema)}")
    for ledger in _LEDGERS:
        await connection.execute(database.sql(ledger))
    for migration in known():
        if migration.name in found.pending:
            await connection.execute(_PATH + database.migration(migration.name))
            await connection.execute(database.sql("migrations_record"), migration.number, migration.name, migration.breaking)
            await connection.execute(database.sql("routines_record"), [migration.name], [migration.hash])
    drops_former = bool(found.applied and found.breaking)
    if drops_former or _ROUTINES in found.pending:
        await _make_routines(database, connection, drops_former=drops_former)
    return found.pending


async def _make_routines(database: Database, connection: Connection, *, drops_former: bool) -> None:
    changed = _changed(await _hashes(database, connection))
    makes = {one.name: changed.get(one.name, True) for one in routines.known() if drops_former or one.name in changed}
    texts = [one.made_anew() if makes[one.name] else one.text for one in routines.known() if one.name in makes]
    await connection.execute(in_schema("\n".join(texts), database.schema))
    made = [one for one in routines.known() if one.name in makes]
    await connection.execute(database.sql("routines_record"), [one.name for one in made], [one.hash for one in made])
    if drops_former:
        former = await connection.fetch(database.sql("routines_former"), quote_identifier(database.schema))
        for row in former:
            await connection.execute(row["statement"])
        await connection.execute(
            database.sql("routines_forget"), [*(m.name for m in known()), *(one.name for one in routines.known())]
        )
