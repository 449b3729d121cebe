"""The coordinators of one runner, by queue, for the parts that ask something of all of them."""

from collections.abc import Callable, Iterator

from asyncjobs.model.claim import Claimed
from asyncjobs.runtime.coordinator import Coordinator


class Queues:
    """Made empty, since the coordinators need parts that need this."""

    def __init__(self) -> None:
        self._coordinators: dict[str, Coordinator] = {}
        self._ahead: list[Coordinator] = []  # those that claim ahead

    def add(self, coordinator: Coordinator) -> None:
        """The coordinator of another queue."""
        self._coordinators[coordinator.queue] = coordinator
        if coordinator.stock.most:
            self._ahead.append(coordinator)

    def __iter__(self) -> Iterator[Coordinator]:
        return iter(self._coordinators.values())

    def __getitem__(self, queue: str) -> Coordinator:
        return self._coordinators[queue]

    def get(self, queue: str) -> Coordinator | None:
        """The queue's, if it is served here."""
        return self._coordinators.get(queue)

    def look_at_the_front(self) -> None:
        """Let all look for work, also for what may have been passed over."""
        for coordinator in self:
            coordinator.wake(front=True)

    def stop(self) -> None:
        """Claim nothing any more, and give back what waits for a slot."""
        for coordinator in self:
            coordinator.stop()

    def give_back_waiting(self, condition: Callable[[Claimed], bool] = lambda _: True) -> None:
        """Give back the jobs that wait for a slot, all or those of which this is true."""
        for coordinator in self._ahead:
            coordinator.give_back_waiting(condition)

    @property
    def claims_ahead(self) -> bool:
        """Whether any claims more than it has slots for."""
        return bool(self._ahead)

    @property
    def waiting(self) -> int:
        """How many jobs were claimed ahead, and wait for a slot."""
        return sum(len(coordinator.stock) for coordinator in self._ahead)

    def is_ample(self) -> bool:
        """Whether so much waits for slots that nothing is urgent."""
        return bool(self._ahead) and any(coordinator.stock.is_ample for coordinator in self._ahead)

    @property
    def free_slots(self) -> int:
        """How many slots are free."""
        return sum(lane.slots.free for coordinator in self for lane in coordinator.lanes.values())
