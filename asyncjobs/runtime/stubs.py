"""What a stub does not say is its handler's.

A program that has only a stub knows neither the handler's timeout nor its attempts, its priority, or what follows when it dies.

1. The row of a job of a stub says in `on_dead` that its handler is to be asked: `ask`, or `ask all` when nothing was said about
   attempts. No timeout says nothing, nor does the ordinary priority.
2. The runner that claims it writes what the handler declares (of a lane, its timeout), before the handler starts. From then on
   the row is like any other: its death halts its key or does not, whichever runner sees it die.
3. A runner that cannot write it gives the job back with its attempt, for a while. One that dies in between loses an attempt that
   never began; the next asks again.
4. What ends before it was ever claimed, by an operator's hand, ends as an ordinary job does: its key goes on.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final, Protocol

import msgspec

from asyncjobs.model.claim import Claimed, Finished
from asyncjobs.model.new_row import ORDINARY_PRIORITY, OnDead
from asyncjobs.settings import Queue, Settings
from asyncjobs.store import stubs
from asyncjobs.store.database import Link
from asyncjobs.store.stubs import Asked
from asyncjobs.telemetry.events import DatabaseFailed, Events

#: For how long a job is given back when its handler's word could not be written.
ASK_AGAIN_SECONDS: Final = 5.0
#: Of an enqueue through a stub: what follows when the job dies is the handler's, and so is all that was not said.
ASK_ALL: Final = "ask all"


class SaysOfJobs(Protocol):
    """What a handler says of its jobs."""

    timeout_seconds: float | None
    max_attempts: int | None
    priority: int
    on_dead: OnDead


class Stubs:
    """Completes claimed jobs of stubs by what their handlers declare."""

    def __init__(self, definitions: Mapping[str, SaysOfJobs], queues: Iterable[Queue], settings: Settings) -> None:
        self._definitions = definitions
        self._settings = settings  # whose defaults come last
        self._lanes = {(queue.name, name): lane.timeout_seconds for queue in queues for name, lane in queue.lanes.items()}

    async def ask(self, link: Link, finished: Finished, events: Events) -> tuple[Finished, list[Claimed]]:
        """The answer with the claimed jobs of stubs as their handlers have them; or, where that could not be written, without
        them, and they are to be given back: none of them has begun.
        """
        asked = [self._completed(job, on_dead) for job, on_dead in finished.asking]
        try:
            await stubs.fill_in(link, asked)
        except Exception as error:  # noqa: BLE001 - the pass goes on with the other jobs
            events.emit(DatabaseFailed(during="fill_in", error=error))
            return msgspec.structs.replace(finished, asking=[]), [job for job, _ in finished.asking]
        return msgspec.structs.replace(finished, claimed=[*finished.claimed, *(one.job for one in asked)], asking=[]), []

    def _completed(self, job: Claimed, on_dead: str) -> Asked:
        definition = self._definitions[job.type]
        timeout = (
            job.timeout_seconds
            or definition.timeout_seconds
            or self._lanes.get((job.queue, job.lane or ""))
            or self._settings.timeout
        )
        full = msgspec.structs.replace(
            job,
            timeout_seconds=None if timeout == inf else timeout,
            max_attempts=(definition.max_attempts or self._settings.max_attempts) if on_dead == ASK_ALL else job.max_attempts,
            priority=definition.priority if job.priority == ORDINARY_PRIORITY else job.priority,
        )
        return Asked(job=full, on_dead=definition.on_dead)
