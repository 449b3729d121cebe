"""Deleting what has been kept for long enough, now and not when the duty comes to it."""

from typing import Final

from asyncjobs.admin.audit import recorded
from asyncjobs.admin.desk import Desk, Progress, untold
from asyncjobs.runtime.pruner import keeping
from asyncjobs.store import pruning
from asyncjobs.store.pruning import Pruned

_BATCH: Final = 1_000


class Pruning(Desk):
    """Pruning by hand."""

    @recorded("prune", "what is old")
    async def prune(self, *, dry_run: bool = False, progress: Progress = untold, by: str | None = None) -> Pruned:
        """Delete the ended jobs, acknowledged dead letters, former runners, dedup keys and entries of the audit whose time
        (`keep_…`) is over.

        In batches, so nobody waits for it. `dry_run` only counts. `progress` is called with how many rows are gone so far. What
        cannot be pruned keeps nothing else from it; AsyncJobsError says what it was.
        """
        del by  # for the record
        keep = keeping(self._opened("admin.prune was called").settings)
        if dry_run:
            return await self._do("prune", lambda link: pruning.prunable(link, keep))
        done = Pruned(0, 0, 0, 0, more=True)
        while done.more:
            one = await self._do("prune", lambda link: pruning.prune(link, keep, _BATCH))
            done = Pruned(
                done.jobs + one.jobs, done.dead_letters + one.dead_letters, done.runners + one.runners,
                done.dedup_keys + one.dedup_keys, one.more, done.audit + one.audit, one.failures,
            )  # fmt: skip
            progress(done.rows)
        done.check()
        return done
