"""When the rows are brought in step with what is paused: the sentences of `runtime/pauser.py` about its passes."""

from typing import Any, cast

import pytest

from asyncjobs.runtime.pauser import Pauser
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.store import pauses
from asyncjobs.store.database import Link
from asyncjobs.store.pauses import Converged
from asyncjobs.telemetry.events import Events
from tests.support.services import Woken


class Rows:
    """What converging finds, how long it takes, and how it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.cost = 0.0
        self.found = Converged(held=0, resumed=0, queues=[], more=False)
        self.asked: list[tuple[Any, ...]] = []
        self.notified: list[str] = []
        self.woken = Woken()
        wakes = Wakes(self.notified.append)
        wakes.add(self.woken)
        monkeypatch.setattr(pauses, "converge", self._converge)
        self.pauser = Pauser(cast("Link", None), wakes, events=Events(), interval_seconds=15.0)
        self.pauser._monotonic = lambda: self.now

    async def _converge(self, _: Link, batch: int, *, window: int, grace_seconds: float) -> Converged:
        self.asked.append((batch, window, grace_seconds))
        self.now += self.cost
        return self.found


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    return Rows(monkeypatch)


async def test_it_goes_on_at_once_as_long_as_there_is_something_to_move(rows: Rows) -> None:
    rows.found = Converged(held=1000, resumed=0, queues=[], more=True)
    rows.cost = 2.0
    assert await rows.pauser.pass_() == 0.0


async def test_it_comes_back_after_its_interval(rows: Rows) -> None:
    assert await rows.pauser.pass_() == 15.0


async def test_a_pass_is_followed_by_a_pause_of_twenty_times_what_it_took(rows: Rows) -> None:
    rows.cost = 2.0
    assert await rows.pauser.pass_() == 40.0


async def test_what_comes_back_wakes_its_queues_here_and_elsewhere_and_is_counted(rows: Rows) -> None:
    rows.found = Converged(held=2, resumed=3, queues=["mail"], more=False)
    await rows.pauser.pass_()
    assert rows.woken.queues == [("mail", True)]
    assert rows.notified == ["f:mail"]
    assert rows.pauser.items == 5


async def test_what_nobody_serves_is_left_for_five_minutes(rows: Rows) -> None:
    await rows.pauser.pass_()
    assert rows.asked == [(1000, 1000, 300.0)]


async def test_who_starts_does_one_pass_itself_whoevers_turn_it_is(rows: Rows) -> None:
    await rows.pauser.aside()
    assert len(rows.asked) == 1
    await rows.pauser.aside()
    assert len(rows.asked) == 1, "once"
