"""The trail of operators' verbs (`model/audit.py`)."""

from asyncjobs.model.audit import Audited, AuditFilter, Deed, Entry
from asyncjobs.store.database import Link


async def begin(link: Link, deed: Deed) -> int:
    """Write down what is about to be done; the row's id."""
    row = await link.fetch_row("audit_begin", deed.via, deed.by, deed.verb, deed.target, deed.why)
    assert row is not None  # noqa: S101 - an INSERT returns its row
    found: int = row["id"]
    return found


async def end(link: Link, id: int, outcome: str) -> None:
    """Write down what came of it."""
    await link.fetch("audit_end", id, outcome)


async def listed(link: Link, which: AuditFilter, *, before: int | None, limit: int) -> Audited:
    """A page of the trail, the newest first."""
    rows = await link.fetch(
        "list_audit", before, limit + 1, which.get("by"), which.get("verb"), which.get("target"), which.get("via"),
        which.get("since"), which.get("until"),
    )  # fmt: skip
    entries = [Entry(**dict(row)) for row in rows[:limit]]
    return Audited(entries, entries[-1].id if len(rows) > limit and entries else None)
