"""Every SQL file is one statement that the server understands, in any schema and with no search path."""

from pathlib import Path

import pytest

from asyncjobs.store.database import Connection, Database

STATEMENTS = sorted(path.stem for path in Path(__file__).parents[2].joinpath("asyncjobs", "store", "sql").glob("*.sql"))


@pytest.mark.matrix("schema")
async def test_every_statement_is_understood_without_a_search_path(database: Database, connection: Connection) -> None:
    await connection.execute("SET search_path = ''")
    await connection.execute(database.sql("clock_table"))  # made only where tests move the clock
    for name in STATEMENTS:
        await connection.prepare(database.sql(name))
