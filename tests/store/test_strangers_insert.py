"""A plain INSERT of a stranger's into the table of jobs would half work: it is refused, and the words say what to do."""

import asyncpg
import pytest

from asyncjobs.store.database import Connection

ROWS = [
    "jobs (type) VALUES ('email')",
    "jobs (type, dedup_key) VALUES ('email', 'd')",
    "jobs (type, run_at, status) VALUES ('email', now() + interval '1 hour', 'scheduled')",
    "jobs (type, status) VALUES ('email', 'waiting')",
    "jobs (type, serialization_key, status) VALUES ('email', 'k', 'paused')",
]


@pytest.mark.parametrize("row", ROWS)
async def test_plain_insert_is_refused_and_names_the_way(connection: Connection, row: str) -> None:
    said = "not made by an INSERT of one's own: nothing would wake a runner"
    with pytest.raises(asyncpg.CheckViolationError, match=said) as caught:
        await connection.execute(f"INSERT INTO asyncjobs.{row}")
    assert "handler.enqueue(" in str(caught.value.hint)
    assert await connection.fetchval("SELECT count(*) FROM asyncjobs.jobs") == 0
