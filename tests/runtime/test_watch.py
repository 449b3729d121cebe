"""When many jobs are looked at, and what a look may miss."""

from typing import Any, cast

import pytest

from asyncjobs.model.ending import Ending
from asyncjobs.runtime.wakes import Wakes
from asyncjobs.runtime.watch import Pace, Watch


class Rig:
    """An app of which a test says what has ended, and what ends while it is looked at."""

    def __init__(self) -> None:
        self.wakes = Wakes(lambda _: None)
        self.ended: set[int] = set()
        self.looks: list[list[int]] = []
        self.asked: list[bool] = []  # by look, whether it asked for what is not there
        self.told = 0
        self.during: list[int] = []

    async def ended_among(self, ids: list[int], *, gone: bool) -> list[Ending]:
        self.looks.append(list(ids))
        self.asked.append(gone)
        found = [Ending(id, "completed", "t") for id in ids if id in self.ended]
        for job_id in self.during:
            self.end(job_id)
        self.during = []
        return found

    def end(self, job_id: int) -> None:
        self.ended.add(job_id)
        self.wakes.ended(job_id)

    def tell(self) -> None:
        self.told += 1

    def watch(self, count: int) -> Watch:
        return Watch(cast("Any", self), range(1, count + 1), self.tell)


async def test_what_ends_while_it_is_looked_at_is_looked_at_again_at_once() -> None:
    rig = Rig()
    watch = rig.watch(3)
    rig.end(1)
    rig.during = [2, 3]  # in the look's statement, and too late for its snapshot
    assert [one.id for one in await watch.look(everywhere=True)] == [1]
    assert watch.has_all, "nothing else is to be waited for"
    assert [one.id for one in await watch.look(everywhere=False)] == [2, 3]
    assert not watch.missing


async def test_only_what_was_told_is_looked_at_between_polls() -> None:
    rig = Rig()
    watch = rig.watch(4)
    rig.end(3)
    await watch.look(everywhere=False)
    await watch.look(everywhere=False)
    await watch.look(everywhere=True)
    assert rig.looks == [[3], [1, 2, 4]]


async def test_whether_a_job_is_there_is_asked_once_of_each_and_when_a_look_found_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("asyncjobs.runtime.watch.BATCH", 2)
    rig = Rig()
    watch = rig.watch(5)
    rig.ended = {1, 2, 3, 4}
    for _ in range(3):
        await watch.look(everywhere=True)
    assert (rig.looks, rig.asked) == ([[1, 2], [3, 4], [5]], [True, True, True])
    rig = Rig()
    watch = rig.watch(2)
    for ended in ({1}, {1}, {1}, {1, 2}):
        rig.ended = ended
        await watch.look(everywhere=True)
    assert rig.asked == [True, False, True, True]


async def test_who_waits_is_woken_for_the_first_and_for_the_last_that_ends() -> None:
    rig = Rig()
    watch = rig.watch(1_000)
    for job_id in range(1, 1_001):
        rig.end(job_id)
    assert rig.told == 2, "a turn for each of ten thousand takes longer than their jobs"
    watch.close()
    assert not rig.wakes.has_waiters


def test_looks_are_quick_for_few_and_three_a_second_for_many_or_in_time() -> None:
    for missing, first in ((1, 0.02), (100, 0.02), (1_000, 0.2), (10_000, 1 / 3)):
        pace, now = Pace(missing, 0.0), 0.0
        assert pace.is_poll_due(now)
        pace.looked(now, began_at=now, everywhere=True, missing=missing)
        assert pace.next_at(has_news=True) <= max(first * 1.5, 1 / 3)
        looks = []
        while now < 100:
            now = pace.next_at(has_news=True)
            looks.append(now)
            pace.looked(now, began_at=now, everywhere=pace.is_poll_due(now), missing=missing)
        assert len([at for at in looks if at >= 10]) <= 3 * 90 + 2
        assert len(looks) <= 3 * 100 + (10 if missing < 10_000 else 1)


def test_where_nothing_is_told_half_a_second_passes_between_looks() -> None:
    pace, now = Pace(10_000, 0.0), 0.0
    for _ in range(10):
        pace.looked(now, began_at=now, everywhere=True, missing=10_000)
        now = pace.next_at(has_news=False)
        assert pace.is_poll_due(now)
    pace.looked(now, began_at=now, everywhere=True, missing=10_000)
    assert pace.next_at(has_news=False) - now == 0.5


@pytest.mark.parametrize("seconds", [0.4, 0.7, 1.0, 1.5, 3.0, 20.0])
@pytest.mark.parametrize("begins", [0.0, 0.2, 7.0])
def test_the_last_of_many_that_end_elsewhere_is_seen_soon(seconds: float, begins: float) -> None:
    """They end at an even pace; a look takes 20 ms."""
    pace, now, looks = Pace(10_000, 0.0), 0.0, 0
    missing = 10_000
    while missing:
        missing = 10_000 - int(10_000 * min(max(now - begins, 0.0) / seconds, 1.0))
        now += 0.02
        looks += 1
        pace.looked(now, began_at=now - 0.02, everywhere=True, missing=missing)
        if missing:
            now = max(pace.next_at(has_news=False), now)
            assert pace.is_poll_due(now)
    assert looks <= 2 + 3 * now
    assert now <= begins + 1.08 * seconds + (0.15 if begins < 1 else 0.5)
