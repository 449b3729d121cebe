"""Delete what has been kept for long enough, in batches that no other statement has to wait for.

A pass deletes at most a batch of each kind, in one statement, and is followed by another at once as long as one of them was full.
What is locked is skipped. A kind that cannot be pruned keeps no other from it; the pass counts as failed then. A pass with
nothing to do is that one statement.
"""

from typing import ClassVar

from asyncjobs.runtime.duties import Duty
from asyncjobs.settings import Settings, config_keep
from asyncjobs.store import pruning
from asyncjobs.store.database import Link
from asyncjobs.store.pruning import Keep
from asyncjobs.telemetry.events import Events, RowsPruned


def keeping(settings: Settings) -> Keep:
    """What the settings say about keeping."""
    return Keep(
        completed=settings.keep_completed,
        cancelled=settings.keep_cancelled,
        dead_letters=settings.keep_dead,
        runners=settings.keep_runners,
        audit=settings.keep_audit,
        types={name: config_keep(keep, name=name) for name, keep in settings.keep_types.items()},
    )


class Pruner(Duty):
    """Prunes. The link may be shared with other duties."""

    name: ClassVar[str] = "pruner"
    duty = "prune"

    def __init__(self, link: Link, keep: Keep, *, events: Events, interval_seconds: float = 60.0, batch: int = 100) -> None:
        super().__init__(events=events, interval_seconds=interval_seconds)
        self._link = link
        self._keep = keep
        self._batch = batch

    async def pass_(self) -> float | None:
        """Delete a batch of each kind."""
        pruned = await pruning.prune(self._link, self._keep, self._batch, self.turn.fence)
        self.items = pruned.rows
        if self.items:
            self.events.emit(
                RowsPruned(
                    jobs=pruned.jobs, dead_letters=pruned.dead_letters, runners=pruned.runners, dedup_keys=pruned.dedup_keys
                )
            )
        pruned.check()
        return 0.0 if pruned.more else None
