"""`asyncjobs leases`: which runner does which duty, and how its last pass went."""

from asyncjobs.cli import screen
from asyncjobs.cli.kit import Asked, Group, found, verb


def add_to(program: Group) -> None:
    """Declare the verb."""
    verb(program, "leases")(leases)


async def leases(asked: Asked) -> int | None:
    """Show the duties that are done under a lease: the holder, since when, and the last pass.

    A holder that renews and whose "last run" falls behind hangs in a pass: end its process, and another takes over.
    """
    rows = await asked.admin.leases()
    columns = ("duty", "runner", "host", "pid", "since", "renewed", "last run", "last pass", "items", "errors", "seconds")
    table = [
        (one.duty, one.runner_id, one.host, one.pid, one.acquired_at, one.renewed_at, one.last_run_at, one.last_pass_at,
         one.items, one.errors, one.duration_seconds)
        for one in rows
    ]  # fmt: skip
    return found(asked, "lease", rows, lambda: screen.table(columns, table), filtered=False)
