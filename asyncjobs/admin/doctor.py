"""The doctor: looks for what goes wrong with databases and runners, and says what to do."""

from asyncjobs.admin.desk import Desk
from asyncjobs.model.symptom import Symptom, diagnose
from asyncjobs.store import doctoring, overview
from asyncjobs.store.overview import Stats


class Doctor(Desk):
    """The doctor's visit."""

    async def doctor(self) -> list[Symptom]:
        """What is wrong, or soon will be, the worst first; empty when nothing is. Changes nothing.

        Works whether the app is open or not, behind poolers, and on a schema that is missing, outdated or too new: then it
        says so, and what can be seen without the tables. Otherwise it looks at indexes, vacuum, long transactions, leases,
        runners, duties and types that fail, open breakers, pauses, jobs that wait for long or that nobody serves, dead letters,
        blocked keys, clocks, notifications and connections. Some of it shows only to a role
        that may see others' sessions (pg_read_all_stats).
        """
        async with self._ground() as (database, listening, runner_timeout):
            silent_after = 2 * runner_timeout
            signs = await doctoring.signs(database, listening=listening, silent_after=silent_after)
        return diagnose(signs, silent_after=silent_after)

    async def worries(self, seen: Stats | None = None) -> list[Symptom]:
        """The findings of `doctor` about work, for those who look often: duties, runners, breakers, pauses, keys, dead letters.

        Not those about the server and the schema. `seen`: the answer of `glance`, whose counts are used.
        """
        silent_after = 2 * self._opened("admin.worries was called").settings.runner_timeout
        counts = (await self._do("worries", overview.depths)).counts if seen is None else seen.counts
        signs = await self._do("worries", lambda link: doctoring.work(link, counts, silent_after=silent_after))
        return diagnose(signs, silent_after=silent_after)
