"""`asyncjobs migrate`: make the schema, or bring it up to date."""

from asyncjobs.cli import screen
from asyncjobs.cli.failures import BadInput
from asyncjobs.cli.kit import YES, Asked, Group, argument, option, verb


def add_to(program: Group) -> None:
    """Declare the verb."""
    verb(
        program,
        "migrate",
        argument("named", metavar="[MODULE:ATTR]", required=False),
        option("--plan", is_flag=True, help="Only say what would be applied."),
        option("--status", is_flag=True, help="Only say what is applied and what is not."),
        option("--sql", is_flag=True, help="Print the SQL of all migrations as a script for psql; asks no database."),
        YES,
        opens=False,
    )(migrate)


async def migrate(asked: Asked, *, plan: bool, status: bool, sql: bool) -> int | None:
    """Apply the migrations that the schema lacks, each in a transaction of its own.

    A migration that is marked breaking stops older programs: it is confirmed first.
    """
    if plan + status + sql > 1:
        raise BadInput("--plan, --status and --sql exclude each other: say one.")
    if sql:
        asked.say(asked.jobs.migration_script())
        return None
    state = await asked.jobs.migrations()
    if status:
        rows = [(name, "applied") for name in state.applied] + [(name, "pending") for name in state.pending]
        asked.answer(state, lambda: screen.table(("migration", "state"), rows))
        return None
    if plan:
        asked.answer(state.pending, lambda: "\n".join(f"would apply {name}" for name in state.pending) or "nothing to apply")
        return None
    if state.breaking and state.applied:
        asked.sure(f"{', '.join(state.breaking)} will stop programs with an older asyncjobs", dry_run_helps=False)
    with screen.progress("migrating"):
        applied = await asked.jobs.migrate()
    asked.answer(applied, lambda: "\n".join(f"applied {name}" for name in applied) or "nothing to apply")
    return None
