"""The doctor: looks for what goes wrong with databases and runners, and says what to do."""

from asyncjobs.admin.desk import Desk
from asyncjobs.model.symptom import Symptom, diagnose
from asyncjobs.store import doctoring


class Doctor(Desk):
    """The doctor's visit."""

    async def doctor(self) -> list[Symptom]:
        """What is wrong, or soon will be, the worst first; empty when nothing is. Changes nothing.

        It looks at the schema and its indexes, vacuum, long transactions, leases, runners, jobs that nobody serves, halted keys,
        clocks, poolers and connections. Some of it shows only to a role that may see others' sessions (pg_read_all_stats).
        """
        silent_after = 2 * self._opened("admin.doctor was called").settings.runner_timeout
        return diagnose(await self._do("doctor", doctoring.signs), silent_after=silent_after)
