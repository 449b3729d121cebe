"""What the database knows about why a job does not run."""

from collections.abc import Sequence

from asyncjobs.model.explanation import Facts, Room, Use
from asyncjobs.store import breakers, overview, pauses, serialized, workflows
from asyncjobs.store.database import Link, Record

#: Jobs ahead of it that are counted; beyond that it is "at least".
MOST_AHEAD = 10_000


async def facts(link: Link, job_id: int) -> Facts | None:
    """The facts about a job, or None. Read in up to seven statements: one that moves meanwhile may be told half and half."""
    row = await link.fetch_row("explain_job", job_id, MOST_AHEAD)
    if row is None:
        return None
    key = row["serialization_key"]
    line = await serialized.keys(link, "", 1, key) if key is not None else []
    head = line[0] if line else None
    names = {("queue", row["queue"]), ("type", row["type"]), ("key", key), ("all", pauses.ALL)}
    held = [one for one in await pauses.pauses(link) if (one.kind, one.name) in names]
    service = row["breaker"]
    breaker = next(iter(await breakers.listed(link, service)), None) if service is not None else None
    uses = [one for one in await overview.lanes(link) if one.queue == row["queue"]] if row["status"] == "pending" else []
    limit = await link.fetch_row("explain_limit", job_id)
    use = None if limit is None else _use(limit)
    return Facts(
        use=use, room=_room(uses, row["lane"]),
        breaker=None if breaker is None or breaker.state == "closed" else breaker.service,
        breaker_since=None if breaker is None else breaker.opened_at,
        breaker_until=None if breaker is None else breaker.half_opens_at,
        job_id=job_id, status=row["status"], queue=row["queue"], type=row["type"], lane=row["lane"], key=key,
        run_at=row["run_at"], start_before=row["start_before"], now=row["now"],
        runner_id=row["runner_id"], runner_is_alive=bool(row["runner_is_alive"]),
        runner_stopped_at=row["runner_stopped_at"],
        started_at=row["started_at"], completed_at=row["completed_at"], error_message=row["error_message"],
        runners=row["runners"], serving_queue=row["serving_queue"], serving_type=row["serving_type"], serving=row["serving"],
        declared_at=row["declared_at"],
        losses=row["losses"], suspicion=row["suspicion"], version=row["version"], newest_version=row["newest_version"],
        is_ahead=bool(row["is_ahead"]),
        ahead=row["ahead"] if limit is None or limit["limit_key"] is None else limit["ahead"], running=row["running"],
        head_id=None if head is None else head.head_id,
        halted_at=None if head is None else head.halted_at, halt_reason=None if head is None else head.halt_reason,
        missing=await workflows.missing(link, job_id) if row["status"] == "blocked" else (),
        pauses=[(one.kind, one.name, one.reason, one.paused_by, one.paused_at) for one in held],
    )  # fmt: skip


def _use(row: Record) -> Use:
    return Use(
        key=row["limit_key"], each=row["each"], total=row["total"], running=row["running"], ids=row["ids"],
        running_of_limit=row["running_of_limit"] or 0, opens_at=row["opens_at"], closed_by=row["closed_by"],
        queue_total=row["queue_total"], running_in_queue=row["running_in_queue"],
    )  # fmt: skip


def _room(uses: Sequence[overview.LaneUse], lane: str | None) -> Room | None:
    """The slots for a job of this lane. What runs beyond the slots of its own lane has a general one."""
    if not any(one.lane is not None and one.slots for one in uses):
        return None
    own = [one for one in uses if one.lane == lane is not None]
    general = [one for one in uses if one.lane is None]
    beyond = sum(max(one.in_use - (one.slots if one.lane is not None else 0), 0) for one in uses)
    slots = sum(one.slots for one in general)
    free = sum(max(one.slots - one.in_use, 0) for one in own) + max(slots - beyond, 0)
    return Room(sum(one.slots for one in own), slots, free)
