"""The shape of a runner, held while a world is simulated: what no promise of a job's would show, or late."""

from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from asyncjobs.model.claim import Ack
from asyncjobs.runtime.call_line import CallLine
from asyncjobs.runtime.coordinator import Coordinator
from asyncjobs.runtime.keys import Actor
from tests.simulation.world import World


@contextmanager
def held(world: World) -> Generator[None]:
    """What is out of shape meanwhile is a violation."""
    with ExitStack() as stack:
        for one in (_keys(world), _calls(world), _slots(world)):
            for each in one:
                stack.enter_context(each)
        yield


def _keys(world: World) -> list[Any]:
    """Outcomes of jobs with a key come to the line by way of an actor."""
    passed: set[int] = set()
    note, put = Actor._note, CallLine.put

    def noted(self: Actor, item: Any) -> None:
        if isinstance(item, tuple):
            passed.add(item[1].token)
        note(self, item)

    def putting(self: CallLine, ack: Ack) -> None:
        if ack.key_queue is not None and ack.token not in passed:
            world.violations.append(f"shape: the outcome of job {ack.id}, which has a key, went around its actor")
        put(self, ack)

    return [patch.object(Actor, "_note", noted), patch.object(CallLine, "put", putting)]


def _calls(world: World) -> list[Any]:
    """One call of a line is under way."""
    under_way: Counter[CallLine] = Counter()
    call = CallLine._call

    async def calling(self: CallLine, acks: Any, send: Any) -> Any:
        under_way[self] += 1
        if under_way[self] > 1:
            world.violations.append("shape: two calls of one line are under way")
        try:
            return await call(self, acks, send)
        finally:
            under_way[self] -= 1

    return [patch.object(CallLine, "_call", calling)]


def _slots(world: World) -> list[Any]:
    """As many attempts have a slot of a kind as there are such slots, and each has one."""
    start = Coordinator.start

    def starting(self: Coordinator, job: Any, lane: str | None) -> None:
        start(self, job, lane)
        slots = self.lanes[lane].slots
        running = sum(one.claimed.queue == self.queue and one.lane == lane for one in self._shared.attempts.all)
        if running > slots.taken:
            world.violations.append(f"P13: {running} attempts have {slots.taken} slots of {slots.size}")

    return [patch.object(Coordinator, "start", starting)]
