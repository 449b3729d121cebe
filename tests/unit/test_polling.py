"""The time-out of coordinators: how often it rings, and how many of a fleet's look in an interval."""

import heapq
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from asyncjobs.runtime import polling
from asyncjobs.runtime.polling import LOOK_TOGETHER, MOST_TIMES, Polling

INTERVAL = 5.0


class Clock:
    """Virtual time, and timers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        loop = SimpleNamespace(call_later=self.later)
        monkeypatch.setattr(polling, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))

    def later(self, seconds: float, what: Callable[[], None]) -> Any:
        self._count += 1
        heapq.heappush(self.timers, (self.now + seconds, self._count, what))
        return SimpleNamespace(cancel=lambda: None)

    def run(self, until: float) -> None:
        while self.timers and self.timers[0][0] <= until:
            self.now, _, what = heapq.heappop(self.timers)
            what()
        self.now = until


class Fleet:
    """Runners whose time-outs have begun at any time."""

    def __init__(self, clock: Clock, count: int, random: Random) -> None:
        self.clock = clock
        self.alive = count
        self.looks: list[float] = []
        for number in range(count):
            one = Polling(lambda: INTERVAL, lambda: self.alive)
            one.add(lambda one=one, number=number: self._look(one, number))  # type: ignore[misc]
            clock.later(random.uniform(0, INTERVAL), one.begin)

    def _look(self, one: Polling, number: int) -> None:
        if number < self.alive:
            self.looks.append(self.clock.now)
            one.begin()

    def waits(self, since: float, until: float) -> list[float]:
        """How long a job that becomes pending in each tenth of a second waits for a look."""
        waits, looks, at = list[float](), iter(self.looks), 0.0
        for tenth in range(int(since * 10), int(until * 10)):
            while at < tenth / 10:
                at = next(looks)
            waits.append(at - tenth / 10)
        return waits


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(polling, "CHANCE", Random(7))
    return Clock(monkeypatch)


@pytest.mark.parametrize("count", [1, 2, LOOK_TOGETHER])
def test_up_to_four_look_each_time(clock: Clock, count: int) -> None:
    fleet = Fleet(clock, count, Random(1))
    clock.run(20 * INTERVAL)
    assert len(fleet.looks) in {19 * count, 20 * count}
    assert max(fleet.waits(0, 19 * INTERVAL)) <= 2 * INTERVAL  # the first begins within an interval


@pytest.mark.parametrize(("count", "looks"), [(5, 4.4), (16, 5.0), (32, 6.5), (100, 15.0), (200, 28.0)])
def test_of_more_some_look_and_hardly_ever_none(clock: Clock, count: int, looks: float) -> None:
    fleet = Fleet(clock, count, Random(1))
    clock.run(1000 * INTERVAL)
    assert len(fleet.looks) <= 1000 * looks
    waits = fleet.waits(100, 900 * INTERVAL)
    assert sum(waits) / len(waits) < INTERVAL / 2
    assert sum(wait > INTERVAL for wait in waits) <= len(waits) / 100


def test_each_looks_at_the_eighth_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "CHANCE", SimpleNamespace(random=lambda: 0.999))
    fleet = Fleet(clock, 1, Random(1))
    fleet.alive = 100
    clock.run(2.5 * MOST_TIMES * INTERVAL)
    assert len(fleet.looks) == 2
    assert fleet.looks[1] - fleet.looks[0] == pytest.approx(MOST_TIMES * INTERVAL)


def test_others_take_over_the_share_of_runners_that_died(clock: Clock) -> None:
    fleet = Fleet(clock, 100, Random(1))
    clock.run(100 * INTERVAL)
    fleet.alive = LOOK_TOGETHER
    since = len(fleet.looks)
    clock.run(120 * INTERVAL)
    assert len(fleet.looks) - since == 20 * LOOK_TOGETHER
