"""Looks now and then for handlers that go on although they should have ended."""

from typing import ClassVar, Final

from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.service import Service
from asyncjobs.telemetry.events import Events

_INTERVAL_SECONDS: Final = 1.0


class StuckCheck(Service):
    """Reports each of them once. In memory: no statement."""

    name: ClassVar[str] = "stuck check"

    def __init__(self, attempts: Attempts, *, events: Events) -> None:
        super().__init__(events=events, interval_seconds=_INTERVAL_SECONDS)
        self._attempts = attempts

    async def pass_(self) -> float | None:
        """Look."""
        self._attempts.report_stuck()
        return None
