"""`asyncjobs workflows`: what waits for what, and verbs on all of it."""

import msgspec

from asyncjobs.cli import screen
from asyncjobs.cli.kit import ACTS, YES, Asked, Group, argument, found, group, option, verb

_ID = argument("workflow", type=int)


def add_to(program: Group) -> None:
    """Declare the verbs."""
    workflows = group("workflows", "Look at workflows; cancel or retry them.", parent=program)
    verb(
        workflows, "list",
        option("--name", metavar="NAME", help="Only those of this name."),
        option("--open", "only_open", is_flag=True, help="Only those that have not ended."),
        option("--limit", type=int, default=50, show_default=True, help="At most so many, the newest first."),
    )(list_workflows)  # fmt: skip
    verb(workflows, "show", _ID, option("--limit", type=int, default=20, show_default=True, help="Show so many gates and jobs."))(
        show
    )
    verb(workflows, "cancel", _ID, *ACTS, YES)(cancel)
    verb(workflows, "retry", _ID, *ACTS)(retry)


async def list_workflows(asked: Asked, name: str | None, only_open: bool, limit: int) -> int | None:  # noqa: FBT001
    """List workflows: how many of their jobs have ended, and how."""
    rows = await asked.admin.workflows(name=name, only_open=only_open, limit=limit)
    columns = ("id", "name", "state", "jobs", "ended", "failed", "made", "ended at")
    table = [
        (one.id, one.name, one.state, one.size, one.size - one.missing, one.dead, one.created_at, one.ended_at) for one in rows
    ]
    answer = [{"state": one.state, **msgspec.structs.asdict(one)} for one in rows]
    return found(asked, "workflow", answer, lambda: screen.table(columns, table), filtered=name is not None or only_open)


async def show(asked: Asked, workflow: int, limit: int) -> None:
    """Show a workflow: its jobs, and what they wait for."""
    admin = asked.admin
    row = await admin.workflow(workflow)
    gates = await admin.gates(workflow, limit=limit)
    members = await admin.members(workflow, limit=limit)

    def text() -> str:
        waits = screen.table(
            ("gate", "of", "jobs", "missing", "failed", "waiting", "released", "ended by it"),
            [(one.id, one.name, one.size, one.missing, one.dead, one.waiting, one.released, one.broken) for one in gates],
        )
        jobs = screen.table(
            ("member", "job", "type", "status", "why"),
            [(one.number, one.id, one.type, one.status, one.error_message) for one in members],
        )
        more = "" if row.size <= len(members) else f"\n… and {row.size - len(members)} more jobs"
        about = screen.record({**msgspec.structs.asdict(row), "state": row.state})
        return "\n\n".join([about, *([waits] if gates else []), jobs + more])

    asked.answer({"workflow": row, "state": row.state, "gates": gates, "members": members}, text)


async def cancel(asked: Asked, workflow: int) -> None:
    """Cancel what has not ended of a workflow; what runs is asked to end."""
    row = await asked.admin.workflow(workflow)
    asked.sure(f"cancel {row.missing} of {row.size} jobs of workflow {workflow}", dry_run_helps=False)
    outcome = await asked.admin.cancel_workflow(workflow)
    words = {"requested": "is being cancelled", "cancelling": "was being cancelled", "ended": "has ended"}
    asked.answer({"outcome": outcome}, lambda: f"workflow {workflow} {words[outcome]}")


async def retry(asked: Asked, workflow: int) -> None:
    """Retry the jobs of a workflow that died or were cancelled; what they had ended comes back."""
    done = await asked.admin.retry_workflow(workflow)
    asked.answer(done, lambda: f"workflow {workflow}: {len(done.retried)} retried, {len(done.left)} left as they are")
