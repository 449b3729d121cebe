"""Tables of which all rows run in one test and one database: a database and its sessions cost more than most rows.

    @each("case", CASES)
    async def test_kill(pair: Peers, case: Case) -> None: ...

is used as `pytest.mark.parametrize` is, for tests that have a `pair` or a `connection`. Each row begins with empty tables (with
`cleared=False` it finds what those before it left), and is audited at its end (not with `audited=False`, where the data are wrong
on purpose). A row that fails keeps no other from running; all that failed are told of by name.
"""

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias

from asyncjobs.store.database import Connection, Database, quote_identifier
from asyncjobs.testing.lives import Noted, lives, together

Test: TypeAlias = Callable[..., Coroutine[Any, Any, None]]


def each(
    names: str | tuple[str, ...], rows: Iterable[Any], *, audited: bool = True, cleared: bool = True
) -> Callable[[Test], Test]:
    """Run the test on each row: with one name it is that argument's value, else the values of all."""
    given = [names] if isinstance(names, str) else list(names)
    table = [dict(zip(given, [row] if isinstance(names, str) else row, strict=True)) for row in rows]
    assert table

    def decorate(test: Test) -> Test:
        takes = inspect.signature(test).parameters

        @functools.wraps(test)
        async def of_all(database: Database, **fixtures: Any) -> None:
            pair, failed = fixtures.get("pair"), list[Exception]()
            connection: Connection = fixtures["connection"] if pair is None else pair.admin
            own = {"database": database} if "database" in takes else {}
            for row in table:
                try:
                    await test(**fixtures, **own, **row)
                    if audited:
                        await promises_hold(connection, database)
                except Exception as error:  # noqa: BLE001 - told of below
                    error.add_note(f"in the row {_told(row)}")
                    failed.append(error)
                if cleared:
                    await (clear(connection, database) if pair is None else pair.clear())
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(table)} rows failed", failed)

        left = [one for name, one in takes.items() if name not in {*given, "database"}]
        keyword = inspect.Parameter("database", inspect.Parameter.KEYWORD_ONLY)
        of_all.__signature__ = inspect.Signature([*left, keyword])  # type: ignore[attr-defined]
        return of_all

    return decorate


async def promises_hold(connection: Connection, database: Database) -> None:
    """No key is stalled, no two heads, no limbo, no two lives of one dedup key."""
    texts = map(database.sql, ("audit_jobs", "audit_keys", "audit_dedup", "audit_gates"))
    assert [tuple(row) for text in texts for row in await connection.fetch(text)] == []
    notes = await connection.fetch(database.sql("audit_lives"))
    assert list(together(lives(Noted(*row) for row in notes))) == []


async def clear(connection: Connection, database: Database) -> None:
    """Empty all tables."""
    deletes = await connection.fetchval(
        "SELECT string_agg(format('DELETE FROM %s', c.oid::regclass), ';') FROM pg_class AS c"
        " WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0"
        " AND c.relname NOT IN ('migrations', 'routines', 'ids_secret')",
        quote_identifier(database.schema),
    )
    await connection.execute(f"SET session_replication_role = replica; {deletes or ''}; RESET session_replication_role")


def _told(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={getattr(value, '__name__', value)}" for name, value in row.items())
