"""What every verb stands on: a connection of the app's pool, tries against conflicts, and a word to the runners afterwards."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, TypeAlias, TypeVar

from asyncjobs.admin.audit import Scribe, record_of
from asyncjobs.admin.on_connection import Unopened
from asyncjobs.errors import StateError, UsageError
from asyncjobs.model.audit import Actor, Deed
from asyncjobs.model.finding import JobFilter
from asyncjobs.model.job import Job
from asyncjobs.model.redaction import Redactions, shown_job
from asyncjobs.runtime.open_app import OpenApp
from asyncjobs.store import audit, redaction
from asyncjobs.store.database import Database, Link
from asyncjobs.store.failures import is_out_of_range, is_rolled_back, is_unstorable_text

T = TypeVar("T")

TRIES: Final = 5

#: Jobs that one statement of a verb on many of them takes.
BATCH: Final = 1_000

#: Is told how many of a verb's jobs, dead letters or rows are done.
Progress: TypeAlias = Callable[[int], None]


def untold(done: int) -> None:
    """Nobody wants to know."""
    del done


class Ground(NamedTuple):
    """Where the jobs are, where runners LISTEN, and after how many seconds of silence one is dead."""

    database: Database
    listening: Database
    runner_timeout: float


class Desk:
    """The base of the verbs."""

    def __init__(
        self,
        opened: Callable[[str], OpenApp],
        ground: Callable[[], AbstractAsyncContextManager[Ground]],
        unopened: Callable[[], Unopened],
    ) -> None:
        self._opened = opened
        self._unopened = unopened  # for what goes by a connection of the caller's
        self._ground = ground  # for what must work on an app that cannot be opened
        self.actor = Actor()  # who uses the verbs (`Trail.acting`)
        self.shows_payloads = True  # to who uses the verbs (`Trail.acting`)
        self.scribe = Scribe(opened, self._begin_entry, self._end_entry, lambda: unopened().events)

    async def _begin_entry(self, deed: Deed) -> int:
        return await self._do("audit", lambda link: audit.begin(link, deed))

    async def _end_entry(self, id: int, outcome: str) -> None:
        await self._do("audit", lambda link: audit.end(link, id, outcome))

    def _redacts(self) -> Redactions:
        """The fields that this app knows nobody is to be shown."""
        return self._unopened().redactions

    async def _shown(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs as who uses the verbs may see them."""
        if not jobs:
            return []
        ours = self._redacts()
        redactions = await self._do("redactions", lambda link: redaction.registered(link, ours)) if self.shows_payloads else {}
        return [shown_job(job, redactions, payloads=self.shows_payloads) for job in jobs]

    def _check_searched(self, which: JobFilter) -> None:
        """UsageError for a search by what is not shown."""
        if which.get("payload") is not None and not self.shows_payloads:
            raise UsageError("payload: payloads are not shown to you, and not looked through.")

    def _by(self, by: str | None) -> str:
        """Who does it."""
        return by or self.actor.by

    def _why(self, message: str | None, done: str, by: str | None) -> str:
        """What the row of a job says that was `done`."""
        return record_of(message or self.actor.why, done, self._by(by))

    async def _do(self, name: str, call: Callable[[Link], Awaitable[T]], *, most: int = TRIES) -> T:
        """The call's answer on a connection of the pool; again (`most` tries) when the server resolved a conflict against it.

        UsageError for a text or number that no table holds, StateError when somebody's open transaction holds what it needs for
        longer than a few seconds.
        """
        opened = self._opened(f"admin.{name} was called")
        for tries in range(1, most + 1):
            try:
                async with opened.pool.take() as link:
                    return await call(link)
            except Exception as error:
                if is_unstorable_text(error):
                    raise UsageError(
                        f"{name}: a text has a character that the database cannot hold: a NUL, a lone surrogate, or one that its "
                        f"encoding does not have ({error})."
                    ) from None
                if is_out_of_range(error):
                    raise UsageError(f"{name}: a number is out of its range: {error}.") from None
                if not is_rolled_back(error):
                    raise
                if tries == most:
                    raise StateError(f"{name}: another transaction holds the job or its key for too long: {error}.") from error
        raise AssertionError("unreachable")

    def _announce(self, queues: list[str]) -> None:
        wakes = self._opened("admin was called").wakes
        for queue in queues:
            wakes.pending(queue, front=True)
