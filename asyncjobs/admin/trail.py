"""Who uses the verbs, and the trail of what was done."""

import copy
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Self, Unpack

from asyncjobs.admin.desk import Desk
from asyncjobs.model.audit import Actor, Audited, AuditFilter, Deed, Via
from asyncjobs.model.finding import check_instants
from asyncjobs.store import audit
from asyncjobs.store.failures import DATABASE_ERRORS


class Trail(Desk):
    """The audit."""

    def acting(
        self, by: str | None = None, *, why: str | None = None, via: Via | None = None, shows_payloads: bool | None = None
    ) -> Self:
        """The same verbs, used by somebody: `jobs.admin.acting("ada", why="the provider is back").retry(5)`.

        Each verb that changes something is written down with who, why and from where, and so is the row of what it ended.
        With `shows_payloads=False` payloads, results and progress are shown as if there were none, and are not searched.
        A `by=`, `reason=` or message of a verb counts more.
        """
        made = copy.copy(self)
        made.shows_payloads = self.shows_payloads if shows_payloads is None else shows_payloads and self.shows_payloads
        made.actor = Actor(by or self.actor.by, via or self.actor.via, why or self.actor.why)
        return made

    @asynccontextmanager
    async def noting(self, verb: str, target: str) -> AsyncGenerator[list[str]]:
        """Write down something else that an operator's program does to jobs; what is put into the list is what came of it.

        A role that may only enqueue writes nothing down.
        """
        came: list[str] = []
        deed = Deed(verb=verb, target=target, by=self.actor.by, via=self.actor.via, why=self.actor.why).storable()
        row = None if self._opened("admin.noting was called").database.by_door else await self.scribe.begin(deed)
        try:
            yield came
        except Exception as error:
            came[:] = [type(error).__name__]
            raise
        finally:
            if row is not None:
                with suppress(*DATABASE_ERRORS):
                    await self.scribe.end(row, ", ".join(came) or "done")
            self.scribe.tell(deed, ", ".join(came) or "done")

    async def audit(self, *, before: int | None = None, limit: int = 100, **which: Unpack[AuditFilter]) -> Audited:
        """What operators did, the newest first: who, what, to what, why, when, and what came of it.

        By Python, the command line, the dashboard; and by SQL, where a trigger can tell. It is kept for `keep_audit`.
        """
        check_instants(which, "since", "until")
        return await self._do("audit", lambda link: audit.listed(link, which, before=before, limit=limit))
