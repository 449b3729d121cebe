"""Rows that no call would write, and that nobody could run or rescue, are refused by the table itself."""

from datetime import UTC, datetime
from typing import Any, Final

import asyncpg
import pytest

from asyncjobs.model.claim import Scan
from asyncjobs.store import jobs, runners
from asyncjobs.store.database import Connection
from tests.support.claims import Claims, an_ack
from tests.support.factories import insert_job, insert_place


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "done"},
        {"status": "completed", "completed_at": None},
        {"status": "processing", "runner_id": None},
        {"status": "dead", "completed_at": None},
        {"status": "done", "completed_at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"status": "done", "runner_id": 1},
    ],
    ids=str,
)
async def test_row_that_cannot_be_is_refused(connection: Connection, columns: dict[str, Any]) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await insert_job(connection, **columns)


@pytest.mark.parametrize(
    "columns",
    [{"priority": -1}, {"priority": -32768}, {"attempts": -1}, {"max_attempts": 0}, {"max_attempts": -1}, {"on_dead": "stop"}],
    ids=str,
)
async def test_what_only_sql_would_write_can_be_run_all_the_same(claims: Claims, columns: dict[str, Any]) -> None:
    job_id = await insert_job(claims.connection, **columns)
    finished = await claims.finish(scans=[Scan("default", None, 1)])
    assert ([job.id for job in finished.claimed], finished.gone, finished.asking) == ([job_id], False, [])
    await claims.ack(an_ack(finished.claimed[0]))
    assert await jobs.status(claims.link, job_id) == "completed"


@pytest.mark.parametrize("columns", [{"claim_token": None}, {"started_at": None}], ids=str)
async def test_claim_without_a_token_or_a_start_is_taken_back_from_a_runner_that_died(
    claims: Claims, columns: dict[str, Any]
) -> None:
    job_id = await insert_job(claims.connection, status="processing", runner_id=99, **columns)
    await runners.rescue(claims.link, 10, max_errors=10)
    assert await jobs.status(claims.link, job_id) == "pending"


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
