"""Look now and then for handlers that go on although they should have ended."""

from typing import Any, ClassVar, Final, final

from asyncjobs.runtime.attempts import Attempts
from asyncjobs.runtime.service import Service

_INTERVAL_SECONDS: Final = 1.0


@final
class StuckCheck(Service):
    """Has stuck handlers reported."""

    name: ClassVar[str] = "stuck check"

    def __init__(self, attempts: Attempts, **options: Any) -> None:
        super().__init__(interval_seconds=_INTERVAL_SECONDS, **options)
        self._attempts = attempts

    async def pass_(self) -> float | None:
        """Report each once."""
        self._attempts.report_stuck()
        return None
