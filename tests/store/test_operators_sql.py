"""The SQL that operators have in their notes works as it stands, with the schema on the search path, and finds what it is for."""

import re
from pathlib import Path
from typing import Any

import pytest

from asyncjobs.store.database import Connection, Database, quote_identifier
from tests.support.factories import insert, insert_job, insert_place, insert_runner, insert_waiting

#: statement -> what its first row must have
STATEMENTS: dict[str, dict[str, Any]] = {
    "SELECT id, type, status, attempts, created_at, started_at FROM jobs WHERE status='processing' AND "
    "started_at < now() - interval '1 hour'": {"type": "email", "status": "processing", "attempts": 1},
    "SELECT type, count(*) AS count FROM jobs WHERE status IN ('failed', 'dead') GROUP BY type ORDER BY type": {
        "type": "report", "count": 2
    },
    "SELECT service_name, state, failure_count, opened_at FROM circuit_breakers WHERE state != 'closed'": {"state": "open"},
    "SELECT id, job_id, original_job->>'type' AS type, error_message, died_at FROM dead_letter_jobs WHERE acknowledged = false": {
        "type": "report", "error_message": "no"
    },
    "SELECT id, type, status, created_at FROM jobs WHERE correlation_id='x' ORDER BY created_at": {"type": "order"},
    "SELECT c.id, c.type FROM jobs p JOIN jobs c ON c.parent_job_id = p.id WHERE p.type = 'order'": {"type": "pack"},
    "SELECT p.id, p.type FROM jobs c JOIN jobs p ON p.id = c.parent_job_id WHERE c.type = 'pack'": {"type": "order"},
    "SELECT job_name, held_by_worker_id, lease_acquired_at, heartbeat_at FROM background_job_leases "
    "WHERE held_by_worker_id <> 'none'": {"job_name": "rescue", "held_by_worker_id": "1"},
    "SELECT job_name FROM background_job_leases WHERE heartbeat_at > now() - interval '30 seconds' AND "
    "(metadata->>'last_run')::timestamptz < now() - interval '5 minutes'": {"job_name": "rescue"},
    "SELECT * FROM job_queue_health ORDER BY type, status": {"type": "email", "status": "processing"},
}  # fmt: skip


async def fill(connection: Connection, schema: str) -> None:
    """One of everything that the statements look for."""
    hours_ago = await connection.fetchval("SELECT now() - interval '2 hours'")
    options: dict[str, Any] = {"schema": schema}
    await insert_runner(connection, id=1, **options)
    await insert_job(connection, status="processing", started_at=hours_ago, **options)
    await insert_job(connection, type="report", status="failed", attempts=1, **options)
    died = await insert_job(connection, type="report", status="dead", error_message="no", **options)
    await connection.execute(f"SELECT {quote_identifier(schema)}.bury(ARRAY[{died}::bigint])")
    parent = await insert_job(connection, type="order", correlation_id="x", status="completed", **options)
    await insert_job(connection, type="pack", parent_job_id=parent, correlation_id="x", status="completed", **options)
    await insert(connection, "circuit_breakers", schema=schema, service_name="email-service", state="open", opened_at=hours_ago)
    now = await connection.fetchval("SELECT now()")
    metadata = f'{{"last_run": "{hours_ago.isoformat()}"}}'
    await insert(
        connection, "background_job_leases", schema=schema, job_name="rescue", held_by_worker_id="1", lease_acquired_at=hours_ago,
        heartbeat_at=now, metadata=metadata,
    )  # fmt: skip


@pytest.mark.unaudited
@pytest.mark.matrix("schema")
async def test_statements_work_as_they_stand(database: Database, connection: Connection, schema: str) -> None:
    await fill(connection, schema)
    await connection.execute(f"SET search_path = {quote_identifier(schema)}")
    for statement, expected in STATEMENTS.items():
        row = await connection.fetchrow(statement)
        assert row is not None, f"finds nothing: {statement}"
        assert {name: row[name] for name in expected} == expected, statement


@pytest.mark.unaudited
async def test_head_of_a_key_is_the_first_of_its_line(database: Database, connection: Connection) -> None:
    ids = [await insert_waiting(connection, "k") for _ in range(3)]
    await connection.execute("SET search_path = asyncjobs")
    head = await connection.fetchrow("SELECT * FROM serialized_jobs WHERE serialization_key=$1 ORDER BY place LIMIT 1", "k")
    assert head is not None
    assert head["id"] == ids[0]


@pytest.mark.unaudited
async def test_operators_update_takes_a_job_back(database: Database, connection: Connection) -> None:
    await insert_runner(connection, id=1)
    job_id = await insert_job(connection, status="processing")
    await connection.execute("SET search_path = asyncjobs")
    await connection.execute("UPDATE jobs SET status='pending', started_at=null WHERE status='processing' AND id = $1", job_id)
    assert await connection.fetchval("SELECT status FROM jobs WHERE id = $1", job_id) == "pending"


@pytest.mark.unaudited
async def test_run_book_takes_no_job_back_past_a_pause(database: Database, connection: Connection) -> None:
    """A claim does not look at keys: a pending head of a paused one would start."""
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    found = re.search(
        r"^WITH taken AS \(\n    UPDATE asyncjobs\.jobs\n    SET status = CASE.*?;$", page, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    await insert_runner(connection, id=1)
    hours_ago = await connection.fetchval("SELECT now() - interval '2 hours'")
    keys = {key: await insert_job(connection, status="processing", started_at=hours_ago, serialization_key=key) for key in "ab"}
    keys["follower of b"] = await insert_job(connection, status="processing", started_at=hours_ago, serialization_key="b")
    for key, is_head in (("a", True), ("b", True), ("follower of b", False)):
        await insert_place(connection, key[-1], keys[key], is_head=is_head)
    await insert(connection, "pauses", kind="key", name="a")
    assert {*await connection.fetchval(found[0])} == {keys["a"], keys["b"]}
    statuses = {key: await connection.fetchval("SELECT status FROM asyncjobs.jobs WHERE id = $1", keys[key]) for key in keys}
    assert statuses == {"a": "paused", "b": "pending", "follower of b": "waiting"}
