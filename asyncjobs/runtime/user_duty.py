"""A duty that the application declared: a pass calls its function."""

from collections.abc import Awaitable, Callable
from typing import ClassVar

from asyncjobs.context import DutyContext
from asyncjobs.runtime.duties import Duty, Turn
from asyncjobs.store import leases
from asyncjobs.store.database import Database
from asyncjobs.telemetry.events import Events


class UserDuty(Duty):
    """Calls the application's function; an error of it is one pass that failed."""

    name: ClassVar[str] = "user duty"

    def __init__(
        self,
        duty: str,
        call: Callable[[DutyContext], Awaitable[int | None]],
        database: Database,
        *,
        events: Events,
        interval_seconds: float,
    ) -> None:
        super().__init__(events=events, interval_seconds=interval_seconds)
        self.duty = duty
        self._call = call
        self._database = database

    @property
    def title(self) -> str:
        """By the name that the application gave it."""
        return f"duty {self.duty}"

    async def pass_(self) -> float | None:
        """Call it, with a context."""
        import structlog

        turn, log = self.turn, structlog.get_logger("asyncjobs.duty")
        context = DutyContext(name=self.duty, log=log.bind(duty=self.duty), hold=lambda connection: self._hold(turn, connection))
        with structlog.contextvars.bound_contextvars(duty=self.duty):
            self.items = await self._call(context)
        return None

    async def _hold(self, turn: Turn, connection: object) -> bool:
        return turn.fence is None or await leases.hold(connection, self._database, turn.fence)
