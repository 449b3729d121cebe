"""Rows that no call would write, and that nobody could run or rescue, are refused by the table itself."""

from datetime import UTC, datetime
from typing import Any, Final

import asyncpg
import pytest

from asyncjobs.store.database import Connection
from tests.support.factories import insert_job, insert_place


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "done"},
        {"status": "completed", "completed_at": None},
        {"status": "processing", "runner_id": None},
        {"status": "processing", "claim_token": None},
        {"status": "processing", "started_at": None},
        {"priority": -1},
        {"attempts": -1},
        {"max_attempts": 0},
        {"on_dead": "stop"},
        {"status": "waiting", "priority": -1},
        {"status": "paused", "max_attempts": 0},
    ],
    ids=str,
)
async def test_row_that_cannot_be_is_refused(connection: Connection, columns: dict[str, Any]) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await insert_job(connection, **columns)


_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "columns",
    [
        {"serialization_key": ""},
        {"halted_at": _NOW},
        {"place": None, "halted_at": _NOW},
    ],
    ids=str,
)
async def test_place_in_a_line_that_cannot_be_is_refused(connection: Connection, columns: dict[str, Any]) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="serialized_jobs_check"):
        await insert_place(connection, "k", 7, **columns)


#: What is bounded by something else: an option, a person's patience, the number of migrations, a breaker's thresholds, the size
#: of a workflow.
SMALL = {
    "attempts", "max_attempts", "priority", "version", "pid", "requeue_count", "rescues", "losses", "suspicion", "outlived",
    "session", "number", "failure_count", "success_count", "max_depth", "size", "missing", "dead", "n", "arrived", "spawn_number",
    "total", "each", "burst", "most",
}  # fmt: skip


async def test_ids_and_counts_of_rows_are_bigint(connection: Connection) -> None:
    """A table outlives its two thousand millionth row, and a runner its snoozes."""
    columns = await connection.fetch(
        """SELECT table_name || '.' || column_name AS name, column_name FROM information_schema.columns
           WHERE table_schema = 'asyncjobs' AND data_type IN ('integer', 'smallint')"""
    )
    assert {row["name"] for row in columns if row["column_name"] not in SMALL} == set()
    sequences = await connection.fetch("SELECT data_type::text FROM pg_sequences WHERE schemaname = 'asyncjobs'")
    assert {row["data_type"] for row in sequences} == {"bigint"}
