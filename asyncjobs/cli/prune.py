"""`asyncjobs prune`: delete what has been kept for long enough."""

from asyncjobs.cli import screen
from asyncjobs.cli.kit import ACTS, DRY_RUN, YES, Asked, Group, verb


def add_to(program: Group) -> None:
    """Declare the verb."""
    verb(program, "prune", *ACTS, DRY_RUN, YES)(prune)


async def prune(asked: Asked, *, dry_run: bool) -> None:
    """Delete ended jobs, acknowledged dead letters and former runners whose time is over; runners do so by themselves, too.

    For how long what is kept is said by the app (keep_completed and others), so name it.
    """
    would = await asked.admin.prune(dry_run=True)
    if dry_run or not would.more:
        asked.answer(would, lambda: f"would delete {would.in_words()}" if would.more else "nothing has been kept for long enough")
        return
    asked.sure(f"this would delete {would.in_words()}")
    with screen.progress("pruning") as told:
        done = await asked.admin.prune(progress=told)
    asked.answer(done, lambda: f"deleted {done.in_words()}")
