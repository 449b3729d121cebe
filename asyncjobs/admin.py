"""Operators' verbs: `jobs.admin`. The command line and the dashboard can do nothing that is not here.

Every verb says what it found and did: a `Verb` with its outcome and the status that the job had before. A job that is final never
changes, except by an explicit `retry`.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from asyncjobs.config import config_seconds
from asyncjobs.errors import BreakerNotFound, KeyNotFound, ScheduleNotFound, StateError
from asyncjobs.model.breaker import Opened as OpenedByHand
from asyncjobs.model.breaker import Policy, Reset
from asyncjobs.model.job import Job
from asyncjobs.model.outcome import Duration
from asyncjobs.runtime.opened import Opened, not_found
from asyncjobs.store import breakers, leases, overview, runners, schedules, serialized
from asyncjobs.store.breakers import BreakerState
from asyncjobs.store.database import Link
from asyncjobs.store.failures import is_rolled_back
from asyncjobs.store.leases import Lease
from asyncjobs.store.overview import Count
from asyncjobs.store.runners import RunnerRow
from asyncjobs.store.schedules import RunNow, ScheduleState
from asyncjobs.store.serialized import KeyState, Place, Verb
from asyncjobs.telemetry.events import BreakerMoved

T = TypeVar("T")

_TRIES: Final = 5
_BATCH: Final = 1_000


class Admin:
    """What operators do. The app must be open; it need not run jobs."""

    def __init__(self, opened: Callable[[str], Opened]) -> None:
        self._opened = opened

    async def stats(self) -> list[Count]:
        """The unfinished jobs by queue, type and status.

        `served` is False for jobs that no live runner would take: a type without a handler anywhere, a queue that nobody serves.
        They stay pending until a runner that knows them comes.
        """
        return await self._do("stats", overview.stats)

    async def get(self, job_id: int, /) -> Job | None:
        """The job as it is now, also while it waits for its key, or None."""
        return await self._opened("admin.get was called").get(job_id)

    async def trace(self, correlation_id: str, /, *, limit: int = 1_000) -> list[Job]:
        """The jobs of one correlation id, those that wait among them, in the order in which they were made."""
        return await self._do("trace", lambda link: overview.trace(link, correlation_id, limit))

    async def leases(self) -> list[Lease]:
        """The duties that are done under a lease: who holds which, since when, and what its last pass did."""
        return await self._do("leases", leases.leases)

    async def runners(self, *, former: int = 100) -> list[RunnerRow]:
        """Who runs jobs: where, what, since when; and the last so many of those that ended, with `died_at` if they were lost."""
        return await self._do("runners", lambda link: runners.everybody(link, former))

    # Jobs.

    async def cancel(self, job_id: int, /, message: str = "cancelled by an operator") -> Verb:
        """Cancel a job; outcome `cancelled`, `requested` (it runs, and is asked to end) or `final`. JobNotFound."""
        return await self._verb("cancel", job_id, lambda link: serialized.cancel(link, job_id, message))

    async def retry(self, job_id: int, /, *, by: str = "operator") -> Verb:
        """Run a job now that is to be retried later or not due yet, or start over one that is dead or cancelled.

        A job that has kept its key (it halted it, or waits for its retry) keeps its place; one whose key has moved on goes to the
        end of the line. Outcome `retried`, `duplicate` (`other_id`: the live job that has its dedup key), or the status that does
        not allow it. JobNotFound.
        """
        return await self._verb("retry", job_id, lambda link: serialized.retry(link, job_id, by))

    async def retry_dead(
        self, *, key: str | None = None, type: str | None = None, limit: int = _BATCH, by: str = "operator"
    ) -> dict[int, Verb]:
        """Retry dead jobs whose letters nobody acknowledged, in the order in which they died: jobs of a key keep their order."""
        ids = await self._do("retry_dead", lambda link: serialized.dead(link, key, type, limit))
        return {job_id: await self.retry(job_id, by=by) for job_id in ids}

    # Keys.

    async def keys(self, *, after: str = "", limit: int = 100) -> list[KeyState]:
        """A page of the keys that have jobs, by name; the next page is `after` the last one's name."""
        return await self._do("keys", lambda link: serialized.keys(link, after, limit))

    async def key(self, key: str, /) -> KeyState:
        """One key: depth, head, state, and why it does not move. KeyNotFound when it is idle."""
        found = await self._do("key", lambda link: serialized.keys(link, "", 1, key))
        if not found:
            raise KeyNotFound(key)
        return found[0]

    async def line(self, key: str, /, *, limit: int = 100) -> list[Place]:
        """The first jobs of the key's line, the head first."""
        return await self._do("line", lambda link: serialized.line(link, key, limit))

    async def release_key(self, key: str, /) -> int:
        """Let a halted key go on without its head, which stays dead; returns that job's id.

        KeyNotFound when the key is idle. StateError says in which state it is when it is not halted.
        """
        halted_id, queues = await self._do("release_key", lambda link: serialized.release_key(link, key))
        if halted_id is None:
            raise await self._not_halted(key)
        self._announce(queues)
        return halted_id

    async def _not_halted(self, key: str) -> Exception:
        state = await self.key(key)
        return StateError(f'key "{key}" is not halted: its head is job {state.head_id}, {state.head_status}.')

    async def pause_key(self, key: str, /, *, reason: str | None = None, by: str | None = None) -> bool:
        """Run nothing more of this key until it is resumed, also after restarts; what runs goes on. False: it was paused.

        A key without jobs can be paused, too.
        """
        return await self._do("pause_key", lambda link: serialized.pause_key(link, key, reason, by))

    async def resume_key(self, key: str, /) -> bool:
        """Let a paused key go on. False: it was not paused."""
        resumed, queues = await self._do("resume_key", lambda link: serialized.resume_key(link, key))
        self._announce(queues)
        return resumed

    async def purge_key(self, key: str, /, message: str = "purged by an operator") -> list[int]:
        """Cancel every job of the key, those that wait and then the head; returns their ids. KeyNotFound when it is idle.

        A head that runs is asked to end. A halted key stays halted: release it.
        """
        await self.key(key)
        cancelled: list[int] = []
        while True:
            ids, head_id = await self._do("purge_key", lambda link: serialized.purge_key(link, key, message, _BATCH))
            cancelled += ids
            if len(ids) < _BATCH:
                break
        if head_id is not None and (await self.cancel(head_id, message)).outcome in {"cancelled", "requested"}:
            cancelled.append(head_id)
        return cancelled

    # Schedules.

    async def schedules(self) -> list[ScheduleState]:
        """Every schedule that was ever declared, by name: when it ticks, where it is, and why it does not tick if it does not."""
        return await self._do("schedules", schedules.listed)

    async def schedule(self, name: str, /) -> ScheduleState:
        """One schedule. ScheduleNotFound."""
        found = await self._do("schedule", lambda link: schedules.listed(link, name))
        if not found:
            raise ScheduleNotFound(name, [one.name for one in await self.schedules()])
        return found[0]

    async def disable_schedule(self, name: str, /, *, reason: str | None = None) -> bool:
        """Let a schedule tick no more until it is enabled, also after restarts and deployments. False: it was disabled so.

        ScheduleNotFound.
        """
        await self.schedule(name)
        return await self._do("disable_schedule", lambda link: schedules.disable(link, name, because="operator", reason=reason))

    async def enable_schedule(self, name: str, /) -> bool:
        """Let a disabled schedule tick again from now on: what came meanwhile was not missed. False: it was enabled.

        ScheduleNotFound. One that no runner declares any more is disabled again by the next runner that looks.
        """
        await self.schedule(name)
        enabled = await self._do("enable_schedule", lambda link: schedules.enable(link, name))
        self._opened("admin.enable_schedule was called").wakes.schedules()
        return enabled

    async def run_schedule(self, name: str, /) -> RunNow:
        """Make the schedule's job now, whether it is enabled or not; its ticks stay as they are, and see this job for overlaps.

        A live job that has its dedup key is answered instead. ScheduleNotFound.
        """
        made = await self._do("run_schedule", lambda link: schedules.run_now(link, name))
        if made is None:
            raise ScheduleNotFound(name, [one.name for one in await self.schedules()])
        if made.created:
            self._announce([made.queue])
        return made

    # Circuit breakers.

    async def breakers(self) -> list[BreakerState]:
        """Every circuit breaker that was ever declared, by service.

        One that is open and whose time is over says so until somebody calls the service. `declared` is False for those that this
        app does not declare (any more); the row may be deleted.
        """
        declared = self._opened("admin.breakers was called").breakers.services
        return await self._do("breakers", lambda link: breakers.listed(link, declared=declared))

    async def breaker(self, service: str, /) -> BreakerState:
        """One circuit breaker. BreakerNotFound."""
        everything = await self.breakers()
        for one in everything:
            if one.service == service:
                return one
        raise BreakerNotFound(service, [one.service for one in everything])

    async def reset_breaker(self, service: str, /) -> bool:
        """Close a circuit breaker, whatever opened it, and forget what was counted. False: there was nothing to do.

        BreakerNotFound.
        """
        former = await self.breaker(service)
        await self._move_breaker(service, Reset())
        return former.state != "closed" or former.failure_count > 0

    async def open_breaker(self, service: str, /, *, for_: Duration | None = None, reason: str | None = None) -> bool:
        """Open a circuit breaker until it is reset, or for so long: then it lets a probe through. False: it was open.

        Calls under way go on. Called again it sets time and reason anew. BreakerNotFound.
        """
        seconds = None if for_ is None else config_seconds(for_, name="for_", positive=True)
        former = await self.breaker(service)
        await self._move_breaker(service, OpenedByHand(seconds), seconds=seconds, reason=reason or "opened by an operator")
        return former.state != "open"

    async def _move_breaker(
        self, service: str, event: OpenedByHand | Reset, *, seconds: float | None = None, reason: str | None = None
    ) -> None:
        opened = self._opened("admin was called")
        happened = await self._do("breaker", lambda link: breakers.happen(link, event, Policy(service=service), reason=reason))
        opened.breakers.moved(service, happened)
        state = happened.seen.circuit.state
        opened.events.emit(BreakerMoved(service=service, formerly=happened.formerly, state=state, seconds=seconds, reason=reason))

    async def _verb(self, name: str, job_id: int, verb: Callable[[Link], Awaitable[Verb]]) -> Verb:
        done = await self._do(name, verb)
        tries = 1
        while done.outcome == "again" and tries < _TRIES:
            done = await self._do(name, verb)
            tries += 1
        if done.outcome == "unknown":
            raise not_found(job_id)
        self._announce(done.queues)
        return done

    async def _do(self, name: str, call: Callable[[Link], Awaitable[T]]) -> T:
        """The call's answer on a connection of the pool; again when the server resolved a conflict against it.

        StateError when somebody's open transaction holds what it needs for longer than a few seconds.
        """
        opened = self._opened(f"admin.{name} was called")
        for tries in range(1, _TRIES + 1):
            try:
                async with opened.pool.take() as link:
                    return await call(link)
            except Exception as error:
                if not is_rolled_back(error):
                    raise
                if tries == _TRIES:
                    raise StateError(f"{name}: another transaction holds the job or its key for too long: {error}.") from error
        raise AssertionError("unreachable")

    def _announce(self, queues: list[str]) -> None:
        wakes = self._opened("admin was called").wakes
        for queue in queues:
            wakes.pending(queue)
