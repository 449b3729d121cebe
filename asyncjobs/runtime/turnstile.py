"""Which types a runner may claim now: those whose circuit breaker is not closed are left out, or let in as probes.

1. A type whose breaker is closed is claimed like any other. One whose breaker is open is not claimed at all, by this runner's
   copy of the breaker's state: a job that slips through meets CircuitOpen, and is snoozed.
2. When the breaker lets probes through, this runner claims at most as many jobs of all its types together, from the front of the
   queue, so that one job finds out whether the service is back, and the others keep their places. Each is counted until its
   attempt ends, or for as long as a probe may take; so a handler that hangs before it calls the service does not keep others out.
   Several runners may each claim one; those that are not let through are snoozed.
3. Looking for a probe costs a scan over all that is pending before it. One that found too few is not repeated before twenty
   times its cost, and 0.1 s, have passed; a scan that wanted one meanwhile looks then.
4. Whenever what a breaker lets through changes, the coordinators look again, at the front: what waited has old places.
5. Jobs that this runner claimed ahead of its slots while the breaker was closed are given back when it is not: they are held, but
   for those that are counted as probes.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from asyncjobs.model.claim import Claimed, Probe
from asyncjobs.model.scan import COST_RATIO
from asyncjobs.runtime.breakers import Breakers

_SHORTEST_HOLD_SECONDS: Final = 0.1


class _Guarded(msgspec.Struct):
    """The types of one service here, and the jobs of them that were claimed as probes."""

    types: tuple[str, ...]
    running: dict[tuple[int, int], float]  # job and token -> when it counts no more
    hold_until: float = 0.0
    is_missed: bool = False  # a scan wanted a probe before that


class _Queues(Protocol):
    """What waits for jobs, and what was claimed ahead."""

    def look_at_the_front(self) -> None:
        """Let all look for work, also for what may have been passed over."""

    def give_back_waiting(self, condition: Callable[[Claimed], bool], /) -> None:
        """Give back the jobs that wait for a slot of which this is true."""


class Turnstile:
    """One runner's. `types` are all it has handlers for, `guarded` those with a breaker, and its service."""

    def __init__(
        self,
        breakers: Breakers,
        types: Sequence[str],
        guarded: Mapping[str, str],
        queues: _Queues,
        *,
        later: Callable[[float, Callable[[], None]], object],
        hears: Callable[[], bool] = lambda: False,
    ) -> None:
        self._breakers = breakers
        self._open = [type for type in types if type not in guarded]
        self._service_of = {type: guarded[type] for type in types if type in guarded}
        services = sorted(set(self._service_of.values()))
        self._guarded = {
            service: _Guarded(tuple(type for type in types if self._service_of.get(type) == service), {}) for service in services
        }
        self._queues = queues
        self._later = later
        self._forget: Callable[[], None] = _nothing
        self._hears = hears  # whether notifications arrive here

    async def open(self) -> None:
        """Follow the breakers: returns when it is known how they are, or in a moment if the database does not answer."""
        self._forget = self._breakers.watch(self._changed, hears=self._hears)
        if self._guarded:
            await self._breakers.wait_looked()

    def close(self) -> None:
        """Follow them no more."""
        self._forget()
        self._forget = _nothing

    def types(self) -> Sequence[str]:
        """The types to claim as many of as there are slots."""
        free = [one.types for service, one in self._guarded.items() if self._breakers.free_probes(service) is None]
        return [*self._open, *(type for types in free for type in types)] if free else self._open

    def claimable(self) -> list[str]:
        """The types of which anything may be claimed, as many as there are slots or as probes."""
        return [*self._open, *(type for type, service in self._service_of.items() if self._breakers.free_probes(service) != 0)]

    def probes(self) -> list[Probe]:
        """The types of which only some may be claimed, and how many."""
        now = time.monotonic()
        found: list[Probe] = []
        for service, one in self._guarded.items():
            free = self._breakers.free_probes(service)
            if free:
                limit = min(free, self._breakers.policy(service).probes - self._running(one, now))
                if limit > 0 and now < one.hold_until:
                    one.is_missed = True
                elif limit > 0:
                    found.append(Probe(one.types, limit))
        return found

    def claimed(self, probes: Collection[Probe], claimed: Sequence[Claimed], seconds: float) -> None:
        """What a call that took `seconds` found of these probes, among other jobs."""
        now = time.monotonic()
        for probe in probes:
            service = self._service_of[probe.types[0]]
            one = self._guarded[service]
            lapses_at = now + self._breakers.policy(service).open_seconds
            found = {(job.id, job.token): lapses_at for job in claimed if job.type in probe.types}
            one.running.update(found)
            if found:
                self._later(lapses_at - now, self._wake)
            if len(found) < probe.limit:
                self._hold(one, max(_SHORTEST_HOLD_SECONDS, COST_RATIO * seconds))

    def is_held(self, job: Claimed) -> bool:
        """Whether a job that was claimed, and has not started, would not be claimed now."""
        service = self._service_of.get(job.type)
        if service is None or self._breakers.free_probes(service) is None:
            return False
        return (job.id, job.token) not in self._guarded[service].running

    def ended(self, job: Claimed) -> None:
        """An attempt has ended, or will not be made."""
        service = self._service_of.get(job.type)
        if service is not None and self._guarded[service].running.pop((job.id, job.token), None) is not None:
            self._wake()

    def _wake(self) -> None:
        self._queues.look_at_the_front()

    def _hold(self, one: _Guarded, seconds: float) -> None:
        one.hold_until = time.monotonic() + seconds
        one.is_missed = False
        self._later(seconds, lambda: self._wake() if one.is_missed else None)

    def _running(self, one: _Guarded, now: float) -> int:
        one.running = {key: lapses_at for key, lapses_at in one.running.items() if lapses_at > now}
        return len(one.running)

    def _changed(self, service: str) -> None:
        if service not in self._guarded:
            return
        free = self._breakers.free_probes(service)
        if free is not None:
            self._queues.give_back_waiting(self.is_held)
        if free != 0:
            self._guarded[service].hold_until = 0.0
            self._wake()


def _nothing() -> None:
    pass
