"""Enqueues that are kept in memory instead of being written: what tests without a database ask for, and nothing else."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Protocol

from asyncjobs.errors import UsageError
from asyncjobs.model.new_row import Enqueued, NewRow
from asyncjobs.owning_app import OwningApp


class Keeper(Protocol):
    """Keeps the jobs that are enqueued in one app."""

    @property
    def app(self) -> OwningApp:
        """The app."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop in which it keeps them."""
        ...

    def keep(self, rows: Sequence[NewRow]) -> list[Enqueued]:
        """Keep them; what became of each. DuplicateJob."""
        ...


#: Who keeps what the current task enqueues, and what tasks and threads that it starts do.
keeper: ContextVar[Keeper | None] = ContextVar("asyncjobs_keeper", default=None)


def keeper_of(app: object) -> Keeper | None:
    """Who keeps what is enqueued in this app; None: it is written."""
    kept = keeper.get()
    return kept if kept is not None and kept.app is app else None


def refuse_in_memory(app: object, what: str) -> None:
    """UsageError, in words that begin with `what`, when there is nothing to ask the database about."""
    if keeper_of(app) is not None:
        raise UsageError(f"{what}, but this test keeps jobs in memory, where nothing runs them: use a database for that.")
