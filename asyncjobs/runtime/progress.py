"""Writes how far running handlers are: the last word of each, at most once a second, and only while there is something to say."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec

from asyncjobs.model.storable import cut, in_ascii
from asyncjobs.runtime.attempt import Attempt
from asyncjobs.runtime.service import Service
from asyncjobs.store import jobs
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_unstorable_text
from asyncjobs.store.pool import Pool
from asyncjobs.telemetry.events import Events

_INTERVAL_SECONDS = 1.0
_LONGEST_NOTE = 1000  # bytes


class Progress(Service):
    """Collects reports and writes them, fenced by the attempt's token. A report of an attempt that has ended is dropped."""

    name: ClassVar[str] = "progress"

    def __init__(self, pool: Pool, *, events: Events) -> None:
        super().__init__(events=events, interval_seconds=60.0)
        self._pool = pool
        self._reports: dict[tuple[int, int], tuple[float, str]] = {}

    def report(self, attempt: Attempt, done: float, note: str) -> None:
        """Write this with the next pass, within a second."""
        self._reports[attempt.claimed.id, attempt.claimed.token] = (done, cut(note, _LONGEST_NOTE))
        self.wake_within(_INTERVAL_SECONDS)

    async def pass_(self) -> float | None:
        """Write what was reported since the last pass."""
        if self._reports:
            reports, self._reports = self._reports, {}
            async with self._pool.take() as link:
                try:
                    await self._write(link, reports, progress_text)
                except Exception as error:
                    if not is_unstorable_text(error):
                        raise
                    await self._write(link, reports, lambda done, note: progress_text(done, in_ascii(note)))
        return None

    async def _write(
        self, link: Link, reports: Mapping[tuple[int, int], tuple[float, str]], text_of: Callable[[float, str], str]
    ) -> None:
        await jobs.set_progress(link, [(id, token, text_of(done, note)) for (id, token), (done, note) in reports.items()])


def progress_text(done: float, note: str) -> str:
    """The report as JSON that the database takes: what a handler says on the way never fails its job."""
    return msgspec.json.encode({"done": done, "note": cut(note, _LONGEST_NOTE)}).decode()
