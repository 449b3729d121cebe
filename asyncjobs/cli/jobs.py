"""`asyncjobs jobs`: look at jobs, and end or repeat them, one by one or all that fit a filter."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from asyncjobs.admin.jobs import Change, checked_change
from asyncjobs.cli import screen
from asyncjobs.cli.failures import NOT_DONE, BadInput
from asyncjobs.cli.filters import BEFORE, JOBS, LIMIT, all_that_fit, is_filtered, job_filter, json_object
from asyncjobs.cli.kit import ACTS, DRY_RUN, DURATION, YES, Asked, Group, Instant, argument, found, group, option, verb
from asyncjobs.errors import JobNotFound
from asyncjobs.model.explanation import Explanation
from asyncjobs.model.finding import JobsDone
from asyncjobs.model.job import Job
from asyncjobs.model.status import in_words
from asyncjobs.model.tree import Node
from asyncjobs.runtime.open_app import not_found
from asyncjobs.store.serialized import Verb

_IDS = argument("job_ids", nargs=-1, type=int, metavar="[JOB]...")


def add_to(program: Group) -> None:
    """Declare the verbs."""
    jobs = group("jobs", "Look at jobs; cancel, kill, fail or retry them, by id or by a filter.", parent=program)
    verb(jobs, "list", *JOBS, BEFORE, LIMIT)(list_jobs)
    verb(jobs, "show", argument("job_id", type=int))(show)
    verb(jobs, "explain", argument("job_id", type=int))(explain)
    verb(jobs, "running", LIMIT)(running)
    verb(jobs, "largest", LIMIT)(largest)
    verb(jobs, "trace", argument("correlation_id"))(trace)
    verb(
        jobs,
        "enqueue",
        argument("type"),
        argument("payload", default="{}", metavar="[JSON]"),
        option("--delay", type=float, metavar="SECONDS", help="Not before so long from now."),
        option("--queue", metavar="NAME", help="Another queue than the type's."),
        option("--priority", type=int, metavar="N", help="Lower ones come first."),
        option("--correlation-id", metavar="ID", help="The user action it belongs to."),
        option("--dedup-key", metavar="KEY", help="Not while another of its type with this key lives."),
        option("--tag", "tags", multiple=True, metavar="TAG", help="By which it may be found; may be said several times."),
        *ACTS,
    )(enqueue)
    verb(jobs, "retry", _IDS, *JOBS, *ACTS, DRY_RUN, YES)(retry)
    verb(
        jobs, "change", _IDS, *JOBS,
        option("--to-priority", type=int, metavar="N", help="The new priority; lower ones come first."),
        option("--to-queue", metavar="NAME", help="Another queue; its lane is left behind."),
        option("--to-lane", metavar="NAME", help="Another lane."),
        option("--run-at", type=Instant(), metavar="UTC", help="Not before then, as 2027-01-31T12:00:00."),
        option("--delay", type=DURATION, metavar="DURATION", help="Not before so long from now, as 90s, 15m; 0: now."),
        option("--max-attempts", type=int, metavar="N", help="Attempts in all."),
        option("--timeout", type=DURATION, metavar="DURATION", help="Of each attempt."),
        *ACTS, DRY_RUN, YES,
    )(change)  # fmt: skip
    verb(jobs, "delete", _IDS, *JOBS, *ACTS, DRY_RUN, YES)(delete)
    verb(jobs, "cancel", _IDS, *JOBS, *ACTS, DRY_RUN, YES)(cancel)
    verb(jobs, "kill", _IDS, *JOBS, *ACTS, DRY_RUN, YES)(kill)
    verb(jobs, "fail", _IDS, *JOBS, *ACTS, DRY_RUN, YES)(fail)


async def list_jobs(asked: Asked, before: int | None, limit: int, **given: Any) -> int | None:
    """List jobs, the highest ids first, those that wait for their key among them.

    A call looks at 10,000 jobs; when it stops there, it names the next page.
    """
    which = job_filter(given)
    page = await asked.admin.find(before=before, limit=limit, **which)
    if page.next is not None:
        asked.note(f"there may be more: --before {page.next}")
    is_last = page.next is None
    return found(asked, "job", page.jobs, lambda: _table(page.jobs), filtered=is_last and is_filtered(which))


async def show(asked: Asked, job_id: int) -> None:
    """Show all that is known of a job, the errors of its attempts among it."""
    job = await _get(asked, job_id)
    asked.answer(job, lambda: _shown(job))


async def explain(asked: Asked, job_id: int) -> None:
    """Say why a job does not run: the first thing that has to change before it does."""
    why = await asked.admin.explain(job_id)
    asked.answer(why, lambda: _explained(why))


async def running(asked: Asked, limit: int) -> int | None:
    """Show what runs, and for longest first."""
    jobs = await asked.admin.longest_running(limit=limit)
    now = datetime.now(UTC)
    rows = [
        (job.id, job.type, job.queue, now - (job.started_at or now), f"{job.attempts}/{job.max_attempts}", job.serialization_key)
        for job in jobs
    ]  # fmt: skip
    columns = ("id", "type", "queue", "runs for", "attempts", "key")
    return found(asked, "running job", jobs, lambda: screen.table(columns, rows), filtered=False)


async def largest(asked: Asked, limit: int) -> int | None:
    """Show the largest payloads among the newest 10,000 jobs."""
    jobs = await asked.admin.largest(limit=limit)
    rows = [(job.id, job.type, job.queue, in_words(job.status), f"{job.payload_bytes:,}") for job in jobs]
    return found(asked, "job", jobs, lambda: screen.table(("id", "type", "queue", "status", "bytes"), rows), filtered=False)


async def trace(asked: Asked, correlation_id: str) -> int | None:
    """Show what one user action led to: its jobs as trees of parents and children."""
    roots = await asked.admin.tree(correlation_id)
    return found(asked, "job", roots, lambda: "\n".join(_branches(roots)), filtered=True)


async def enqueue(asked: Asked, type: str, payload: str, **options: Any) -> None:
    """Enqueue a job of a type that the app declares, with its arguments as a JSON object."""
    arguments = json_object(payload, "the payload")
    async with asked.admin.noting("jobs.enqueue", f"type {type}") as outcome:
        handle = await asked.jobs.enqueue(type, arguments, created_by=asked.admin.actor.by, **options)
        outcome.append(f"job {handle.id}" if handle.created else f"there was job {handle.id}")
    what = "enqueued" if handle.created else "already there: nothing was enqueued"
    asked.answer({"id": handle.id, "created": handle.created}, lambda: f"job {handle.id} ({screen.text(type)}): {what}")


async def retry(asked: Asked, job_ids: Sequence[int], *, dry_run: bool, **given: Any) -> int | None:
    """Run jobs now that are to run later, and start over those that are dead or cancelled."""
    admin = asked.admin
    return await _do(
        asked, "retry", job_ids, given, one=admin.retry,
        many=lambda dry, told, which: admin.retry_all(dry_run=dry, progress=told, **which), dry_run=dry_run,
    )  # fmt: skip


async def change(
    asked: Asked,
    job_ids: Sequence[int],
    *,
    to_priority: int | None,
    to_queue: str | None,
    to_lane: str | None,
    run_at: datetime | None,
    delay: float | None,
    max_attempts: int | None,
    timeout: float | None,
    dry_run: bool,
    **given: Any,
) -> int | None:
    """Change jobs that wait: priority, queue, lane, time, attempts or timeout. Those that run are left as they are."""
    admin = asked.admin
    changes = Change(
        priority=to_priority, queue=to_queue, lane=to_lane, delay=delay, max_attempts=max_attempts, timeout=timeout,
        run_at=None if run_at is None else run_at.replace(tzinfo=UTC),
    )  # fmt: skip
    checked_change(changes)
    return await _do(
        asked, "change", job_ids, given, one=lambda job_id: admin.change(job_id, **changes),
        many=lambda dry, told, which: admin.change_all(changes, dry_run=dry, progress=told, **which), dry_run=dry_run,
    )  # fmt: skip


async def delete(asked: Asked, job_ids: Sequence[int], *, dry_run: bool, **given: Any) -> int | None:
    """Delete jobs that have ended, with their dead letters, for good. Others are left as they are: cancel them first."""
    admin = asked.admin
    return await _do(
        asked, "delete", job_ids, given, one=admin.delete,
        many=lambda dry, told, which: admin.delete_all(dry_run=dry, progress=told, **which), dry_run=dry_run,
    )  # fmt: skip


async def cancel(asked: Asked, job_ids: Sequence[int], *, dry_run: bool, **given: Any) -> int | None:
    """Cancel jobs. Those that run are asked to end, wherever they run."""
    admin = asked.admin
    return await _do(
        asked, "cancel", job_ids, given, one=admin.cancel,
        many=lambda dry, told, which: admin.cancel_all(dry_run=dry, progress=told, **which), dry_run=dry_run,
    )  # fmt: skip


async def kill(asked: Asked, job_ids: Sequence[int], *, dry_run: bool, **given: Any) -> int | None:
    """Make jobs dead, with dead letters. Those that run are asked to end."""
    admin = asked.admin
    return await _do(
        asked, "kill", job_ids, given, one=admin.kill,
        many=lambda dry, told, which: admin.kill_all(dry_run=dry, progress=told, **which), dry_run=dry_run,
    )  # fmt: skip


async def fail(asked: Asked, job_ids: Sequence[int], *, dry_run: bool, **given: Any) -> int | None:
    """Fail the attempts that run; the jobs are retried after their back-off."""
    admin = asked.admin
    return await _do(
        asked, "fail", job_ids, given, one=lambda job_id: admin.fail(job_id, will_retry=True),
        many=lambda dry, told, which: admin.fail_all(will_retry=True, dry_run=dry, progress=told, **which), dry_run=dry_run,
    )  # fmt: skip


async def _do(
    asked: Asked,
    what: str,
    job_ids: Sequence[int],
    given: dict[str, Any],
    *,
    one: Callable[[int], Awaitable[Verb]],
    many: Callable[[bool, Callable[[int], None], Any], Awaitable[JobsDone]],
    dry_run: bool,
) -> int | None:
    which = job_filter(given)
    if bool(job_ids) == is_filtered(which):
        raise BadInput(f"say which jobs to {what}: ids, or a filter as --type or --status, and not both.")
    if not job_ids:
        return await all_that_fit(asked, f"{what} jobs:", lambda dry, told: many(dry, told, which), dry_run=dry_run)
    if dry_run:
        raise BadInput("--dry-run goes with a filter: `asyncjobs jobs show` shows a single job.")
    return await _one_by_one(asked, job_ids, one)


async def _one_by_one(asked: Asked, job_ids: Sequence[int], one: Callable[[int], Awaitable[Verb]]) -> int | None:
    done: dict[int, Verb] = {}
    missing: list[JobNotFound] = []
    for job_id in job_ids:
        try:
            done[job_id] = await one(job_id)
        except JobNotFound as error:
            missing.append(error)
    if done:
        asked.answer(done, lambda: "\n".join(verb.told(job_id) for job_id, verb in done.items()))
    if missing:
        for other in missing[:-1]:
            asked.note(str(other))
        raise missing[-1]
    return None if all(verb.is_change for verb in done.values()) else NOT_DONE


async def _get(asked: Asked, job_id: int) -> Job:
    job = await asked.admin.get(job_id)
    if job is None:
        raise not_found(job_id)
    return job


def _table(jobs: Sequence[Job]) -> str:
    rows = [
        (job.id, job.type, in_words(job.status), job.queue, f"{job.attempts}/{job.max_attempts}", job.run_at,
         job.serialization_key, job.error_message or job.last_error)
        for job in jobs
    ]  # fmt: skip
    return screen.table(("id", "type", "status", "queue", "attempts", "due", "key", "error"), rows)


def _shown(job: Job) -> str:
    fields = {name: value for name, value in msgspec.structs.asdict(job).items() if value not in (None, 0, [], {})}
    errors = fields.pop("errors", [])
    return "\n\n".join([screen.record(fields), *map(screen.record, errors)])


def _explained(why: Explanation) -> str:
    return screen.text(why.sentence)


def _branches(nodes: Sequence[Node], depth: int = 0) -> list[str]:
    lines: list[str] = []
    for node in nodes:
        job = node.job
        error = f": {screen.text(job.error_message)}" if job.error_message else ""
        lines.append(f"{'  ' * depth}{job.id} {screen.text(job.type)} {in_words(job.status)}{error}")
        lines += _branches(node.children, depth + 1)
        if node.hidden:
            lines.append(f"{'  ' * (depth + 1)}… and {node.hidden} more")
    return lines
