"""Which part of a runner is woken by what: the receiving end of `wakes`."""

from collections.abc import Callable, Sequence

from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.runtime.duty_set import Duties
from asyncjobs.runtime.giving_back import GivingBack
from asyncjobs.runtime.heartbeat import Heartbeat
from asyncjobs.runtime.requests import Requests


class WokenParts:
    """The parts of one runner, as `wakes` sees them."""

    def __init__(
        self,
        coordinators: Sequence[Coordinator],
        duties: Duties,
        requests: Requests,
        heartbeat: Heartbeat,
        giving_back: GivingBack,
        *,
        runner_id: Callable[[], int],
    ) -> None:
        self._coordinators = coordinators
        self._duties = duties
        self._requests = requests
        self._heartbeat = heartbeat
        self._giving_back = giving_back
        self._runner_id = runner_id

    def wake_all(self) -> None:
        """Anything may have changed: nobody listened for a while."""
        for coordinator in self._coordinators:
            coordinator.wake(front=True)
        self._duties.promoter.wake()
        self._duties.serializer.wake()
        self._duties.pauser.wake()
        self._duties.scheduler.wake()
        self._requests.wake()
        self._giving_back.wake()

    def wake_queue(self, queue: str, *, front: bool) -> None:
        """Jobs of the queue became pending."""
        for coordinator in self._coordinators:
            if coordinator.queue == queue:
                coordinator.wake(front=front)

    def wake_keys(self) -> None:
        """Heads of keys are to be dispatched."""
        self._duties.serializer.wake()

    def wake_schedules(self) -> None:
        """A schedule was enabled."""
        self._duties.scheduler.wake()

    def wake_pauses(self) -> None:
        """Something was paused or resumed."""
        self._duties.pauser.wake()
        self._giving_back.wake()

    def wake_requests(self) -> None:
        """The end of jobs that run was asked for."""
        self._requests.wake()

    def wake_due(self, seconds: float) -> None:
        """Something becomes due in so many seconds."""
        self._duties.promoter.hint(seconds)

    def wake_leases(self, runner_id: int) -> None:
        """Leases are free, and that runner is to take them."""
        if runner_id == self._runner_id():
            self._heartbeat.beat_now()
        else:
            self._duties.scheduler.handed_over()
