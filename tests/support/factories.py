"""Rows and jobs of tests, with what a test does not care about filled in."""

import json
from typing import Any

import asyncpg

from asyncjobs.model.new_row import NewRow
from asyncjobs.store.database import Connection, quote_identifier


def a_row(type: str = "email", /, **fields: Any) -> NewRow:
    """A checked job that was not sent yet. `payload` may be a mapping."""
    payload = fields.pop("payload", {})
    defaults: dict[str, Any] = {"queue": "default", "payload": payload if isinstance(payload, str) else json.dumps(payload)}
    return NewRow(type=type, **(defaults | fields))


async def insert(connection: Connection, table: str, /, *, schema: str = "asyncjobs", **columns: Any) -> asyncpg.Record:
    """Insert one row as it is, past every rule of asyncjobs; returns it."""
    names = ", ".join(map(quote_identifier, columns))
    values = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
    target = f"{quote_identifier(schema)}.{quote_identifier(table)}"
    row = await connection.fetchrow(f"INSERT INTO {target} ({names}) VALUES ({values}) RETURNING *", *columns.values())
    assert row is not None
    return row


async def insert_job(connection: Connection, /, *, schema: str = "asyncjobs", **columns: Any) -> int:
    """Insert a row of `jobs` as it is; returns its id. What its status needs to be a legal row is filled in."""
    now = await connection.fetchval("SELECT now()")
    status = columns.setdefault("status", "pending")
    columns = {"type": "email", "enqueue_token": 0} | columns
    if status == "processing":
        columns = {"runner_id": 1, "claim_token": 1, "started_at": now, "attempts": 1} | columns
    if status in {"completed", "dead", "cancelled"}:
        columns = {"completed_at": now} | columns
    row = await insert(connection, "jobs", schema=schema, **columns)
    return int(row["id"])


async def insert_waiting(connection: Connection, key: str, /, *, schema: str = "asyncjobs", **columns: Any) -> int:
    """Insert a job at the end of its key's line, where it waits; returns its id. `place`: its place there."""
    place = {"place": columns.pop("place")} if "place" in columns else {}
    job_id = await insert_job(connection, schema=schema, **({"status": "waiting", "serialization_key": key} | columns))
    return await insert_place(connection, key, job_id, schema=schema, **place)


async def insert_place(
    connection: Connection, key: str, job_id: int, /, *, is_head: bool = False, schema: str = "asyncjobs", **columns: Any
) -> int:
    """Insert a row of `serialized_jobs` as it is, waiting with a place unless said otherwise; returns its id."""
    columns = {"id": job_id, "serialization_key": key} | columns
    if "place" not in columns:
        columns["place"] = await connection.fetchval(f"SELECT nextval('{quote_identifier(schema)}.place_seq')")
    if is_head:
        columns.setdefault("dispatched_at", await connection.fetchval("SELECT now()"))
    row = await insert(connection, "serialized_jobs", schema=schema, **columns)
    return int(row["id"])


async def insert_runner(connection: Connection, /, *, schema: str = "asyncjobs", **columns: Any) -> int:
    """Insert a row of `runners`; returns its id."""
    defaults: dict[str, Any] = {"id": 1, "host": "test", "pid": 1, "version": "0", "queues": ["default"], "types": ["email"]}
    row = await insert(connection, "runners", schema=schema, **(defaults | columns))
    return int(row["id"])
