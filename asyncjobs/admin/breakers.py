"""Verbs on circuit breakers."""

from asyncjobs.admin.audit import recorded
from asyncjobs.admin.desk import Desk
from asyncjobs.errors import BreakerNotFound
from asyncjobs.model.breaker import Opened, Policy, Reset
from asyncjobs.model.outcome import Duration
from asyncjobs.settings import config_seconds
from asyncjobs.store import breakers
from asyncjobs.store.breakers import BreakerState
from asyncjobs.store.database import Link
from asyncjobs.telemetry.events import BreakerMoved


class Breakers(Desk):
    """Verbs on circuit breakers."""

    async def breakers(self) -> list[BreakerState]:
        """Every circuit breaker that was ever declared, by service.

        One that is open and whose time is over says so until somebody calls the service. `types` are those that runners
        have said to be behind it, so no app is needed to know them. `declared` is False for those that neither this app nor
        such a type names (any more): their rows may be deleted.
        """
        declared = self._opened("admin.breakers was called").breakers.services

        async def listed(link: Link) -> list[BreakerState]:
            found = await breakers.listed(link, declared=declared)
            if {one.service for one in found}.issuperset(declared):
                return found
            await breakers.declare(link, declared)  # the app has only just been opened
            return await breakers.listed(link, declared=declared)

        return await self._do("breakers", listed)

    async def breaker(self, service: str, /) -> BreakerState:
        """One circuit breaker. BreakerNotFound."""
        everything = await self.breakers()
        for one in everything:
            if one.service == service:
                return one
        raise BreakerNotFound(service, [one.service for one in everything])

    @recorded("breakers.reset", "breaker {service}")
    async def reset_breaker(self, service: str, /, *, by: str | None = None, reason: str | None = None) -> bool:
        """Close a circuit breaker, whatever opened it, and forget what was counted. False: there was nothing to do.

        BreakerNotFound.
        """
        del by, reason  # for the record
        former = await self.breaker(service)
        await self._move(service, Reset())
        return former.state != "closed" or former.failure_count > 0

    @recorded("breakers.open", "breaker {service}")
    async def open_breaker(
        self, service: str, /, *, for_: Duration | None = None, reason: str | None = None, by: str | None = None
    ) -> bool:
        """Open a circuit breaker until it is reset, or for so long: then it lets a probe through. False: it was open.

        Calls under way go on. Called again it sets time and reason anew. BreakerNotFound.
        """
        seconds = None if for_ is None else config_seconds(for_, name="for_", positive=True)
        former = await self.breaker(service)
        await self._move(service, Opened(seconds), reason=self._why(reason, "opened", by))
        return former.state != "open"

    async def _move(self, service: str, event: Opened | Reset, *, reason: str | None = None) -> None:
        opened = self._opened("admin was called")
        happened = await self._do("breaker", lambda link: breakers.happen(link, event, Policy(service=service), reason=reason))
        opened.breakers.moved(service, happened)
        seconds = event.seconds if isinstance(event, Opened) else None
        state = happened.seen.circuit.state
        if state != happened.formerly or isinstance(event, Opened):
            opened.events.emit(
                BreakerMoved(service=service, formerly=happened.formerly, state=state, seconds=seconds, reason=reason)
            )
