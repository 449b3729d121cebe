"""`asyncjobs schedules`: what makes jobs by itself, and when."""

import msgspec

from asyncjobs.cli import screen
from asyncjobs.cli.kit import ACTS, Asked, Group, argument, found, group, verb

_NAME = argument("name")


def add_to(program: Group) -> None:
    """Declare the verbs."""
    schedules = group("schedules", "Look at schedules; run, disable or enable them.", parent=program)
    verb(schedules, "list")(list_schedules)
    verb(schedules, "show", _NAME)(show)
    verb(schedules, "run", _NAME, *ACTS)(run)
    verb(schedules, "disable", _NAME, *ACTS)(disable)
    verb(schedules, "enable", _NAME, *ACTS)(enable)


async def list_schedules(asked: Asked) -> int | None:
    """List schedules: when they tick, where they are, and why they do not tick if they do not."""
    rows = await asked.admin.schedules()
    columns = ("schedule", "type", "queue", "when", "timezone", "last tick", "next tick", "last job", "disabled", "runners")
    table = [
        (one.name, one.type, one.queue, one.cron or one.every, one.timezone, one.last_tick_at if one.has_ticked else "never",
         one.next_tick_at, one.last_job_id, one.disabled_because, one.runners)
        for one in rows
    ]  # fmt: skip
    return found(asked, "schedule", rows, lambda: screen.table(columns, table), filtered=False)


async def show(asked: Asked, name: str) -> None:
    """Show a schedule."""
    state = await asked.admin.schedule(name)
    asked.answer(state, lambda: screen.record(msgspec.structs.asdict(state)))


async def run(asked: Asked, name: str) -> None:
    """Make the job of a schedule now; its ticks stay as they are."""
    made = await asked.admin.run_schedule(name)
    what = "enqueued" if made.created else "already there: nothing was enqueued"
    asked.answer(made, lambda: f"job {made.id}: {what}")


async def disable(asked: Asked, name: str) -> None:
    """Let a schedule tick no more until it is enabled, also after deployments."""
    changed = await asked.admin.disable_schedule(name)
    asked.answer({"changed": changed}, lambda: f"{screen.text(name)} {'ticks no more' if changed else 'was disabled before'}")


async def enable(asked: Asked, name: str) -> None:
    """Let a disabled schedule tick again."""
    changed = await asked.admin.enable_schedule(name)
    asked.answer({"changed": changed}, lambda: f"{screen.text(name)} {'ticks again' if changed else 'was not disabled'}")
