"""Which fields of which types nobody is shown (`model/redaction.py`), as runners have registered them."""

from asyncjobs.model.redaction import Redactions
from asyncjobs.store.database import Link


async def registered(link: Link, ours: Redactions) -> dict[str, set[str]]:
    """All of them, and `ours`."""
    found = {row["type"]: set(row["fields"]) for row in await link.fetch("redactions")}
    for type, fields in ours.items():
        found.setdefault(type, set()).update(fields)
    return found
