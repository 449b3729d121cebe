"""A shop whose jobs are in every state there is, for pages that show them; some of what it has is hostile."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from asyncjobs import AsyncJobs, JobRouter, Queue
from asyncjobs.model.histogram import bucket
from asyncjobs.store.database import Connection
from tests.support.factories import insert, insert_job, insert_place, insert_runner, insert_waiting

SCRIPT = "<script>document.title='owned'</script>"
IMAGE = '"><img src=x onerror="document.title=\'owned\'">'
TURNED = "invoice\u202egpj.exe\u2066\u200b"
KEY = "dest/1?a=b&c=<b>\u202e"

RUNNER = 4_611_686_018_427_387_904


def shop(dsn: str, **settings: Any) -> AsyncJobs:
    """The shop's app."""
    router = JobRouter()
    router.circuit_breaker("mail-service")
    router.circuit_breaker(IMAGE)

    @router.job("email", lane="fast", breaker="mail-service")
    async def email(to: str, note: str = "") -> str:
        return f"sent to {to}"

    @router.job("webhook", on_dead="halt")
    async def webhook(url: str = "") -> None: ...

    @router.cron("report", "0 3 * * *", timezone="Europe/Berlin")
    async def report() -> None: ...

    queues = [Queue("default", concurrency=8, lanes={"fast": 3}), Queue("mail", concurrency=4)]
    return AsyncJobs(dsn, queues=queues, routers=[router], **settings)


async def furnish(connection: Connection) -> dict[str, int]:
    """Put jobs of every kind into the shop; the ids of some by name."""
    now = datetime.now(UTC)
    slots = json.dumps({"default": {"": 5, "fast": 3}, "mail": {"": 4}})
    await insert_runner(
        connection, id=RUNNER, host="web-1", pid=4711, version="0.1.0", queues=["default", "mail"],
        types=["email", "webhook", "report"],
        slots=slots,
    )  # fmt: skip
    ids: dict[str, int] = {}
    for number in range(6):
        await insert_job(connection, queue="mail", payload=json.dumps({"to": f"user{number}@example.com"}))
    await insert(connection, "limits", kind="limit", name="images", declared='{"each": 2}')
    await insert(connection, "limits", kind="queue", name="webhooks", declared='{"total": 9}')
    await insert(connection, "limit_keys", key=f"images:{IMAGE}")
    await insert_job(connection, status="processing", runner_id=RUNNER, limit_key=f"images:{IMAGE}")
    ids["pending"] = await insert_job(
        connection, payload=json.dumps({"to": "ada@example.com"}), correlation_id="order-1", lane="fast"
    )
    ids["processing"] = await insert_job(
        connection, status="processing", runner_id=RUNNER, payload='{"to": "bob@example.com"}', correlation_id="order-1",
        parent_job_id=ids["pending"], lane="fast",
    )  # fmt: skip
    ids["scheduled"] = await insert_job(connection, status="scheduled", run_at=now + timedelta(hours=2), created_by="cron")
    history = [
        _error(1, "TimeoutError", "no answer within 5 s", now - timedelta(minutes=9)),
        _error(2, "ValueError", SCRIPT, now),
    ]
    ids["failed"] = await insert_job(
        connection, type="webhook", status="failed", attempts=2, last_error=SCRIPT, errors=json.dumps(history),
        started_at=now - timedelta(minutes=1), run_at=now + timedelta(minutes=5), created_at=now - timedelta(minutes=12),
    )  # fmt: skip
    ids["completed"] = await insert_job(
        connection, status="completed", result=json.dumps("sent"), attempts=1, started_at=now, payload=json.dumps({"to": TURNED}),
    )  # fmt: skip
    ids["hostile"] = await insert_job(
        connection, type=f"type{IMAGE}", payload=json.dumps({"note": SCRIPT, "to": IMAGE, "file": TURNED}), correlation_id=IMAGE,
        created_by=SCRIPT,
    )  # fmt: skip
    ids["large"] = await insert_job(connection, payload=json.dumps({"note": f"{IMAGE}{'x' * (1 << 20)}"}))
    ids["dead"] = await _dead(connection, type="email", error_message=f"ValueError: {IMAGE}", payload='{"to": "eve@example.com"}')
    ids["cancelled"] = await insert_job(connection, status="cancelled", error_message="cancelled by an operator")
    await _keys(connection, ids)
    definition = {
        "job": {"type": "report", "queue": "default", "payload": {}},
        "timing": {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}, "misfire": "one", "overlap": "allow",
    }  # fmt: skip
    await insert(connection, "schedules", name="nightly <b>", definition=json.dumps(definition))
    told = {"last_run": now.isoformat(), "last_pass_at": now.isoformat(), "items": 2, "duration": 0.004}
    for duty in ("promote", "rescue", "prune"):
        await insert(
            connection, "background_job_leases", job_name=duty, held_by_worker_id=str(RUNNER), lease_acquired_at=now,
            heartbeat_at=now, token=1, metadata=json.dumps(told),
        )  # fmt: skip
    await _metrics(connection, now)
    return ids


async def _keys(connection: Connection, ids: dict[str, int]) -> None:
    """A key that is halted, with a line behind it; and one whose head is pending, with a hostile name."""
    ids["halting"] = await _dead(connection, type="webhook", serialization_key="dest_1", error_message="RuntimeError: gone")
    gone: dict[str, Any] = {"halted_at": datetime.now(UTC), "halt_reason": "RuntimeError: gone"}
    await insert_place(connection, "dest_1", ids["halting"], is_head=True, **gone)
    for _ in range(3):
        ids["waiting"] = await insert_waiting(connection, "dest_1", type="webhook")
    ids["head"] = await insert_job(connection, type="webhook", serialization_key=KEY)
    await insert_place(connection, KEY, ids["head"], is_head=True)
    ids["behind"] = await insert_waiting(connection, KEY, type="webhook")


async def _dead(connection: Connection, **columns: Any) -> int:
    job_id = await insert_job(connection, status="dead", attempts=3, **columns)
    await connection.execute("SELECT asyncjobs.bury(ARRAY[$1::bigint])", job_id)
    return job_id


def _error(attempt: int, kind: str, message: str, at: datetime) -> dict[str, Any]:
    trace = f'Traceback (most recent call last):\n  File "shop.py", line 7, in webhook\n{kind}: {message}'
    return {"type": kind, "message": message, "traceback": trace, "attempt": attempt, "at": at.isoformat()}


async def _metrics(connection: Connection, now: datetime) -> None:
    """An hour of attempts, minute by minute."""
    for minute in range(58):
        at = (now - timedelta(minutes=minute)).replace(second=0, microsecond=0)
        for type, scale in (("email", 1.0), ("webhook", 4.0)):
            for status, count in (("completed", 40 + minute * 7 % 23), ("failed", minute % 9 if type == "webhook" else 0)):
                if count:
                    run, queued = ([(bucket(scale * base * (1 + minute % 5)) << 40) + count] for base in (0.09, 0.012))
                    await insert(
                        connection, "job_metrics", job_type=type, status=status, minute=at, count=count, queue_seconds=1.0,
                        run_seconds=1.0, queue_time=queued, run_time=run,
                    )  # fmt: skip
