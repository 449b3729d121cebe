"""Who is to be woken in this process when something changed, and whom to tell in the others.

The runners and waiters of a process register here; whatever makes a job pending (an enqueue, a promotion, an ack) calls here
once, and the parts in this process are woken in memory, the other processes by one NOTIFY.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable
from math import ceil
from typing import Final, Protocol

from asyncjobs.model.peers import Lot

#: What notifications begin with.
KINDS: Final = frozenset("qfdlksbpxt")
#: A runner's id has no more digits than this, whatever a stranger notifies.
_DIGITS: Final = 19
#: What becomes due, or expires, within this time is told to the promoters, the rest is found by their interval.
SOON_SECONDS: Final = 10.0
#: Of a queue with a lot: the kind, the number of jobs, the draw, and how often they were passed on.
_LOT: Final = re.compile(r"[qf]([1-9][0-9]{0,9})\.([0-9]{1,10})(?:\.([0-9]))?", re.ASCII)
#: In so many seconds something is due; of anything else, now.
_SECONDS: Final = re.compile(r"[0-9]{1,2}(\.[0-9])?", re.ASCII)


class Woken(Protocol):
    """What a runner does about changes."""

    def wake_queue(self, queue: str, *, front: bool) -> None:
        """Jobs of the queue became pending; `front`: perhaps before those that were claimed last."""

    def answers_for(self, queue: str, type: str, version: int) -> bool:
        """Whether it claims a job of the queue that is pending now, and answers for it: then nobody else need be told."""
        ...

    def hear_queue(self, queue: str, lot: Lot | None, *, front: bool, is_own: bool) -> None:
        """The same, as a notification says, which this process (`is_own`) or another has sent; without a lot all are called."""

    def wake_due(self, seconds: float) -> None:
        """Something becomes due in so many seconds."""

    def wake_keys(self) -> None:
        """Heads of keys are to be dispatched."""

    def wake_schedules(self) -> None:
        """A schedule was enabled."""

    def wake_pauses(self) -> None:
        """Something was paused or resumed, or a runner came that serves what no other did."""

    def wake_requests(self) -> None:
        """The end of jobs that run was asked for."""

    def wake_leases(self, runner_id: int) -> None:
        """Leases are free, and this runner is to take them."""

    def wake(self) -> None:
        """Anything may have changed: no notification was heard for a while."""


class Wakes:
    """The parts of this process that want to know, and the way to the other processes."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._woken: list[Woken] = []
        self._waiters: dict[int, list[Callable[[int], None]]] = {}
        self._breakers: Callable[[], None] = _nothing

    def add(self, woken: Woken) -> Callable[[], None]:
        """Tell `woken` about changes, until the returned function is called."""
        self._woken.append(woken)
        return lambda: self._woken.remove(woken)

    def pending(
        self, queue: str, *, front: bool = False, count: int | None = None, passes: int = 0, in_process_only: bool = False
    ) -> None:
        """So many jobs of `queue` became pending, or were passed on, so often. None: it is not known how many, and all runners
        are to look.
        """
        for woken in tuple(self._woken):
            woken.wake_queue(queue, front=front)
        if not in_process_only:
            self._notify(f"{'f' if front else 'q'}{count or ''}{f'.{passes}' if passes else ''}:{queue}")

    def enqueued(self, queue: str, type: str, version: int, *, front: bool, in_process_only: bool = False) -> None:
        """One job of `queue` was enqueued, and is pending. The others are told unless a runner of this process answers for it.
        (None does for an urgent one: who passes it on has no hint for it.)
        """
        is_taken = not front and any(woken.answers_for(queue, type, version) for woken in self._woken)
        self.pending(queue, front=front, count=1, in_process_only=is_taken or in_process_only)

    def became_pending(self, queues: Iterable[str], *, urgent: Container[str] = (), for_all: Iterable[str] = ()) -> None:
        """Of each job that became pending its queue. `urgent` ones: it may be before those claimed last. Those `for_all`
        concern all runners: any number of jobs may be claimed there now, or jobs of which each runner takes one.
        """
        counts: dict[str, int | None] = {**Counter(queues), **dict.fromkeys(for_all)}
        for queue, count in counts.items():
            self.pending(queue, front=queue in urgent, count=count)

    def due_in(self, seconds: float, *, in_process_only: bool = False) -> None:
        """A job becomes due in so many seconds."""
        for woken in tuple(self._woken):
            woken.wake_due(seconds)
        if not in_process_only:
            self._notify("d")

    def expires_in(self, seconds: float, *, in_process_only: bool = False) -> None:
        """A job that waits expires in so many seconds. The others are told if that is soon, and to a tenth of a second: there may
        be many such jobs, and a promoter that knows of an earlier one has nothing to do.
        """
        for woken in tuple(self._woken):
            woken.wake_due(seconds)
        if seconds < SOON_SECONDS and not in_process_only:
            self._notify(f"d:{ceil(seconds * 10) / 10:g}")

    def lease_free(self, runner_id: int, *, in_process_only: bool = False) -> None:
        """Leases are free, and that runner is to take them."""
        for woken in tuple(self._woken):
            woken.wake_leases(runner_id)
        if not in_process_only:
            self._notify(f"l:{runner_id}")

    def heard(self, payload: str) -> None:
        """Another process notified this. What is not understood (a newer program's) wakes no part."""
        kind, _, queue = payload.partition(":")
        if kind[:1] in {"q", "f"}:
            self._heard_queue(kind, queue, is_own=False)
        elif kind == "d":
            self.due_in(float(queue) if _SECONDS.fullmatch(queue) else 0.0, in_process_only=True)
        elif kind == "l" and queue.isdecimal() and len(queue) <= _DIGITS:
            self.lease_free(int(queue), in_process_only=True)
        elif kind == "k":
            for woken in tuple(self._woken):
                woken.wake_keys()
        elif kind == "s":
            self.schedules(in_process_only=True)
        elif kind == "b":
            self.breakers(in_process_only=True)
        elif kind == "p":
            self.pauses(in_process_only=True)
        elif kind == "x":
            self.requested(in_process_only=True)

    def heard_own(self, payload: str) -> None:
        """This process notified that, and was woken then. But a lot may have called one of its runners."""
        kind, _, queue = payload.partition(":")
        if kind[:1] in {"q", "f"} and len(kind) > 1:
            self._heard_queue(kind, queue, is_own=True)

    def _heard_queue(self, kind: str, queue: str, *, is_own: bool) -> None:
        lot = None
        if len(kind) > 1:
            found = _LOT.fullmatch(kind)
            if found is None:
                return
            lot = Lot(int(found[1]), int(found[2]), int(found[3] or 0))
        for woken in tuple(self._woken):
            woken.hear_queue(queue, lot, front=kind[0] == "f", is_own=is_own)

    def requested(self, *, in_process_only: bool = False) -> None:
        """The end of jobs that run was asked for: who runs them has to look."""
        for woken in tuple(self._woken):
            woken.wake_requests()
        if not in_process_only:
            self._notify("x")

    def schedules(self, *, in_process_only: bool = False) -> None:
        """A schedule was enabled: when it ticks next has to be found out."""
        for woken in tuple(self._woken):
            woken.wake_schedules()
        if not in_process_only:
            self._notify("s")

    def watch_breakers(self, changed: Callable[[], None]) -> None:
        """Tell this one when a circuit breaker has changed elsewhere."""
        self._breakers = changed

    def breakers(self, *, in_process_only: bool = False, others_only: bool = False) -> None:
        """A circuit breaker has changed: parts that remember how it was have to look."""
        if not others_only:
            self._breakers()
        if not in_process_only:
            self._notify("b")

    def pauses(self, *, in_process_only: bool = False) -> None:
        """Rows may not say any more what is paused and what is not."""
        for woken in tuple(self._woken):
            woken.wake_pauses()
        if not in_process_only:
            self._notify("p")

    def missed(self) -> None:
        """Notifications may have been missed until now."""
        self._breakers()
        for woken in tuple(self._woken):
            woken.wake()

    def wait_for(self, job_ids: Collection[int], callback: Callable[[int], None]) -> Callable[[], None]:
        """Call back with the id of each of the jobs that ends in this process, until the returned function is called."""
        for job_id in job_ids:
            self._waiters.setdefault(job_id, []).append(callback)

        def forget() -> None:
            for job_id in job_ids:
                callbacks = self._waiters.get(job_id, [])
                if callback in callbacks:
                    callbacks.remove(callback)
                if not callbacks:
                    self._waiters.pop(job_id, None)

        return forget

    @property
    def has_waiters(self) -> bool:
        """Whether a task waits for the end of a job."""
        return bool(self._waiters)

    def ended(self, job_id: int) -> None:
        """The job ended."""
        for callback in tuple(self._waiters.get(job_id, ())):
            callback(job_id)


def _nothing() -> None:
    pass
