"""Running services in tests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

from asyncjobs.model.peers import Lot


class Runs(Protocol):
    """What is run until it is cancelled: a service, a part."""

    async def run(self) -> None: ...


@asynccontextmanager
async def running(*services: Runs) -> AsyncGenerator[None]:
    """Run the services while the context is open. One that ended with an error fails the test."""
    tasks = [asyncio.create_task(service.run()) for service in services]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        endings = await asyncio.gather(*tasks, return_exceptions=True)
    for ending in endings:
        if isinstance(ending, Exception):
            raise ending


class Woken:
    """Notes what a runner would be woken for."""

    def __init__(self) -> None:
        self.queues: list[tuple[str, bool]] = []
        self.lots: list[tuple[str, Lot, bool, bool]] = []
        self.due: list[float] = []
        self.keys = 0
        self.schedules = 0
        self.pauses = 0
        self.requests = 0
        self.leases: list[int] = []
        self.all = 0
        self.is_free = False

    def wake_queue(self, queue: str, *, front: bool) -> None:
        self.queues.append((queue, front))

    def answers_for(self, queue: str, type: str, version: int) -> bool:
        del queue, type, version
        return self.is_free

    def hear_queue(self, queue: str, lot: Lot | None, *, front: bool, is_own: bool) -> None:
        if lot is None:
            self.wake_queue(queue, front=front)
        else:
            self.lots.append((queue, lot, front, is_own))

    def wake_due(self, seconds: float) -> None:
        self.due.append(seconds)

    def wake_keys(self) -> None:
        self.keys += 1

    def wake_schedules(self) -> None:
        self.schedules += 1

    def wake_pauses(self) -> None:
        self.pauses += 1

    def wake_requests(self) -> None:
        self.requests += 1

    def wake_leases(self, runner_id: int) -> None:
        self.leases.append(runner_id)

    def wake(self) -> None:
        self.all += 1
