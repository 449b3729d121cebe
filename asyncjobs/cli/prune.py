"""`asyncjobs prune`: delete what has been kept for long enough."""

from asyncjobs.cli import screen
from asyncjobs.cli.kit import DRY_RUN, YES, Asked, Group, verb
from asyncjobs.store.pruning import Pruned


def add_to(program: Group) -> None:
    """Declare the verb."""
    verb(program, "prune", DRY_RUN, YES)(prune)


async def prune(asked: Asked, *, dry_run: bool) -> None:
    """Delete ended jobs, acknowledged dead letters and former runners whose time is over; runners do so by themselves, too.

    For how long what is kept is said by the app (keep_completed and others), so name it.
    """
    would = await asked.jobs.admin.prune(dry_run=True)
    if dry_run or not would.more:
        asked.answer(would, lambda: f"would delete {_counts(would)}" if would.more else "nothing has been kept for long enough")
        return
    asked.sure(f"this would delete {_counts(would)}")
    with screen.progress("pruning") as told:
        done = await asked.jobs.admin.prune(progress=told)
    asked.answer(done, lambda: f"deleted {_counts(done)}")


def _counts(pruned: Pruned) -> str:
    jobs, others = f"{pruned.jobs:,} jobs, {pruned.dead_letters:,} dead letters", f"{pruned.dedup_keys:,} dedup keys"
    return f"{jobs}, {pruned.runners:,} runners, {others}"
