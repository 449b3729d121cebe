"""A database on which everything is wrong at once that a doctor knows of and that does not exclude another fault."""

import ast
import inspect
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg
import pytest

from asyncjobs import AsyncJobs
from asyncjobs.model import symptom
from asyncjobs.store import doctoring
from asyncjobs.store.database import Connection
from tests.support.backends import fill
from tests.support.eventually import eventually
from tests.support.factories import insert, insert_job, insert_place, insert_runner, insert_waiting

#: What cannot be found beside the others: a schema that this program cannot read; no runner at all beside some that are ill;
#: connections that may run out once they have; settings of the whole server; a pooler that is in the way.
APART: Final = frozenset(
    {
        "there is no schema",
        "the schema is outdated",
        "the schema is newer than this program",
        "the schema is of before the first release",
        "the schema was renamed or copied",
        "no runner lives",
        "connections may run out",
        "autovacuum is off",
        "a pooler is in the way of LISTEN",
    }
)


def every_finding() -> set[str]:
    """What the doctor may find, by the source of its rules."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(symptom))) if isinstance(node, ast.Call)]
    named = [call.args[1] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Symptom"]
    return {str(one.value) for one in named if isinstance(one, ast.Constant)} | {what for what, _ in symptom._BLOCKED.values()}


def ill(dsn: str) -> AsyncJobs:
    """An app that says nothing of the isolation level of its sessions: it does not open there, and its doctor works."""
    return AsyncJobs(dsn, connect_kwargs={"server_settings": {}})


@asynccontextmanager
async def every_fault(dsn: str, rows: Connection, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[None]:
    """All of it, as long as the context lasts."""

    class Late(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - timedelta(hours=1)

    await _runners_and_duties(rows)
    await _jobs(rows)
    await _keys(rows)
    await _workflows(rows)
    await _limits(rows)
    await _tables(dsn, rows)
    monkeypatch.setattr(doctoring, "datetime", Late)
    monkeypatch.setattr(doctoring, "LONG_TRANSACTION", -1.0)
    monkeypatch.setattr(symptom, "_FULL", 0.0)
    idle, deaf = await asyncpg.connect(dsn), await asyncpg.connect(dsn, server_settings={"application_name": "deaf"})
    try:
        await idle.execute("BEGIN; SELECT 1")
        await deaf.add_listener("news", lambda *_: None)
        await deaf.fetchval("SELECT 1")
        deaf._transport.pause_reading()  # type: ignore[attr-defined]
        await fill(rows, deaf.get_server_pid())
        yield
    finally:
        deaf.terminate()
        await idle.close()
        monkeypatch.undo()


async def _runners_and_duties(rows: Connection) -> None:
    now = datetime.now(UTC)
    await insert_runner(rows, id=1, slots='{"default": {"": 9}}', troubles=["the call line was started again 3 s ago"])
    await insert_runner(rows, id=2, beat_at=now - timedelta(minutes=2), session=2**30)
    await insert_runner(rows, id=3, stopped_at=now - timedelta(minutes=10), beat_at=now + timedelta(minutes=1))
    await insert_runner(rows, id=4, queues=["elsewhere"], types=["lonely"])
    await insert_runner(rows, id=5, queues=["self"], slots='{"self": {"": 1}}')
    gone: dict[str, Any] = {"started_at": now, "version": "0", "queues": [], "types": [], "host": "web", "pid": 3}
    await insert(rows, "former_runners", id=6, died_at=now - timedelta(minutes=30), **gone)
    held: dict[str, Any] = {"held_by_worker_id": "1", "lease_acquired_at": now, "heartbeat_at": now}
    await insert(rows, "background_job_leases", job_name="rescue", held_by_worker_id="none")
    await insert(rows, "background_job_leases", job_name="report", metadata='{"failures": 30}', **held)
    await rows.execute(
        "INSERT INTO asyncjobs.background_job_leases (job_name, held_by_worker_id, lease_acquired_at, heartbeat_at, metadata) "
        "SELECT 'promote', '1', now(), now(), jsonb_build_object('last_run', now() - interval '10 minutes')"
    )
    await insert(
        rows, "schedules", name="nightly", definition="{}", enabled=False, disabled_because="failed", disabled_reason="no"
    )


async def _jobs(rows: Connection) -> None:
    now, empty = datetime.now(UTC), list[int]()
    await insert(rows, "circuit_breakers", service_name="smtp", state="open", opened_at=now)
    await insert(rows, "pauses", kind="queue", name="mail", paused_by="ada")
    await insert(rows, "dead_letter_jobs", job_id=5, original_job='{"type": "email"}')
    await insert(rows, "job_metrics", job_type="bad", status="failed", minute=now, count=9, queue_seconds=0.0, run_seconds=0.0,
                 queue_time=empty, run_time=empty)  # fmt: skip
    await insert_job(rows, run_at=now - timedelta(hours=20))
    await insert_job(rows, type="nobody's")
    await insert_job(rows, type="lonely")
    await insert_job(rows, status="paused")
    parent = await insert_job(rows, queue="self", status="processing", runner_id=5, started_at=now - timedelta(minutes=5))
    await insert_job(rows, queue="self", parent_job_id=parent)


async def _keys(rows: Connection) -> None:
    now = datetime.now(UTC)
    heads: dict[str, dict[str, Any]] = {
        "halted": {"status": "dead"},
        "late": {"status": "failed", "run_at": now + timedelta(hours=1)},
        "held": {"status": "paused"},
        "lost": {"status": "processing", "runner_id": 77, "started_at": now - timedelta(minutes=10)},
    }
    for key, head in heads.items():
        place: dict[str, Any] = {"halted_at": now, "halt_reason": "it died"} if key == "halted" else {}
        job_id = await insert_job(rows, serialization_key=key, **head)
        await insert_place(rows, key, job_id, place=None, dispatched_at=now - timedelta(hours=2), **place)
        await insert_waiting(rows, key)


async def _workflows(rows: Connection) -> None:
    now = datetime.now(UTC)
    await insert(rows, "workflows", id=1, created_at=now, name="import", cancel_requested_at=now - timedelta(hours=1))
    await insert(rows, "workflows", id=2, created_at=now, name="import", ended_at=now)
    for id, missing, dead in ((1, 2, 0), (2, 0, 1)):
        await insert(rows, "gates", id=id, workflow_id=id, size=2, missing=missing, dead=dead)


async def _limits(rows: Connection) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    await insert(rows, "limits", kind="limit", name="api", declared='{"each": 1, "total": 5}', is_full=True)
    await insert(rows, "limit_keys", key="api:a", closed_until=later, closed_seconds=3600.0, closed_by=5)
    await insert_job(rows, limit_key="api:a")
    declared = '[{"kind": "limit", "name": "api", "values": {"each": 2}}]'
    await rows.execute("UPDATE asyncjobs.runners SET limits = $1 WHERE id = 1", declared)


async def _tables(dsn: str, rows: Connection) -> None:
    name = await rows.fetchval("SELECT quote_ident(current_database())")
    await rows.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    await rows.execute("DROP INDEX asyncjobs.dead_letter_jobs_acknowledged")
    await rows.execute("ALTER TABLE asyncjobs.job_metrics SET (autovacuum_enabled = false)")
    await rows.execute("ALTER TABLE asyncjobs.limit_requests SET (autovacuum_enabled = false)")
    with pytest.raises(asyncpg.UniqueViolationError):
        await rows.execute("CREATE UNIQUE INDEX CONCURRENTLY half_made ON asyncjobs.runners (host)")
    other = await asyncpg.connect(dsn)
    await other.execute(
        "INSERT INTO asyncjobs.limit_requests (key, queue, lane, is_freed) "
        "SELECT n::text, 'q', '', false FROM generate_series(1, 11000) AS n"
    )
    await other.execute("DELETE FROM asyncjobs.limit_requests")
    await other.close()  # a session that ends hands in its statistics
    await rows.execute("SELECT setval('asyncjobs.jobs_id_seq', 3)")

    async def is_counted() -> bool:
        counted = (
            "SELECT n_dead_tup > 10000 FROM pg_stat_user_tables WHERE schemaname = 'asyncjobs' AND relname = 'limit_requests'"
        )
        return bool(await rows.fetchval(counted))

    await eventually(is_counted, description="the server has counted the dead rows")
