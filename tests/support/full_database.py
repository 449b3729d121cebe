"""A database with something of everything that can be the matter."""

from datetime import timedelta
from typing import Any

from asyncjobs.store.database import Connection
from tests.support.factories import insert, insert_job, insert_place, insert_runner, insert_waiting


async def fill(connection: Connection) -> None:
    """Something of everything."""
    tables = await connection.fetchval(
        "SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables "
        "WHERE schemaname = 'asyncjobs' AND tablename NOT IN ('migrations', 'routines', 'ids_secret')"
    )
    await connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")
    now = await connection.fetchval("SELECT now()")
    long_ago, ago = now - timedelta(hours=2), now - timedelta(minutes=10)
    await insert_runner(connection, queues=["default", "mail"], types=["email", "report"], beat_at=now)
    await insert_job(connection, id=11, type="report", status="processing", started_at=long_ago)
    await insert_job(connection, id=12, status="failed", attempts=1, last_error="timed out", last_error_at=ago, run_at=now)
    await insert_job(connection, id=13, status="dead", error_message="no", attempts=3, correlation_id="checkout-7")
    await insert_job(connection, id=14, type="pack", status="completed", parent_job_id=13, correlation_id="checkout-7")
    await insert_job(connection, id=15, run_at=long_ago, payload='{"to": "ada"}')
    key = "customer 7"
    await insert_job(connection, id=16, type="sync", status="dead", error_message="no", attempts=1, serialization_key=key)
    await connection.execute("SELECT asyncjobs.bury(ARRAY[13::bigint]), asyncjobs.bury(ARRAY[16::bigint])")
    await insert_place(connection, key, 16, is_head=True, halted_at=ago, halt_reason="no")
    await insert_waiting(connection, key, id=17, type="sync")
    await insert(connection, "circuit_breakers", service_name="email-service", state="open", opened_at=ago, half_opens_at=now)
    metadata = f'{{"last_run": "{ago.isoformat()}"}}'
    lease: dict[str, Any] = {
        "job_name": "rescue",
        "held_by_worker_id": "1",
        "lease_acquired_at": long_ago,
        "heartbeat_at": now,
        "metadata": metadata,
    }
    await insert(connection, "background_job_leases", **lease)
    for status, count in (("completed", 8), ("failed", 2)):
        times = [(1 << 40) + count]
        span: dict[str, Any] = {"queue_seconds": 1.0, "run_seconds": 1.0, "queue_time": times, "run_time": times}
        await insert(connection, "job_metrics", job_type="email", status=status, minute=now, count=count, **span)


async def fill_workflows_and_limits(connection: Connection) -> None:
    """A workflow, whose member is a job of `fill`, and a limit with a key."""
    now = await connection.fetchval("SELECT now()")
    await insert(connection, "workflows", id=900, name="import", created_at=now)
    for gate_id, name in ((900, None), (901, "pages")):
        await insert(connection, "gates", id=gate_id, workflow_id=900, size=1, missing=1, name=name)
    await insert(connection, "members", job_id=15, workflow_id=900, number=0, gates=[901])
    await insert(connection, "limits", kind="limit", name="api", declared='{"each": 2, "every": 0.5, "burst": 2}')
    await insert(connection, "limit_keys", key="api:a")
    await insert_job(connection, type="email", limit_key="api:a")
