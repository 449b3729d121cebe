"""Claims and claimed jobs of tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

from asyncjobs.model.claim import Claimed

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_DEFAULTS: dict[str, Any] = {
    "scan": 1, "queue": "default", "id": 1, "token": 1, "lane": None, "type": "email", "version": 1, "payload": "{}",
    "priority": 100, "place": 1, "attempt": 1, "max_attempts": 3, "timeout": None, "snoozes": 0, "rescues": 0,
    "scheduled_at": _NOW, "run_at": _NOW, "started_at": _NOW + timedelta(seconds=1), "correlation_id": None,
    "parent_job_id": None, "created_by": None, "dedup_key": None, "serialization_key": None, "requeued_from": None,
    "trace_context": None, "progress": None, "last_error": None, "created_at": _NOW,
}  # fmt: skip


def a_claimed(**fields: Any) -> Claimed:
    """A claimed job, with what the test does not care about filled in."""
    return Claimed(**(_DEFAULTS | fields))
