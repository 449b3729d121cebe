"""Filters that pages and verbs read from query strings and forms."""

from collections.abc import Mapping
from typing import Any, Final, cast, get_args

from asyncjobs.dashboard.forms import Fields, payload_filter
from asyncjobs.model.dead_letter import DeadLetterFilter
from asyncjobs.model.finding import JobFilter
from asyncjobs.model.status import Status

STATUSES: Final[tuple[Status, ...]] = get_args(Status)

JOB_FIELDS: Final = (
    "type",
    "status",
    "queue",
    "key",
    "correlation_id",
    "parent",
    "workflow",
    "payload",
    "error",
    "tag",
    "dedup_key",
    "limit_key",
    "since",
    "until",
)
DEAD_LETTER_FIELDS: Final = (
    "type",
    "queue",
    "key",
    "correlation_id",
    "error",
    "error_kind",
    "died_after",
    "died_before",
    "acknowledged",
)
_ACKNOWLEDGED: Final[Mapping[str, bool | None]] = {"no": False, "yes": True, "all": None}


def job_filter(fields: Fields) -> JobFilter:
    """Which jobs; BadInput."""
    statuses = fields.many("status")
    for status in statuses:
        Fields.check("status", status, STATUSES)
    payload = fields.text("payload")
    return JobFilter(
        type=fields.text("type"),
        status=cast("list[Status]", statuses) or None,
        queue=fields.text("queue"),
        key=fields.text("key"),
        correlation_id=fields.text("correlation_id"),
        parent_job_id=fields.id("parent"),
        workflow=fields.id("workflow"),
        payload=None if payload is None else payload_filter(payload),
        error=fields.text("error"),
        tag=fields.text("tag"),
        dedup_key=fields.text("dedup_key"),
        limit_key=fields.text("limit_key"),
        since=fields.instant("since"),
        until=fields.instant("until"),
    )


def dead_letter_filter(fields: Fields) -> DeadLetterFilter:
    """Which dead letters: those that nobody has acknowledged if nothing else is said; BadInput."""
    acknowledged = fields.choice("acknowledged", list(_ACKNOWLEDGED)) or "no"
    return DeadLetterFilter(
        type=fields.text("type"),
        queue=fields.text("queue"),
        key=fields.text("key"),
        correlation_id=fields.text("correlation_id"),
        error=fields.text("error"),
        error_kind=fields.text("error_kind"),
        died_after=fields.instant("died_after"),
        died_before=fields.instant("died_before"),
        acknowledged=_ACKNOWLEDGED[acknowledged],
    )


def is_filtered(which: Mapping[str, Any]) -> bool:
    """Whether anything was said."""
    return any(value is not None for value in which.values())


def said(fields: Fields, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """What was said of these, as it was written: for links and hidden fields."""
    return [(name, text) for name, text in fields if name in names]
