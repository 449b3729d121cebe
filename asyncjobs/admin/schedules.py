"""Verbs on schedules."""

from asyncjobs.admin.audit import recorded
from asyncjobs.admin.desk import Desk
from asyncjobs.errors import ScheduleNotFound
from asyncjobs.model.audit import UNNAMED
from asyncjobs.store import schedules
from asyncjobs.store.schedules import RunNow, ScheduleState


class Schedules(Desk):
    """Verbs on schedules."""

    async def schedules(self) -> list[ScheduleState]:
        """Every schedule that was ever declared, by name: when it ticks, where it is, and why it does not tick if it does not."""
        return await self._do("schedules", schedules.listed)

    async def schedule(self, name: str, /) -> ScheduleState:
        """One schedule. ScheduleNotFound."""
        found = await self._do("schedule", lambda link: schedules.listed(link, name))
        if not found:
            raise ScheduleNotFound(name, [one.name for one in await self.schedules()])
        return found[0]

    @recorded("schedules.disable", "schedule {name}")
    async def disable_schedule(self, name: str, /, *, reason: str | None = None, by: str | None = None) -> bool:
        """Let a schedule tick no more until it is enabled, also after restarts and deployments. False: it was disabled so.

        ScheduleNotFound.
        """
        await self.schedule(name)
        said = reason or self.actor.why
        if self._by(by) != UNNAMED:
            said = f"{said} (by {self._by(by)})" if said else f"by {self._by(by)}"
        return await self._do("disable_schedule", lambda link: schedules.disable(link, name, because="operator", reason=said))

    @recorded("schedules.enable", "schedule {name}")
    async def enable_schedule(self, name: str, /, *, by: str | None = None) -> bool:
        """Let a disabled schedule tick again from now on: what came meanwhile was not missed. False: it was enabled.

        ScheduleNotFound. One that no runner declares any more is disabled again by the next runner that looks.
        """
        del by  # for the record
        await self.schedule(name)
        enabled = await self._do("enable_schedule", lambda link: schedules.enable(link, name))
        self._opened("admin.enable_schedule was called").wakes.schedules()
        return enabled

    @recorded("schedules.run", "schedule {name}")
    async def run_schedule(self, name: str, /, *, by: str | None = None) -> RunNow:
        """Make the schedule's job now, whether it is enabled or not; its ticks stay as they are, and see this job for overlaps.

        A live job that has its dedup key is answered instead. ScheduleNotFound.
        """
        del by  # for the record
        made = await self._do("run_schedule", lambda link: schedules.run_now(link, name))
        if made is None:
            raise ScheduleNotFound(name, [one.name for one in await self.schedules()])
        if made.created:
            self._announce([made.queue])
        return made
