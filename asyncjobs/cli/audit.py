"""`asyncjobs audit`: who did what, to what, why and when."""

from typing import Any, cast, get_args

from asyncjobs.cli import screen
from asyncjobs.cli.filters import BEFORE, LIMIT, SINCE, UNTIL
from asyncjobs.cli.kit import Asked, Choice, Group, found, option, verb
from asyncjobs.model.audit import AuditFilter, Via


def add_to(program: Group) -> None:
    """Declare the verb."""
    verb(
        program,
        "audit",
        option("--by", "by_whom", metavar="NAME", help="What this one did."),
        option("--verb", metavar="VERB", help='This verb, as "jobs.cancel", or all that begin so, as "jobs".'),
        option("--target", metavar="WHAT", help='What was done to this, as "job 5", "key k", "queue mail".'),
        option("--via", type=Choice(get_args(Via)), help="What was done from there."),
        SINCE,
        UNTIL,
        BEFORE,
        LIMIT,
    )(audit)


async def audit(asked: Asked, by_whom: str | None, before: int | None, limit: int, **given: Any) -> int | None:
    """Show what operators did, the newest first: who, what, why, when, and what came of it.

    It knows what was done by the command line, the dashboard and Python, and by SQL where a trigger can tell. It is kept for 90
    days unless the app says otherwise (keep_audit).
    """
    which = {**given, "by": by_whom}
    page = await asked.admin.audit(before=before, limit=limit, **cast("AuditFilter", which))
    if page.next is not None:
        asked.note(f"there may be more: --before {page.next}")
    columns = ("entry", "at", "by", "via", "verb", "target", "why", "outcome")
    rows = [(one.id, one.at, one.by, one.via, one.verb, one.target, one.why, one.outcome or "?") for one in page.entries]
    filtered = any(value is not None for value in which.values())
    return found(asked, "entry", page.entries, lambda: screen.table(columns, rows), filtered=filtered)
